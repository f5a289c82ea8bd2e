"""What the numbers of `SamplingParams` may be."""

from __future__ import annotations

import math

from mrs.errors import InvalidValueError
from mrs.runtime.generation import DryParams, ReasoningBudget, SamplingParams

# Attribute -> its bounds, both included, and how they are told.
_BOUNDS: dict[str, tuple[float, float, str]] = {
    "temperature": (0, math.inf, "a number from 0 up"),
    "top_p": (0, 1, "between 0 and 1"),
    "min_p": (0, 1, "between 0 and 1"),
    "typical_p": (0, 1, "between 0 and 1"),
    "top_n_sigma": (0, math.inf, "a number from 0 up"),
    "xtc_probability": (0, 1, "between 0 and 1"),
    "xtc_threshold": (0, 1, "between 0 and 1"),
    "frequency_penalty": (-100, 100, "between -100 and 100"),
    "presence_penalty": (-100, 100, "between -100 and 100"),
    "mirostat_tau": (0, math.inf, "a number from 0 up"),
    "mirostat_eta": (0, 1, "between 0 and 1"),
    "min_tokens": (0, math.inf, "at least 0"),
    "logprobs": (0, 100, "between 0 and 100"),
    "max_tokens": (1, math.inf, "at least 1"),
    "penalty_window": (0, math.inf, "at least 0"),
}
_DRY_BOUNDS: dict[str, tuple[float, float, str]] = {
    "multiplier": (0, 1000, "between 0 and 1000"),
    "base": (1, 1000, "between 1 and 1000"),
    "allowed_length": (1, 1000, "between 1 and 1000"),
}


def check_sampling(sampling: SamplingParams, vocab_size: int) -> None:
    """Refuse numbers that make no sense, and token ids that the model does not have.

    Raises:
        InvalidValueError: naming the field and what it may be.
    """
    for name, bounds in _BOUNDS.items():
        _check(name, getattr(sampling, name), bounds)
    # Logits are divided by it: the smallest of floats would make them infinite.
    if not 0.01 <= sampling.repetition_penalty < math.inf:
        raise out_of_range("repetition_penalty", sampling.repetition_penalty, "at least 0.01")
    if sampling.max_tokens is not None and sampling.min_tokens > sampling.max_tokens:
        allowed = f"at most max_tokens, which is {sampling.max_tokens}"
        raise out_of_range("min_tokens", sampling.min_tokens, allowed)
    _check_dry(sampling.dry)
    _check_reasoning(sampling.reasoning_budget, vocab_size)
    tokens = f"a token id from 0 to {vocab_size - 1}"
    for name in ("stop_token_ids", "suppress_tokens"):
        for token in getattr(sampling, name):
            if not 0 <= token < vocab_size:
                raise out_of_range(name, token, tokens)
    for token, value in sampling.logit_bias:
        if not 0 <= token < vocab_size:
            raise out_of_range("logit_bias", token, tokens)
        if not -100 <= value <= 100:
            raise out_of_range("logit_bias", value, "between -100 and 100")


def out_of_range(name: str, value: float, allowed: str) -> InvalidValueError:
    """The error for a number that is not ``allowed``."""
    return InvalidValueError(f"'{name}' is {value}; it must be {allowed}.", param=name)


def _check_dry(dry: DryParams | None) -> None:
    if dry is not None:
        for name, bounds in _DRY_BOUNDS.items():
            _check(f"dry_{name}", getattr(dry, name), bounds)


def _check_reasoning(budget: ReasoningBudget | None, vocab_size: int) -> None:
    if budget is None:
        return
    if budget.tokens < 0:
        raise out_of_range("reasoning_budget", budget.tokens, "at least 0")
    if not budget.opens or not budget.closes or not budget.closing_ids:
        raise InvalidValueError("A budget of reasoning needs its marks.", param="reasoning_budget")
    for token in budget.closing_ids:
        if not 0 <= token < vocab_size:
            raise out_of_range("reasoning_budget", token, f"a token id from 0 to {vocab_size - 1}")


def _check(name: str, value: float | None, bounds: tuple[float, float, str]) -> None:
    low, high, allowed = bounds
    if value is not None and not (math.isfinite(value) and low <= value <= high):
        raise out_of_range(name, value, allowed)
