from __future__ import annotations

import pytest

from mrs.errors import UsageError
from mrs.export.quantization.requested import (
    QUANTIZATIONS,
    parse_quantization,
    recorded_map,
)

MATRICES = ("token_embd.weight", "blk.0.attn_q.weight", "blk.0.ffn_down.weight", "output.weight")


@pytest.mark.parametrize("name", QUANTIZATIONS)
def test_known_quantizations(name: str) -> None:
    assert parse_quantization(name).of("blk.0.attn_q.weight") == name


@pytest.mark.parametrize("name", ["q5", "", "Q8", "x" * 1000])
def test_an_unknown_quantization_is_named_beside_the_known_ones(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_quantization(name)
    assert caught.value.message.endswith("known are auto, keep, fp32, q8, q4, w8a8.")
    assert repr(name)[:40] in caught.value.message
    assert len(caught.value.message) < 140


def test_the_last_pattern_that_matches_wins() -> None:
    found = parse_quantization("auto", ["blk.*=q8", "*.ffn_down.*=fp32", "blk.1.*=keep"])
    names = ("output", "blk.0.attn_q", "blk.0.ffn_down", "blk.1.ffn_down")
    assert [found.of(f"{name}.weight") for name in names] == ["auto", "q8", "fp32", "keep"]


def test_patterns_match_whole_names_and_their_case() -> None:
    found = parse_quantization("auto", ["ffn_down=q8", "BLK.*=q8"])
    assert found.of("blk.0.ffn_down.weight") == "auto"


def test_a_pattern_may_hold_an_equals_sign() -> None:
    assert parse_quantization("auto", ["a=b=q8"]).of("a=b") == "q8"


@pytest.mark.parametrize("entry", ["", "q8", "=q8", "a,b=q8"])
def test_an_entry_without_a_pattern_is_refused(entry: str) -> None:
    with pytest.raises(UsageError, match="is no PATTERN=QUANTIZATION"):
        parse_quantization("auto", [entry])


def test_an_entry_with_an_unknown_quantization_is_refused() -> None:
    with pytest.raises(UsageError, match="'q7' is unknown"):
        parse_quantization("auto", ["blk.*=q7"])


def test_patterns_that_match_something_pass() -> None:
    parse_quantization("auto", ["blk.*=q8", "output.weight=fp32"]).check_used(MATRICES)


def test_a_pattern_that_matches_nothing_is_named_with_the_nearest_tensors() -> None:
    requested = parse_quantization("auto", ["blk.*=q8", "blk.0.ffn_dwn.weight=fp32"])
    with pytest.raises(UsageError) as caught:
        requested.check_used(MATRICES)
    assert "'blk.0.ffn_dwn.weight' matches no matrix" in caught.value.message
    assert "blk.0.ffn_down.weight" in caught.value.message


def test_options_for_the_lock_tell_patterns_and_their_order() -> None:
    assert parse_quantization("auto").options() == {"quant": "auto"}
    one, other = (parse_quantization("auto", entries).options() for entries in (AB, AB[::-1]))
    assert one == {"quant": "auto", "quant_map": "a*=q8,b*=fp32"}
    assert one != other
    assert recorded_map(one) == tuple(AB)
    assert recorded_map({"quant": "auto"}) == ()


AB = ["a*=q8", "b*=fp32"]
