from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mrs.errors import EngineError, InvalidValueError, UsageError
from mrs.model_repo.lock import RerankerFacts
from mrs.model_repo.repository import ModelRepository
from mrs.model_repo.version import ModelVersion
from mrs.runtime.embedder import open_embedder
from mrs.runtime.loading import load_served
from mrs.runtime.reranker import Reranker, open_reranker
from mrs.runtime.session_pool import SessionPool
from mrs.runtime.tokenizer import Tokenizer
from tests import tiny_reranker
from tests.tiny_embedder import CLS, PAD, SEP, UNK

DOCUMENTS = ["a", "a longer text of many letters", "", "cat", "dog 7"]


@pytest.fixture(scope="module")
def version(tmp_path_factory: pytest.TempPathFactory) -> ModelVersion:
    folder = tmp_path_factory.mktemp("reranker")
    model = tiny_reranker.write_folder(folder / "model")
    return tiny_reranker.export(model, ModelRepository(folder / "repo"))


@pytest.fixture(scope="module")
def reranker(version: ModelVersion) -> Iterator[Reranker]:
    with open_reranker(version, threads=1, pool=SessionPool()) as opened:
        yield opened


class RecordingSession:
    """The score of a row is its length."""

    def __init__(self) -> None:
        self.batches: list[dict[str, NDArray[Any]]] = []

    def run(self, names: list[str], feeds: dict[str, Any]) -> list[NDArray[np.float32]]:
        assert names == ["scores"]
        self.batches.append(feeds)
        return [feeds["sequence_lengths"].astype(np.float32)]


def recorded(version: ModelVersion, **changes: Any) -> tuple[Reranker, RecordingSession]:
    """The tiny model's tokenizer and facts on a session that computes nothing."""
    facts = version.lock.model.reranker
    assert facts is not None
    session = RecordingSession()
    tokenizer = Tokenizer.from_file(version.tokenizer_path)
    facts = facts.model_copy(update={"activation": "identity", **changes})
    return Reranker(session, tokenizer, facts), session  # type: ignore[arg-type]


def letter(text: str) -> int:
    return 4 + ord(text) - ord("a")


def test_the_lock_tells_how_texts_are_joined(version: ModelVersion) -> None:
    assert version.lock.model.kind == "reranker"
    assert version.lock.model.reranker == RerankerFacts(
        max_length=48,
        before=(CLS,),
        between=(SEP,),
        after=(SEP,),
        token_types=True,
        activation="sigmoid",
        pad_token_id=PAD,
    )


def test_neighbours_and_their_order_do_not_matter(reranker: Reranker) -> None:
    together = reranker.score("a cat", DOCUMENTS).values
    alone = [reranker.score("a cat", [text]).values[0] for text in DOCUMENTS]
    turned = reranker.score("a cat", DOCUMENTS[::-1]).values[::-1]
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-6)
    np.testing.assert_allclose(turned, alone, rtol=0, atol=1e-6)
    assert together.shape == (len(DOCUMENTS),)
    assert np.ptp(together) > 1e-3


def test_the_query_matters(reranker: Reranker) -> None:
    first, second = (reranker.score(query, DOCUMENTS).values for query in ("cat", "7 8 9"))
    assert np.abs(first - second).max() > 1e-3


def test_a_score_is_the_sigmoid_of_the_logit(version: ModelVersion, reranker: Reranker) -> None:
    found = reranker.score("a cat", DOCUMENTS).values
    facts = reranker.facts.model_copy(update={"activation": "identity"})
    raw = Reranker(reranker._session, reranker._tokenizer, facts)
    logits = raw.score("a cat", DOCUMENTS).values
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-logits)), rtol=1e-6)


def test_no_documents(reranker: Reranker) -> None:
    found = reranker.score("a cat", [])
    assert found.values.shape == (0,)
    assert found.tokens == ()


