"""The sampling fields of a request to what the engine is asked for."""

from __future__ import annotations

from typing import Any

from mrs.runtime.generation import DryParams, SamplingParams
from mrs.server.openai.schemas import ChatCompletionRequest

# Fields that are called the same on both sides, and are left out where the request has none.
_NUMBERS = (
    *("min_p", "typical_p", "xtc_probability", "xtc_threshold", "min_tokens"),
    *("frequency_penalty", "presence_penalty", "repetition_penalty"),
)


def sampling_params(request: ChatCompletionRequest, vocab_size: int) -> SamplingParams:
    """How the answers to a checked request are drawn."""
    top_k = request.top_k
    keeps_all = top_k is None or not 1 <= top_k < vocab_size
    given = {name: getattr(request, name) for name in _NUMBERS}
    numbers: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return SamplingParams(
        temperature=1.0 if request.temperature is None else float(request.temperature),
        top_k=None if keeps_all else top_k,
        top_p=1.0 if request.top_p is None else float(request.top_p),
        seed=request.seed,
        max_tokens=request.max_completion_tokens or request.max_tokens,
        stop=tuple(request.stop or ()),
        ignore_eos=bool(request.ignore_eos),
        stop_token_ids=tuple(request.stop_token_ids or ()),
        logit_bias=tuple((request.logit_bias or {}).items()),
        logprobs=(request.top_logprobs or 0) if request.logprobs else None,
        top_n_sigma=request.top_n_sigma or None,
        dry=_dry(request),
        **numbers,
    )


def _dry(request: ChatCompletionRequest) -> DryParams | None:
    """Off unless a multiplier asks for it."""
    if not request.dry_multiplier:
        return None
    usual = DryParams(request.dry_multiplier)
    breakers = request.dry_sequence_breakers
    return DryParams(
        multiplier=request.dry_multiplier,
        base=usual.base if request.dry_base is None else request.dry_base,
        allowed_length=request.dry_allowed_length or usual.allowed_length,
        breakers=usual.breakers if breakers is None else tuple(breakers),
    )
