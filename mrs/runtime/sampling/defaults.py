"""How tokens are drawn where a request leaves it open.

The authors of a model often say how they sample from it, in its ``generation_config.json``. Their
numbers take the place of the API's own defaults; whatever a request states goes before both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mrs.errors import InvalidValueError, ModelLoadError
from mrs.runtime.generation import SamplingParams
from mrs.runtime.sampling.bounds import check_sampling

GENERATION_CONFIG_FILE = "generation_config.json"

SamplingDefaults = Mapping[str, float | int | tuple[int, ...]]
"""Fields of `SamplingParams` by name, those alone that are set."""

# Lengths are left out: how much an answer may hold is for the request and the context to say.
_NUMBERS = ("temperature", "top_p", "min_p", "typical_p", "repetition_penalty")
_LARGEST = 1 << 31
_HINT = "Correct the file, or load the model without its generation config."


def model_defaults(path: Path, vocab_size: int) -> SamplingDefaults:
    """How a model's authors sample, from its ``generation_config.json``.

    ``do_sample: false`` means greedy decoding. A file that does not exist says nothing.

    Args:
        path: the file.
        vocab_size: token ids are below it.

    Raises:
        ModelLoadError: the file cannot be read, or states what no sampler can do.
    """
    config = _read(path)
    defaults: dict[str, Any] = {}
    for name in _NUMBERS:
        if config.get(name) is not None:
            defaults[name] = float(_number(path, name, config[name]))
    if config.get("top_k") is not None:
        defaults["top_k"] = int(_number(path, "top_k", config["top_k"]))
    if config.get("do_sample") is False:
        defaults["temperature"] = 0.0
    if config.get("suppress_tokens"):
        defaults["suppress_tokens"] = _token_ids(path, config["suppress_tokens"])
    try:
        check_sampling(SamplingParams(**defaults), vocab_size)
    except InvalidValueError as error:
        raise ModelLoadError(f"{path.name}: {error}", hint=_HINT) from error
    return defaults


def with_defaults(defaults: SamplingDefaults, **given: Any) -> SamplingParams:
    """How to draw, where ``given`` is what a request states.

    Args:
        defaults: what holds where the request states nothing.
        given: fields of `SamplingParams`; None stands for a field that was left open. A ``top_k``
            below 1 keeps all tokens whatever the defaults say.
    """
    stated = {name: value for name, value in given.items() if value is not None}
    fields: dict[str, Any] = {**defaults, **stated}
    sampling = SamplingParams(**fields)
    keeps_all = sampling.top_k is not None and sampling.top_k < 1
    return replace(sampling, top_k=None) if keeps_all else sampling


def _read(path: Path) -> Mapping[str, Any]:
    try:
        config = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise ModelLoadError(f"{path.name} cannot be read: {error}.", hint=_HINT) from error
    if not isinstance(config, dict):
        raise ModelLoadError(f"{path.name} is not a JSON object.", hint=_HINT)
    return config


def _number(path: Path, name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ModelLoadError(f"{path.name}: '{name}' is not a number.", hint=_HINT)
    if not abs(value) < _LARGEST:  # Nor is NaN.
        raise ModelLoadError(f"{path.name}: '{name}' is {value!s:.20}.", hint=_HINT)
    return value


def _token_ids(path: Path, value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(token) is int for token in value):
        raise ModelLoadError(f"{path.name}: 'suppress_tokens' is no list of ids.", hint=_HINT)
    return tuple(value)
