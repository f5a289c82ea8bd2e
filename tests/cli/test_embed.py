from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest

from mrs.model_repo.repository import ModelRepository
from mrs.model_repo.version import ModelVersion
from tests import tiny_embedder
from tests.cli.conftest import Mrs
from tests.model_repo.samples import publish


@pytest.fixture
def version(tmp_path: Path, repository: ModelRepository) -> ModelVersion:
    """A tiny model called ``vectors`` in the default repository."""
    return tiny_embedder.export(tiny_embedder.write_folder(tmp_path / "model"), repository)


@pytest.mark.usefixtures("version")
def test_each_vector_is_one_line(mrs: Mrs) -> None:
    result = mrs("embed", "vectors", "a cat", "a dog")
    assert (result.code, result.err) == (0, "")
    vectors = [json.loads(line) for line in result.out.splitlines()]
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1, 1], rtol=1e-5)


@pytest.mark.usefixtures("version")
def test_one_document_with_json(mrs: Mrs) -> None:
    result = mrs("embed", "vectors", "cat", "--json", "--dimensions", "4").json
    assert result["model"] == "vectors:1"
    assert result["tokens"] == [5]
    assert np.shape(result["embeddings"]) == (1, 4)


@pytest.mark.usefixtures("version")
def test_similarities(mrs: Mrs) -> None:
    result = mrs("embed", "vectors", "cat", "cat", "dog", "--similarity", "--json").json
    first, second, third = result["similarities"]
    assert first == pytest.approx(second)
    assert first[:2] == pytest.approx([1, 1], abs=1e-5)
    assert third[0] < 0.999


@pytest.mark.usefixtures("version")
def test_similarities_as_a_table(mrs: Mrs) -> None:
    result = mrs("embed", "vectors", "cat", "dog", "--similarity")
    assert result.code == 0
    heading, first, _ = (line.split() for line in result.out.splitlines())
    assert heading == ["TEXT", "1", "2"]
    assert first[:3] == ["1", "cat", "1.0000"]


@pytest.mark.usefixtures("version")
def test_lines_of_a_pipe(mrs: Mrs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("cat\n\ndog\r\n"))
    result = mrs("embed", "vectors", "-", "--json").json
    assert result["tokens"] == [5, 5]


@pytest.mark.usefixtures("version")
def test_a_prompt_changes_the_vector(mrs: Mrs) -> None:
    plain, query = (
        mrs("embed", "vectors", "cat", "--json", *more).json for more in ((), ("--prompt", "query"))
    )
    assert (plain["tokens"], query["tokens"]) == ([5], [9])


@pytest.mark.usefixtures("version")
def test_a_text_that_is_too_long_says_what_to_do(mrs: Mrs) -> None:
    result = mrs("embed", "vectors", "a " * 50)
    assert result.code == 2
    assert "error[invalid_value]: Text 1 has 50 tokens; the model takes 46." in result.err
    assert mrs("embed", "vectors", "a " * 50, "--truncate").code == 0


def test_no_text(mrs: Mrs) -> None:
    result = mrs("embed", "vectors")
    assert (result.code, result.out) == (2, "")
    assert "There is no text." in result.err


def test_a_generator_is_refused(mrs: Mrs, repository: ModelRepository) -> None:
    publish(repository)
    result = mrs("embed", "tiny", "cat")
    assert result.code == 2
    assert "tiny:1 is no embedding model" in result.err


@pytest.mark.usefixtures("version")
@pytest.mark.parametrize("command", [("run", "vectors", "Hello"), ("bench", "vectors")])
def test_other_commands_say_which_one_is_for_vectors(mrs: Mrs, command: tuple[str, ...]) -> None:
    result = mrs(*command)
    assert result.code == 2
    assert "vectors:1 is an embedding model" in result.err
    assert "mrs embed vectors" in result.err


@pytest.mark.usefixtures("version")
def test_the_card_tells_what_the_vectors_are(mrs: Mrs) -> None:
    card = mrs("models", "show", "vectors").out
    assert "vectors of 64 dimensions, of length 1" in card
    assert "48 tokens" in card
    assert "prompt query" in card
    facts = mrs("models", "show", "vectors", "--json").json
    assert facts["kind"] == "embedding"
    assert facts["lock"]["model"]["embedding"]["pooling"] == "mean"
