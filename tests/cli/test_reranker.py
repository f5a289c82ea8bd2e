"""What commands make of a reranker."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrs.export.parity.proof import ParityMode
from mrs.model_repo.repository import ModelRepository
from mrs.model_repo.version import ModelVersion
from tests import tiny_reranker
from tests.cli.conftest import Mrs


@pytest.fixture
def versions(tmp_path: Path, repository: ModelRepository) -> list[ModelVersion]:
    """A tiny model called ``ranks`` in the default repository, in 32 and in 8 bits."""
    folder = tiny_reranker.write_folder(tmp_path / "model")
    return [
        tiny_reranker.export(folder, repository, quant=quant, parity=ParityMode.ALWAYS)
        for quant in ("fp32", "q8")
    ]


@pytest.mark.usefixtures("versions")
def test_the_card_tells_what_it_makes(mrs: Mrs) -> None:
    card = mrs("models", "show", "ranks:2").out
    assert "a score of two texts: the sigmoid of its logit" in card
    assert "48 tokens" in card
    assert "ranked alike" in card
    assert "chat template" not in card


@pytest.mark.usefixtures("versions")
def test_versions_are_compared_by_their_scores(mrs: Mrs) -> None:
    shown = mrs("compare", "ranks:1", "ranks:2").out
    assert "largest difference" in shown
    assert "perplexity" not in shown


@pytest.mark.usefixtures("versions")
@pytest.mark.parametrize(
    "command", [("run", "ranks", "Hello"), ("bench", "ranks"), ("embed", "ranks", "a")]
)
def test_other_commands_say_how_to_rank(mrs: Mrs, command: tuple[str, ...]) -> None:
    result = mrs(*command)
    assert result.code == 2
    assert "ranks:2 is a reranker" in result.err
    assert "mrs serve ranks" in result.err