def test_query_and_document_are_joined_as_the_tokenizer_does(version: ModelVersion) -> None:
    reranker, session = recorded(version)
    found = reranker.score("a b", ["c", "d e f"])
    (feeds,) = session.batches
    start = [CLS, letter("a"), letter("b"), SEP]
    assert feeds["input_ids"].tolist() == [
        [*start, letter("c"), SEP, PAD, PAD],
        [*start, letter("d"), letter("e"), letter("f"), SEP],
    ]
    assert feeds["sequence_lengths"].tolist() == [6, 8]
    assert feeds["second_start"].tolist() == [4, 4]
    assert found.tokens == (6, 8)


def test_two_separators_and_no_types_as_for_xlm_roberta(version: ModelVersion) -> None:
    reranker, session = recorded(version, between=(SEP, SEP), token_types=False)
    reranker.score("a", ["b"])
    (feeds,) = session.batches
    assert feeds["input_ids"].tolist() == [[CLS, letter("a"), SEP, SEP, letter("b"), SEP]]
    assert "second_start" not in feeds


def test_special_tokens_in_a_text_are_text(version: ModelVersion) -> None:
    reranker, session = recorded(version)
    reranker.score("[SEP]", ["[SEP]"])
    ids = session.batches[0]["input_ids"][0].tolist()
    assert ids.count(SEP) == 2
    assert UNK in ids


def test_the_order_is_that_of_the_documents(version: ModelVersion) -> None:
    reranker, _ = recorded(version)
    documents = ["a " * (1 + index % 8) for index in range(300)]
    found = reranker.score("b", documents)
    assert found.values.tolist() == [5 + index % 8 for index in range(300)]


def test_a_document_that_is_too_long_is_refused_by_its_number(version: ModelVersion) -> None:
    reranker, _ = recorded(version)
    with pytest.raises(InvalidValueError, match=r"Document 12 has 50 tokens.*takes 44") as caught:
        reranker.score("q", ["a", "a " * 50], first=10)
    assert caught.value.param == "documents"


def test_only_the_document_is_cut(version: ModelVersion) -> None:
    reranker, session = recorded(version)
    found = reranker.score("q r", ["a " * 500], truncate=True)
    ids = session.batches[0]["input_ids"][0].tolist()
    assert found.tokens == (48,)
    assert ids[:4] == [CLS, letter("q"), letter("r"), SEP]
    assert ids[-1] == SEP


def test_documents_can_be_cut_shorter(version: ModelVersion) -> None:
    reranker, _ = recorded(version)
    assert reranker.score("q", ["a " * 500, "a"], max_document_tokens=3).tokens == (7, 5)


def test_a_query_that_leaves_no_room_is_refused_even_if_documents_are_cut(
    version: ModelVersion,
) -> None:
    reranker, _ = recorded(version)
    assert reranker.score("q " * 44, ["a b"], truncate=True).tokens == (48,)
    with pytest.raises(InvalidValueError, match=r"query has 45 tokens.*takes 45") as caught:
        reranker.score("q " * 45, ["a"], truncate=True)
    assert caught.value.param == "query"


def test_a_failure_of_the_session_is_an_engine_error(
    version: ModelVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("out of memory\ntrace")

    reranker, session = recorded(version)
    monkeypatch.setattr(session, "run", fail)
    with pytest.raises(EngineError, match="out of memory"):
        reranker.score("a", ["b"])


def test_other_models_rank_nothing_and_rerankers_do_nothing_else(
    version: ModelVersion, tiny: ModelVersion
) -> None:
    with pytest.raises(UsageError, match="no reranker"), open_reranker(tiny):
        pass
    with pytest.raises(UsageError, match="makes no vectors"), open_embedder(version):
        pass
    with pytest.raises(UsageError, match="generates no text"):
        load_served(version)


def test_the_activation_of_the_model_is_in_the_lock(tmp_path: Path) -> None:
    identity = "torch.nn.modules.linear.Identity"
    model = tiny_reranker.write_folder(
        tmp_path / "model", sbert_ce_default_activation_function=identity
    )
    facts = tiny_reranker.export(model, ModelRepository(tmp_path / "repo")).lock.model.reranker
    assert facts is not None
    assert facts.activation == "identity"
