from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mrs.errors import CorruptVersionError, EngineError, InvalidValueError, UsageError
from mrs.model_repo.repository import ModelRepository
from mrs.model_repo.version import ModelVersion
from mrs.runtime.embedder import Embedder, cosine_similarities, open_embedder
from mrs.runtime.loading import load_served
from mrs.runtime.session_pool import SessionPool
from mrs.runtime.tokenizer import Tokenizer
from tests import tiny_embedder
from tests.tiny_embedder import CLS, SEP, UNK


@pytest.fixture(scope="module")
def version(tmp_path_factory: pytest.TempPathFactory) -> ModelVersion:
    folder = tmp_path_factory.mktemp("embedder")
    model = tiny_embedder.write_folder(folder / "model")
    return tiny_embedder.export(model, ModelRepository(folder / "repo"))


@pytest.fixture(scope="module")
def embedder(version: ModelVersion) -> Iterator[Embedder]:
    with open_embedder(version, threads=1, pool=SessionPool()) as opened:
        yield opened


class RecordingSession:
    """Makes vectors that tell the row's length and its second token."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.batches: list[NDArray[np.int64]] = []

    def run(self, names: list[str], feeds: dict[str, Any]) -> list[NDArray[np.float32]]:
        assert names == ["embeddings"]
        ids, lengths = feeds["input_ids"], feeds["sequence_lengths"]
        self.batches.append(ids)
        vectors = np.zeros((len(ids), self.size), dtype=np.float32)
        vectors[:, 0], vectors[:, 1] = lengths, ids[:, 1]
        return [vectors]


@pytest.fixture
def session() -> RecordingSession:
    return RecordingSession(64)


@pytest.fixture
def recorded(version: ModelVersion, session: RecordingSession) -> Embedder:
    """The tiny model's tokenizer and facts on a session that computes nothing."""
    facts = version.lock.model
    assert facts.embedding is not None
    tokenizer = Tokenizer.from_file(version.tokenizer_path)
    return Embedder(session, tokenizer, facts, facts.embedding)


def letter(text: str) -> int:
    return 4 + ord(text) - ord("a")


def test_vectors_have_length_1(embedder: Embedder) -> None:
    found = embedder.embed(["a cat", "a dog", "7"])
    assert found.vectors.shape == (3, 64)
    assert found.vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(found.vectors, axis=1), 1, rtol=1e-6)


def test_neighbours_do_not_matter(embedder: Embedder) -> None:
    texts = ["a", "a longer text of many letters", "", "cat"]
    together = embedder.embed(texts).vectors
    alone = np.concatenate([embedder.embed([text]).vectors for text in texts])
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-6)


def test_no_texts(embedder: Embedder) -> None:
    assert embedder.embed([]).vectors.shape == (0, 64)


def test_the_tokens_of_a_text_have_others_around_them(
    recorded: Embedder, session: RecordingSession
) -> None:
    found = recorded.embed(["a b"])
    assert session.batches[0].tolist() == [[CLS, letter("a"), letter("b"), SEP]]
    assert found.tokens == (4,)


def test_special_tokens_in_a_text_are_text(recorded: Embedder, session: RecordingSession) -> None:
    recorded.embed(["[SEP]"])
    assert session.batches[0][0, 1] == UNK
    assert (session.batches[0] == SEP).sum() == 1


def test_rows_are_padded_on_the_right(recorded: Embedder, session: RecordingSession) -> None:
    recorded.embed(["a", "b c d"])
    assert session.batches[0].tolist()[0] == [CLS, letter("a"), SEP, 0, 0]


def test_the_order_is_that_of_the_texts(recorded: Embedder) -> None:
    texts = [" ".join("abcdefgh"[: 1 + index % 8]) for index in range(300)]
    found = recorded.embed(texts)
    assert found.vectors[:, 0].tolist() == [3 + index % 8 for index in range(300)]


def test_batches_are_bounded_and_of_like_lengths(
    recorded: Embedder, session: RecordingSession
) -> None:
    long, short = " ".join("a" * 40), "b"
    recorded.embed([long, short] * 200)
    assert all(batch.size <= 4096 for batch in session.batches)
    assert sum(len(batch) for batch in session.batches) == 400
    padded = sum(int((batch == 0).sum()) for batch in session.batches)
    assert padded < 4096


def test_a_prompt_comes_first(recorded: Embedder, session: RecordingSession) -> None:
    recorded.embed(["x"], purpose="query")
    recorded.embed(["find x"])
    assert session.batches[0].tolist() == session.batches[1].tolist()


def test_a_prompt_that_the_model_does_not_have(recorded: Embedder) -> None:
    with pytest.raises(InvalidValueError, match=r"'answer'.*plain, query"):
        recorded.embed(["x"], purpose="answer")


def test_a_text_that_is_too_long_is_refused(recorded: Embedder) -> None:
    with pytest.raises(InvalidValueError, match="Text 2 has 47 tokens; the model takes 46"):
        recorded.embed(["a", "a " * 47])


def test_a_text_of_the_largest_length(recorded: Embedder) -> None:
    assert recorded.embed(["a " * 46]).tokens == (48,)


def test_a_text_that_is_too_long_can_be_cut(recorded: Embedder, session: RecordingSession) -> None:
    assert recorded.embed(["a " * 500], truncate=True).tokens == (48,)
    assert session.batches[0][0, -1] == SEP


def test_fewer_dimensions_are_normalized_again(embedder: Embedder) -> None:
    whole = embedder.embed(["a cat"]).vectors[0]
    cut = embedder.embed(["a cat"], dimensions=5).vectors[0]
    np.testing.assert_allclose(cut, whole[:5] / np.linalg.norm(whole[:5]), rtol=1e-5)


@pytest.mark.parametrize("dimensions", [0, 65])
def test_dimensions_that_the_model_does_not_have(recorded: Embedder, dimensions: int) -> None:
    with pytest.raises(InvalidValueError, match=f"{dimensions} dimensions"):
        recorded.embed(["a"], dimensions=dimensions)


def test_a_failure_of_the_session_is_an_engine_error(
    recorded: Embedder, session: RecordingSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("out of memory\ntrace")

    monkeypatch.setattr(session, "run", fail)
    with pytest.raises(EngineError, match="out of memory"):
        recorded.embed(["a"])


def test_similarities_are_those_of_directions() -> None:
    vectors = np.array([[2, 0], [0, 3], [1, 1], [0, 0]], dtype=np.float32)
    half = 0.5**0.5
    expected = np.array([[1, 0, half, 0], [0, 1, half, 0], [half, half, 1, 0], [0, 0, 0, 0]])
    np.testing.assert_allclose(cosine_similarities(vectors), expected, atol=1e-6)


def test_a_generator_makes_no_vectors(tiny: ModelVersion) -> None:
    with pytest.raises(UsageError, match="no embedding model"), open_embedder(tiny):
        pass


def test_an_embedding_model_generates_no_text(version: ModelVersion) -> None:
    with pytest.raises(UsageError, match="embedding model, which generates no text"):
        load_served(version)


def test_a_damaged_version_is_not_loaded(tmp_path: Path) -> None:
    model = tiny_embedder.write_folder(tmp_path / "model")
    version = tiny_embedder.export(model, ModelRepository(tmp_path / "repo"))
    version.tokenizer_path.write_bytes(b"{}")
    with pytest.raises(CorruptVersionError), open_embedder(version):
        pass
