"""Sampling fields of a request, whatever the endpoint, to what the engine is asked for."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from mrs.errors import InvalidValueError, RequestError
from mrs.runtime.generation import SamplingParams
from mrs.server.openai.sampling import USUAL_MIROSTAT_TAU, sampling_params
from mrs.server.openai.sampling_fields import SamplingFields
from mrs.server.validation import parse_request
from tests.server.fake_engine import FakeEngine, served


def sampling(defaults: dict[str, Any] | None = None, **fields: Any) -> SamplingParams:
    model = replace(served(FakeEngine()), sampling_defaults=defaults or {})
    request = parse_request(SamplingFields, json.dumps(fields).encode())
    return sampling_params(request, model)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, SamplingParams()),
        ({"mirostat": 2}, SamplingParams(mirostat_tau=USUAL_MIROSTAT_TAU)),
        ({"mirostat": 2, "mirostat_tau": 3}, SamplingParams(mirostat_tau=3.0)),
        ({"mirostat_tau": 3}, SamplingParams(mirostat_tau=3.0)),
        ({"mirostat_eta": 0.2}, SamplingParams(mirostat_eta=0.2)),
        ({"mirostat": 0, "mirostat_tau": 3}, SamplingParams()),
        ({"penalty_window": 64}, SamplingParams(penalty_window=64)),
        ({"repeat_last_n": 64}, SamplingParams(penalty_window=64)),
        ({"repeat_last_n": 64, "penalty_window": 64}, SamplingParams(penalty_window=64)),
        ({"repeat_last_n": -1}, SamplingParams()),
        ({"repeat_last_n": 0}, SamplingParams(penalty_window=0)),
        ({"repeat_penalty": 1.1}, SamplingParams(repetition_penalty=1.1)),
    ],
    ids=str,
)  # fmt: skip
def test_fields_that_users_of_llama_cpp_know(
    fields: dict[str, Any], expected: SamplingParams
) -> None:
    assert sampling(**fields) == expected


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"mirostat": 1}, "mirostat"),
        ({"mirostat_tau": -1}, "mirostat_tau"),
        ({"mirostat_eta": 2}, "mirostat_eta"),
        ({"penalty_window": -2}, "penalty_window"),
        ({"repeat_last_n": 1.5}, "repeat_last_n"),
        ({"repeat_penalty": 0}, "repeat_penalty"),
    ],
    ids=str,
)
def test_what_they_may_not_be_is_named(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as caught:
        sampling(**fields)
    assert caught.value.param == param


@pytest.mark.parametrize(
    "fields",
    [
        {"penalty_window": 1, "repeat_last_n": 2},
        {"repetition_penalty": 1.5, "repeat_penalty": 1.1},
    ],
    ids=str,
)
def test_two_names_of_one_thing_may_not_differ(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError, match="they name one thing"):
        sampling(**fields)


def test_what_is_left_open_is_as_the_authors_have_it() -> None:
    defaults = {"temperature": 0.6, "top_k": 20, "suppress_tokens": (3,)}
    assert sampling(defaults, temperature=None, top_p=0.5) == SamplingParams(
        temperature=0.6, top_k=20, top_p=0.5, suppress_tokens=(3,)
    )


@pytest.mark.parametrize("top_k", [0, -1, 10**9])
def test_all_tokens_may_be_asked_for_against_the_authors(top_k: int) -> None:
    assert sampling({"top_k": 20}, top_k=top_k).top_k is None


def test_an_endpoint_adds_what_it_spells_in_its_own_way() -> None:
    model = served(FakeEngine())
    found = sampling_params(
        parse_request(SamplingFields, b"{}"),
        model,
        max_tokens=7,
        logprobs=None,
        cumulative_logprob=True,
        stop=("a",),
    )
    assert found == SamplingParams(max_tokens=7, cumulative_logprob=True, stop=("a",))
