"""The sampling fields of a request to what the engine is asked for."""

from __future__ import annotations

from typing import Any

from mrs.errors import InvalidValueError
from mrs.runtime.generation import DryParams, SamplingParams
from mrs.runtime.sampling.defaults import with_defaults
from mrs.server.openai.sampling_fields import SamplingFields
from mrs.server.openai.schemas import ChatCompletionRequest
from mrs.server.served_model import ServedModel

USUAL_MIROSTAT_TAU = 5.0

# Fields that are called the same on both sides.
_SAME = (
    *("temperature", "top_p", "min_p", "typical_p", "xtc_probability", "xtc_threshold"),
    *("frequency_penalty", "presence_penalty", "min_tokens", "seed", "ignore_eos", "mirostat_eta"),
)


def sampling_params(fields: SamplingFields, model: ServedModel, **more: Any) -> SamplingParams:
    """How the answers to a checked request are drawn.

    What the request leaves open is drawn as the model's authors do it.

    Args:
        fields: the request.
        model: what answers it.
        more: what endpoints spell in ways of their own: ``max_tokens``, ``logprobs``,
            ``prompt_logprobs``, ``cumulative_logprob``, ``stop`` (instead of the fields' own), ...;
            None is left open.

    Raises:
        InvalidValueError: two fields that name one thing differ.
    """
    given = {name: getattr(fields, name) for name in _SAME}
    given |= {
        "top_k": _top_k(fields.top_k, model.vocab_size),
        "top_n_sigma": fields.top_n_sigma or None,
        "repetition_penalty": _either(fields, "repetition_penalty", "repeat_penalty"),
        "penalty_window": _penalty_window(fields),
        "stop": None if fields.stop is None else tuple(fields.stop),
        "stop_token_ids": tuple(fields.stop_token_ids or ()),
        "logit_bias": tuple((fields.logit_bias or {}).items()),
        "mirostat_tau": _mirostat_tau(fields),
        "dry": _dry(fields),
    }
    return with_defaults(model.sampling_defaults, **(given | more))


def chat_sampling_params(request: ChatCompletionRequest, model: ServedModel) -> SamplingParams:
    """How the answers to a chat completion request are drawn."""
    return sampling_params(
        request,
        model,
        max_tokens=request.max_completion_tokens or request.max_tokens,
        logprobs=(request.top_logprobs or 0) if request.logprobs else None,
    )


def _top_k(top_k: int | None, vocab_size: int) -> int | None:
    """0 keeps all, against what the model's authors do; None leaves it to them."""
    return top_k if top_k is None or 1 <= top_k < vocab_size else 0


def _either(fields: SamplingFields, name: str, other: str) -> Any:
    """The value of a field that has two names."""
    first, second = getattr(fields, name), getattr(fields, other)
    if first is not None and second is not None and first != second:
        raise InvalidValueError(
            f"'{name}' is {first} and '{other}' is {second}: they name one thing.",
            hint="Send one of them.",
            param=other,
        )
    return second if first is None else first


def _penalty_window(fields: SamplingFields) -> int | None:
    window: int | None = _either(fields, "penalty_window", "repeat_last_n")
    return None if window == -1 else window


def _mirostat_tau(fields: SamplingFields) -> float | None:
    """What Mirostat holds; None for off. A ``tau`` alone asks for it."""
    if fields.mirostat == 0:
        return None
    if fields.mirostat_tau is None and fields.mirostat == 2:
        return USUAL_MIROSTAT_TAU
    return fields.mirostat_tau


def _dry(fields: SamplingFields) -> DryParams | None:
    """Off unless a multiplier asks for it."""
    if not fields.dry_multiplier:
        return None
    usual = DryParams(fields.dry_multiplier)
    breakers = fields.dry_sequence_breakers
    return DryParams(
        multiplier=fields.dry_multiplier,
        base=usual.base if fields.dry_base is None else fields.dry_base,
        allowed_length=fields.dry_allowed_length or usual.allowed_length,
        breakers=usual.breakers if breakers is None else tuple(breakers),
    )
