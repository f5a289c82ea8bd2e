"""GGUF's own keys for sampling become those of generation_config.json."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from mrs.errors import CorruptCheckpointError
from mrs.export.tokenizers.gguf_sampling import gguf_sampling


def stored(number: float) -> float:
    """As a file holds it: in 32 bits."""
    return float(struct.unpack("<f", struct.pack("<f", number))[0])


def test_numbers_are_as_they_were_written() -> None:
    metadata = {
        "general.sampling.temp": stored(0.6),
        "general.sampling.top_p": stored(0.95),
        "general.sampling.top_k": 20,
        "general.sampling.min_p": stored(0.0),
        "general.sampling.penalty_repeat": stored(1.05),
    }
    assert gguf_sampling(metadata) == {
        "temperature": 0.6,
        "top_p": 0.95,
        "top_k": 20,
        "min_p": 0.0,
        "repetition_penalty": 1.05,
    }


def test_a_file_that_says_nothing_sets_nothing() -> None:
    assert gguf_sampling({"general.name": "x", "general.sampling.sequence": "kpt"}) == {}


def test_a_temperature_below_zero_is_greedy() -> None:
    assert gguf_sampling({"general.sampling.temp": -1.0}) == {"temperature": 0.0}


@pytest.mark.parametrize("value", ["hot", True, float("nan"), [0.5]], ids=str)
def test_what_is_no_number_is_corrupt(value: Any) -> None:
    with pytest.raises(CorruptCheckpointError, match=r"general\.sampling\.temp"):
        gguf_sampling({"general.sampling.temp": value})
