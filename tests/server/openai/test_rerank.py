from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from mrs.model_repo.repository import ModelRepository
from mrs.runtime.embedder import Embedder, open_embedder
from mrs.runtime.reranker import Reranker, open_reranker
from mrs.server.app import create_app
from mrs.server.embedding_queue import EmbeddingQueue
from mrs.server.model_catalog import SingleModel
from mrs.server.served_model import ModelDescription, ModelKind, ServedEmbedder, ServedReranker
from mrs.server.settings import ServerSettings
from tests import tiny_embedder, tiny_reranker
from tests.server.fake_engine import FakeEngine, served

DOCUMENTS = ["a", "a longer text of letters", "cat", "7 8 9"]


class Catalog(SingleModel):
    """A model that ranks beside the one that generates."""

    def __init__(self, model: ServedReranker | ServedEmbedder) -> None:
        super().__init__(served(FakeEngine()))
        self._ranker = model

    @asynccontextmanager
    async def lease_ranker(self, _: str | None) -> AsyncIterator[ServedReranker | ServedEmbedder]:
        yield self._ranker


def client_of(model: ServedReranker | ServedEmbedder) -> TestClient:
    return TestClient(create_app(Catalog(model), ServerSettings()), base_url="http://127.0.0.1")


def description(name: str, kind: ModelKind) -> ModelDescription:
    return ModelDescription(name, kind, 1_700_000_000, 48)


@pytest.fixture(scope="module")
def reranker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reranker]:
    folder = tmp_path_factory.mktemp("ranks")
    model = tiny_reranker.write_folder(folder / "model")
    version = tiny_reranker.export(model, ModelRepository(folder / "repository"))
    with open_reranker(version, threads=1) as reranker:
        yield reranker


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedder]:
    folder = tmp_path_factory.mktemp("vectors")
    version = tiny_embedder.export(
        tiny_embedder.write_folder(folder / "model"), ModelRepository(folder / "repository")
    )
    with open_embedder(version, threads=1) as embedder:
        yield embedder


@pytest.fixture
def http(reranker: Reranker) -> TestClient:
    return client_of(ServedReranker(description("ranks", ModelKind.RERANKER), reranker))


@pytest.fixture
def vectors(embedder: Embedder) -> TestClient:
    found = description("vectors", ModelKind.EMBEDDING)
    return client_of(ServedEmbedder(found, embedder))


def rank(http: TestClient, path: str = "/v1/rerank", **fields: Any) -> dict[str, Any]:
    reply = http.post(path, json={"query": "a cat", "documents": DOCUMENTS, **fields})
    assert reply.status_code == 200, reply.text
    return reply.json()  # type: ignore[no-any-return]


def test_all_documents_come_back_with_the_scores_of_the_model_the_best_first(
    http: TestClient, reranker: Reranker
) -> None:
    answer, expected = rank(http), reranker.score("a cat", DOCUMENTS)
    scores = {each["index"]: each["relevance_score"] for each in answer["results"]}
    assert sorted(scores) == [0, 1, 2, 3]
    np.testing.assert_allclose([scores[index] for index in range(4)], expected.values, rtol=1e-6)
    ranked = [each["relevance_score"] for each in answer["results"]]
    assert ranked == sorted(ranked, reverse=True)
    assert answer["model"] == "ranks"
    assert answer["id"].startswith("rerank-")
    assert answer["usage"]["total_tokens"] == sum(expected.tokens)
    assert answer["meta"]["tokens"]["input_tokens"] == sum(expected.tokens)


@pytest.mark.parametrize("path", ["/rerank", "/v2/rerank"])
def test_other_clients_ask_elsewhere(http: TestClient, path: str) -> None:
    assert rank(http, path)["results"] == rank(http)["results"]


def test_documents_may_be_objects(http: TestClient) -> None:
    objects = [{"text": text, "title": "ignored"} for text in DOCUMENTS]
    assert rank(http, documents=objects)["results"] == rank(http)["results"]


def test_the_best_few(http: TestClient) -> None:
    assert rank(http, top_n=2)["results"] == rank(http)["results"][:2]
    assert rank(http, top_n=99)["results"] == rank(http)["results"]


def test_documents_come_back_where_that_is_asked_for(http: TestClient) -> None:
    for each in rank(http, return_documents=True)["results"]:
        assert each["document"] == {"text": DOCUMENTS[each["index"]]}
    assert all("document" not in each for each in rank(http)["results"])


