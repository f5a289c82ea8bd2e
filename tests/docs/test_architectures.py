"""The table of docs/architectures.md, which ``python -m tests.reference.table`` writes anew."""

from __future__ import annotations

import pytest

from mrs.export.architectures.encoder_family import EncoderFamily
from mrs.export.architectures.family import Family
from tests.export.test_parity_families import TOLERANCE
from tests.reference.table import HEADER, PAGE, ROWS, facts


def table() -> list[tuple[str, ...]]:
    """Its rows, each as its cells."""
    lines = PAGE.read_text(encoding="utf-8").split(HEADER[-1] + "\n")[1].split("\n\n")[0]
    return [tuple(line.strip("|").strip().split(" | ")) for line in lines.splitlines()]


@pytest.mark.parametrize("family", ROWS, ids=lambda family: family.title)
def test_every_family_has_its_row(family: Family | EncoderFamily) -> None:
    assert facts(family) in [row[:3] for row in table()]


def test_no_row_is_of_anything_else() -> None:
    assert {row[:3] for row in table()} == {facts(family) for family in ROWS}


def test_differences_are_within_the_tolerance() -> None:
    measured = [float(row[3]) for row in table() if row[3] != "-"]
    assert measured and max(measured) <= TOLERANCE
