"""What a request leaves open is filled in from the model's generation config."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mrs.errors import ModelLoadError
from mrs.runtime.generation import SamplingParams
from mrs.runtime.sampling.defaults import model_defaults, with_defaults


def written(folder: Path, config: Any) -> Path:
    path = folder / "generation_config.json"
    path.write_text(json.dumps(config))
    return path


def read(folder: Path, **config: Any) -> dict[str, Any]:
    return dict(model_defaults(written(folder, config), 100))


def test_a_file_that_is_not_there_says_nothing(tmp_path: Path) -> None:
    assert model_defaults(tmp_path / "generation_config.json", 100) == {}


def test_the_authors_numbers_are_read(tmp_path: Path) -> None:
    numbers = {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "min_p": 0, "typical_p": 0.9}
    assert read(tmp_path, **numbers, repetition_penalty=1.1, do_sample=True) == {
        **numbers,
        "repetition_penalty": 1.1,
    }


def test_what_the_sampler_does_not_know_is_left_alone(tmp_path: Path) -> None:
    assert read(tmp_path, max_new_tokens=7, max_length=20, eos_token_id=[2], num_beams=4) == {}


def test_null_says_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, temperature=None, top_k=None, do_sample=None) == {}


def test_authors_who_do_not_sample_decode_greedily(tmp_path: Path) -> None:
    assert read(tmp_path, do_sample=False, temperature=0.6) == {"temperature": 0.0}


def test_suppressed_tokens_are_read(tmp_path: Path) -> None:
    assert read(tmp_path, suppress_tokens=[4, 5]) == {"suppress_tokens": (4, 5)}


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"temperature": "hot"}, "'temperature' is not a number"),
        ({"temperature": True}, "'temperature' is not a number"),
        ({"temperature": float("nan")}, "'temperature' is nan"),
        ({"top_k": float("inf")}, "'top_k' is inf"),
        ({"top_k": 10**400}, "'top_k' is"),
        ({"top_p": 7}, "'top_p' is 7.0; it must be between 0 and 1"),
        ({"repetition_penalty": 0}, "'repetition_penalty' is 0.0"),
        ({"suppress_tokens": [100]}, "'suppress_tokens' is 100"),
        ({"suppress_tokens": [-1]}, "'suppress_tokens' is -1"),
        ({"suppress_tokens": ["a"]}, "'suppress_tokens' is no list of ids"),
        ({"suppress_tokens": 5}, "'suppress_tokens' is no list of ids"),
        ([1], "is not a JSON object"),
    ],
    ids=str,
)
def test_what_cannot_be_done_is_named(tmp_path: Path, config: Any, named: str) -> None:
    with pytest.raises(ModelLoadError) as caught:
        model_defaults(written(tmp_path, config), 100)
    assert named in str(caught.value)
    assert "generation_config.json" in str(caught.value)


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[" * 100_000], ids=["open", "bytes", "deep"])
def test_a_file_that_is_no_json_is_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "generation_config.json"
    path.write_bytes(content)
    with pytest.raises(ModelLoadError, match=r"generation_config\.json"):
        model_defaults(path, 100)


def test_a_request_goes_before_the_authors_and_they_before_the_api() -> None:
    defaults = {"temperature": 0.6, "top_k": 20}
    assert with_defaults(defaults, temperature=1.5, top_k=None, top_p=None) == SamplingParams(
        temperature=1.5, top_k=20
    )


@pytest.mark.parametrize("top_k", [0, -1])
def test_a_request_may_keep_all_tokens_against_the_authors(top_k: int) -> None:
    assert with_defaults({"top_k": 20}, top_k=top_k) == SamplingParams()