def test_equals_keep_their_order(http: TestClient) -> None:
    results = rank(http, documents=["same"] * 5)["results"]
    assert [each["index"] for each in results] == [0, 1, 2, 3, 4]


def test_more_documents_than_are_computed_at_once(http: TestClient, reranker: Reranker) -> None:
    documents = [f"{index} a" for index in range(70)]
    results = rank(http, documents=documents)["results"]
    expected = np.argsort(-reranker.score("a cat", documents).values, kind="stable")
    assert len(results) == 70
    assert results[0]["index"] == expected[0]


def test_what_is_too_long_is_cut_where_that_is_asked_for(http: TestClient) -> None:
    body = {"query": "q", "documents": ["a"] * 40 + ["a " * 100]}
    refused = http.post("/v1/rerank", json=body)
    assert refused.status_code == 400
    assert "Document 41 has 100 tokens" in refused.json()["error"]["message"]
    one = {"query": "q", "documents": ["a " * 100]}
    cut = http.post("/v1/rerank", json={**one, "truncate_sequence": True}).json()
    assert cut["usage"]["total_tokens"] == 48
    short = http.post("/v1/rerank", json={**one, "max_tokens_per_doc": 6}).json()
    assert short["usage"]["total_tokens"] == 10


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"query": None}, "query"),
        ({"query": ["a"]}, "query"),
        ({"query": "a " * 100}, "query"),
        ({"documents": None}, "documents"),
        ({"documents": []}, "documents"),
        ({"documents": "a"}, "documents"),
        ({"documents": ["a", 1]}, "documents[1]"),
        ({"documents": [{"title": "a"}]}, "documents[0].text"),
        ({"documents": ["a " * 100]}, "documents"),
        ({"documents": ["a"] * 2049}, "documents"),
        ({"top_n": 0}, "top_n"),
        ({"top_n": "2"}, "top_n"),
        ({"max_tokens_per_doc": 0}, "max_tokens_per_doc"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_be_honoured_is_named(
    http: TestClient, fields: dict[str, Any], param: str
) -> None:
    body = {"query": "a", "documents": ["a"], **fields}
    reply = http.post("/v1/rerank", json={k: v for k, v in body.items() if v is not None})
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == param


def test_an_embedding_model_ranks_by_cosine_similarity(
    vectors: TestClient, embedder: Embedder
) -> None:
    answer = rank(vectors)
    query = embedder.embed(["a cat"], purpose="query").vectors[0]
    documents = embedder.embed(DOCUMENTS).vectors
    lengths = np.linalg.norm(documents, axis=1) * np.linalg.norm(query)
    scores = {each["index"]: each["relevance_score"] for each in answer["results"]}
    np.testing.assert_allclose(
        [scores[index] for index in range(4)], documents @ query / lengths, rtol=1e-5, atol=1e-6
    )
    assert answer["model"] == "vectors"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"query": "a " * 100}, "query"),
        ({"documents": ["a " * 100]}, "documents"),
        ({"max_tokens_per_doc": 3}, "max_tokens_per_doc"),
    ],
    ids=["query", "documents", "max_tokens_per_doc"],
)
def test_what_an_embedding_model_cannot_rank_is_named(
    vectors: TestClient, fields: dict[str, Any], param: str
) -> None:
    reply = vectors.post("/v1/rerank", json={"query": "a", "documents": ["a"], **fields})
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == param


def test_a_model_that_generates_ranks_nothing() -> None:
    app = create_app(served(FakeEngine()), ServerSettings())
    http = TestClient(app, base_url="http://127.0.0.1")
    reply = http.post("/v1/rerank", json={"query": "a", "documents": ["a"]})
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == "model"
    assert "ranks no documents" in reply.json()["error"]["message"]


def test_a_full_queue_is_429(reranker: Reranker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrs.server.app.EmbeddingQueue", lambda: EmbeddingQueue(max_waiting=0))
    http = client_of(ServedReranker(description("ranks", ModelKind.RERANKER), reranker))
    reply = http.post("/v1/rerank", json={"query": "a", "documents": ["a"]})
    assert reply.status_code == 429


def test_the_document_of_the_api_has_the_endpoint(http: TestClient) -> None:
    assert "/v1/rerank" in http.get("/openapi.json").json()["paths"]
