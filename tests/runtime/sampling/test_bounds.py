"""Numbers that make no sense are refused by name."""

from __future__ import annotations

import math
from typing import Any

import pytest

from mrs.errors import InvalidValueError
from mrs.runtime.generation import DryParams, SamplingParams
from mrs.runtime.sampling.bounds import check_sampling


def test_the_usual_numbers_pass() -> None:
    check_sampling(SamplingParams(), 10)
    check_sampling(SamplingParams(dry=DryParams(0.8), logit_bias=((9, -100.0),)), 10)


@pytest.mark.parametrize(
    ("values", "param"),
    [
        ({"temperature": math.nan}, "temperature"),
        ({"temperature": -1.0}, "temperature"),
        ({"top_p": 1.5}, "top_p"),
        ({"min_p": -0.1}, "min_p"),
        ({"typical_p": 2.0}, "typical_p"),
        ({"top_n_sigma": math.inf}, "top_n_sigma"),
        ({"xtc_probability": 1.1}, "xtc_probability"),
        ({"xtc_threshold": -1.0}, "xtc_threshold"),
        ({"frequency_penalty": 101.0}, "frequency_penalty"),
        ({"presence_penalty": math.nan}, "presence_penalty"),
        ({"repetition_penalty": 0.0}, "repetition_penalty"),
        ({"repetition_penalty": 5e-324}, "repetition_penalty"),
        ({"repetition_penalty": math.inf}, "repetition_penalty"),
        ({"mirostat_tau": -1.0}, "mirostat_tau"),
        ({"mirostat_eta": 2.0}, "mirostat_eta"),
        ({"min_tokens": -1}, "min_tokens"),
        ({"min_tokens": 5, "max_tokens": 4}, "min_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"penalty_window": -1}, "penalty_window"),
        ({"dry": DryParams(-1.0)}, "dry_multiplier"),
        ({"dry": DryParams(1.0, base=0.5)}, "dry_base"),
        ({"dry": DryParams(1.0, allowed_length=0)}, "dry_allowed_length"),
        ({"stop_token_ids": (10,)}, "stop_token_ids"),
        ({"stop_token_ids": (-1,)}, "stop_token_ids"),
        ({"logit_bias": ((10, 1.0),)}, "logit_bias"),
        ({"logit_bias": ((1, 101.0),)}, "logit_bias"),
        ({"logit_bias": ((1, math.nan),)}, "logit_bias"),
    ],
    ids=str,
)
def test_a_number_outside_its_bounds_is_named(values: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        check_sampling(SamplingParams(**values), 10)
    assert caught.value.param == param
