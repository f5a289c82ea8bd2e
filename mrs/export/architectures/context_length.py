"""How many positions an artifact has room for.

The checkpoint says how many its model was made for; the user may want fewer, which saves the
tables of the rotation, or more, which a rotation can be stretched to and a table of learned
positions cannot. The positions decide LongRoPE's factors and how far dynamic NTK stretches.
"""

from __future__ import annotations

from dataclasses import replace

from mrs.errors import UnsupportedArchitectureError, UsageError
from mrs.export.architectures.embedding_spec import EmbeddingSpec, EncoderSpec
from mrs.export.architectures.spec import LARGEST_CONTEXT, DecoderSpec

LARGEST_TABLES = 1 << 30
"""Bytes of all rotary tables together: two million positions of a head of 128."""

_SUGGESTION = "Say how many positions you need, for instance: --context-length 32768."


def at_context(
    spec: DecoderSpec | EmbeddingSpec, length: int | None
) -> DecoderSpec | EmbeddingSpec:
    """The same model with room for ``length`` positions; None keeps what the checkpoint says.

    Raises:
        UsageError: more than the model can be stretched to, or than is exported.
        UnsupportedArchitectureError: its own length is too large to be exported.
    """
    if isinstance(spec, EmbeddingSpec):
        return replace(spec, body=_fitted(spec.body, length))
    fitted = _fitted(spec, length)
    assert isinstance(fitted, DecoderSpec)
    return fitted


def _fitted(body: DecoderSpec | EncoderSpec, length: int | None) -> DecoderSpec | EncoderSpec:
    if length is not None:
        check_length(length)
        _check_learned(body, length)
        body = replace(body, context_length=length)
    if body.context_length > LARGEST_CONTEXT:
        raise UnsupportedArchitectureError(
            f"The model has room for {body.context_length} positions; at most {LARGEST_CONTEXT} "
            "are exported.",
            hint=_SUGGESTION,
        )
    size = _table_bytes(body)
    if size > LARGEST_TABLES:
        raise UnsupportedArchitectureError(
            f"The rotary tables of {body.context_length} positions take {size / 1e9:.1f} GB; at "
            f"most {LARGEST_TABLES / 1e9:.1f} GB are written.",
            hint=_SUGGESTION,
        )
    return body


def check_length(length: int) -> None:
    """What can be said before the model is known.

    Raises:
        UsageError: no artifact has so many positions.
    """
    if not 0 < length <= LARGEST_CONTEXT:
        raise UsageError(
            f"--context-length is {length}; it must be from 1 to {LARGEST_CONTEXT}.",
            param="context_length",
        )


def _check_learned(body: DecoderSpec | EncoderSpec, length: int) -> None:
    table = body.context_length if isinstance(body, EncoderSpec) else body.learned_positions
    if table and length > table:
        raise UsageError(
            f"--context-length is {length}, but the model learned {table} positions, one by one: "
            "it has no more.",
            hint=f"Ask for at most {table}, or leave the option out.",
            param="context_length",
        )


def _table_bytes(body: DecoderSpec | EncoderSpec) -> int:
    """Cosines and sines: two float32 for each pair and position."""
    if isinstance(body, EncoderSpec):
        return 0
    ropes = {layer.attention.rope for layer in body.layers}
    return sum(4 * rope.dims * body.context_length for rope in ropes if rope is not None)
