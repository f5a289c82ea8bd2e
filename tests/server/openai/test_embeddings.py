from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
from starlette.testclient import TestClient

from mrs.errors import UnknownModelError
from mrs.model_repo.repository import ModelRepository
from mrs.runtime.embedder import Embedder, open_embedder
from mrs.server.app import create_app
from mrs.server.embedding_queue import EmbeddingQueue
from mrs.server.model_catalog import SingleModel
from mrs.server.served_model import ModelDescription, ModelKind, ServedEmbedder
from mrs.server.settings import ServerSettings
from tests.server.fake_engine import FakeEngine, served
from tests.tiny_embedder import CLS, SEP, export, write_folder


class Catalog(SingleModel):
    """An embedding model beside the one that generates."""

    def __init__(self, embedder: Embedder) -> None:
        super().__init__(served(FakeEngine()))
        description = ModelDescription("vectors", ModelKind.EMBEDDING, 1_700_000_000, 48)
        self._embedder = ServedEmbedder(description, embedder)

    @asynccontextmanager
    async def lease_embedder(self, name: str | None) -> AsyncIterator[ServedEmbedder]:
        if name not in (None, "vectors"):
            raise UnknownModelError("No such model.", param="model")
        yield self._embedder


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedder]:
    folder = tmp_path_factory.mktemp("vectors")
    version = export(write_folder(folder), ModelRepository(folder / "repository"))
    with open_embedder(version, threads=1) as embedder:
        yield embedder


@pytest.fixture
def http(embedder: Embedder) -> TestClient:
    return TestClient(create_app(Catalog(embedder), ServerSettings()), base_url="http://127.0.0.1")


@pytest.fixture
def client(http: TestClient) -> openai.OpenAI:
    """The real client; without a format it asks for base64 and decodes it."""
    return openai.OpenAI(base_url="http://127.0.0.1/v1", api_key="none", http_client=http)


def vectors(answer: Any) -> np.ndarray:
    return np.array([entry.embedding for entry in answer.data], dtype=np.float32)


def test_one_text_and_several_have_the_vectors_of_the_model(
    client: openai.OpenAI, embedder: Embedder
) -> None:
    texts = ["abc", "a longer text", "abc"]
    answer = client.embeddings.create(model="vectors", input=texts)
    np.testing.assert_array_equal(vectors(answer), embedder.embed(texts).vectors)
    assert [entry.index for entry in answer.data] == [0, 1, 2]
    assert answer.model == "vectors"
    assert answer.usage.prompt_tokens == answer.usage.total_tokens
    assert answer.usage.total_tokens == sum(embedder.embed(texts).tokens)
    one = client.embeddings.create(model="vectors", input="abc")
    np.testing.assert_allclose(vectors(one), vectors(answer)[:1], rtol=1e-5, atol=1e-6)


def test_base64_is_little_endian_float32(http: TestClient) -> None:
    body = {"input": "abc", "encoding_format": "base64"}
    raw = http.post("/v1/embeddings", json=body).json()["data"][0]["embedding"]
    plain = http.post("/v1/embeddings", json={"input": "abc"}).json()["data"][0]["embedding"]
    np.testing.assert_array_equal(np.frombuffer(base64.b64decode(raw), "<f4"), np.float32(plain))


def test_tokens_are_taken_as_they_are(client: openai.OpenAI, http: TestClient) -> None:
    ids = [CLS, 4, 5 + 26, SEP]  # "ab" is "a" and "##b".
    text = client.embeddings.create(model="vectors", input="ab")
    one = client.embeddings.create(model="vectors", input=ids)
    several = client.embeddings.create(model="vectors", input=[ids, ids[1:3]])
    np.testing.assert_allclose(vectors(one), vectors(text), rtol=1e-5, atol=1e-6)
    assert (one.usage.total_tokens, several.usage.total_tokens) == (4, 6)


def test_fewer_dimensions_are_normalised_again(client: openai.OpenAI) -> None:
    whole = vectors(client.embeddings.create(model="vectors", input="abc"))
    cut = vectors(client.embeddings.create(model="vectors", input="abc", dimensions=8))
    assert cut.shape == (1, 8)
    direction = whole[:, :8]
    if np.isclose(np.linalg.norm(whole), 1, atol=1e-4):
        direction = direction / np.linalg.norm(direction)
    np.testing.assert_allclose(cut, direction, rtol=1e-4, atol=1e-5)


def test_a_prompt_comes_first_where_it_is_named(http: TestClient) -> None:
    def embedding(**fields: object) -> list[float]:
        reply = http.post("/v1/embeddings", json=fields)
        return reply.json()["data"][0]["embedding"]  # type: ignore[no-any-return]

    assert embedding(input="abc", prompt_name="query") == embedding(input="find abc")
    assert embedding(input="abc", prompt_name="plain") == embedding(input="abc")


def test_what_is_too_long_is_cut_where_that_is_asked_for(http: TestClient) -> None:
    body = {"input": "a " * 100}
    refused = http.post("/v1/embeddings", json=body)
    assert refused.status_code == 400
    assert "Text 1 has 100 tokens; the model takes 46." in refused.json()["error"]["message"]
    cut = http.post("/v1/embeddings", json={**body, "truncate_sequence": True})
    assert cut.json()["usage"]["total_tokens"] == 48


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "input"),
        ({"input": []}, "input"),
        ({"input": {"text": "a"}}, "input"),
        ({"input": ["a", 1]}, "input[1]"),
        ({"input": [[]]}, "input[0]"),
        ({"input": [1, 10**6]}, "input"),
        ({"input": [-1]}, "input[0]"),
        ({"input": "a", "encoding_format": "int8"}, "encoding_format"),
        ({"input": "a", "dimensions": 0}, "dimensions"),
        ({"input": "a", "dimensions": 65}, "dimensions"),
        ({"input": "a", "prompt_name": "no such"}, "prompt_name"),
        ({"input": ["a"] * 2049}, "input"),
    ],
    ids=str,
)
def test_what_cannot_be_honoured_is_named(
    http: TestClient, fields: dict[str, object], param: str
) -> None:
    reply = http.post("/v1/embeddings", json=fields)
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == param


def test_a_late_text_is_named_by_its_number(http: TestClient) -> None:
    """Texts are embedded portion by portion."""
    texts = ["a"] * 70 + ["a " * 100]
    message = http.post("/v1/embeddings", json={"input": texts}).json()["error"]["message"]
    assert message.startswith("Text 71 has 100 tokens")


def test_a_model_that_generates_makes_no_vectors() -> None:
    http = TestClient(
        create_app(served(FakeEngine()), ServerSettings()), base_url="http://127.0.0.1"
    )
    reply = http.post("/v1/embeddings", json={"input": "a"})
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == "model"


def test_a_full_queue_is_429(embedder: Embedder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrs.server.app.EmbeddingQueue", lambda: EmbeddingQueue(max_waiting=0))
    app = create_app(Catalog(embedder), ServerSettings())
    reply = TestClient(app, base_url="http://127.0.0.1").post("/v1/embeddings", json={"input": "a"})
    assert reply.status_code == 429
    assert int(reply.headers["retry-after"]) > 0


def test_the_queue_gives_others_a_turn_between_portions(embedder: Embedder) -> None:
    """A short request ends before a long one that came first."""
    import asyncio

    done: list[str] = []

    async def embed(name: str, texts: Sequence[str]) -> None:
        await queue.embed(embedder, texts)
        done.append(name)

    async def both() -> None:
        await asyncio.gather(embed("long", ["a"] * 1000), embed("short", ["b"]))

    queue = EmbeddingQueue()
    asyncio.run(both())
    assert done == ["short", "long"]


def test_the_page_of_the_api_describes_the_request(http: TestClient) -> None:
    paths = http.get("/openapi.json").json()["paths"]
    assert "/v1/embeddings" in paths


def test_a_path_is_no_model(http: TestClient, tmp_path: Path) -> None:
    assert http.post("/v1/embeddings", json={"input": "a", "model": "../x"}).status_code == 404
