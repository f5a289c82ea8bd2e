"""How metadata says that the rotary embedding is stretched.

Keys are GGUF's where it has them. What only ``config.json`` tells is under keys of our own, which
`mrs.export.architectures.huggingface` writes: ``rope.scaling.low_freq_factor``,
``.high_freq_factor``, ``.long_factors``, ``.short_factors``, ``.amplitude`` and ``.truncate``.
"""

from __future__ import annotations

import math

from mrs.errors import CorruptCheckpointError, UnsupportedArchitectureError
from mrs.export.architectures.metadata import ArchitectureMetadata
from mrs.export.architectures.spec import (
    DynamicScaling,
    FactorsScaling,
    LinearScaling,
    Llama3Scaling,
    LongRopeScaling,
    RopeScaling,
    YarnScaling,
)
from mrs.export.checkpoints.checkpoint import Checkpoint

FACTORS_TENSOR = "rope_freqs.weight"
_LONG_FACTORS, _SHORT_FACTORS = "rope_factors_long.weight", "rope_factors_short.weight"
UNUSED_FACTORS = (_LONG_FACTORS, _SHORT_FACTORS)
"""LongRoPE's, of which the context decides which are used."""


def rope_scaling(
    checkpoint: Checkpoint, metadata: ArchitectureMetadata, dims: int
) -> RopeScaling | None:
    """The scaling that a checkpoint asks for, or None.

    Raises:
        UnsupportedArchitectureError: of a kind that mrs does not have.
        CorruptCheckpointError: a key is missing or makes no sense.
    """
    if FACTORS_TENSOR in checkpoint.tensors:
        return FactorsScaling(tensor=FACTORS_TENSOR)
    kind = metadata.text("rope.scaling.type", "linear")
    if _LONG_FACTORS in checkpoint.tensors or kind == "longrope":
        return _longrope(checkpoint, metadata, dims)
    if kind == "none":
        return None
    if kind == "linear":
        return _linear(metadata)
    if kind == "dynamic":
        return DynamicScaling(metadata.number("rope.scaling.factor"), _original_context(metadata))
    if kind == "llama3":
        return Llama3Scaling(
            factor=metadata.number("rope.scaling.factor"),
            low_freq_factor=metadata.number("rope.scaling.low_freq_factor"),
            high_freq_factor=metadata.number("rope.scaling.high_freq_factor"),
            original_context=_original_context(metadata),
        )
    if kind == "yarn":
        return _yarn(metadata)
    raise UnsupportedArchitectureError(
        f"The rope scaling {kind!r:.80} is not supported; supported are: none, linear, dynamic, "
        f"llama3, yarn, longrope, and frequency factors ({FACTORS_TENSOR}).",
        hint="Export a model with one of these.",
    )


def _linear(metadata: ArchitectureMetadata) -> LinearScaling | None:
    """A factor without a type is linear, as llama.cpp reads it."""
    factor = metadata.optional_number("rope.scaling.factor")
    # Files of 2023 call it otherwise.
    factor = factor or metadata.optional_number("rope.scale_linear")
    return None if factor in (None, 1.0) else LinearScaling(factor)


def _yarn(metadata: ArchitectureMetadata) -> YarnScaling:
    original = _original_context(metadata)
    factor = metadata.optional_number("rope.scaling.factor")
    if factor is None:
        factor = metadata.size("context_length") / original
    attention = metadata.optional_number("rope.scaling.amplitude")
    if attention is None:
        # llama.cpp's factor multiplies what the paper recommends.
        attention = metadata.optional_number("rope.scaling.attn_factor") or 1.0
        attention *= 0.1 * math.log(factor) + 1.0 if factor > 1 else 1.0
    return YarnScaling(
        factor=factor,
        original_context=original,
        beta_fast=metadata.optional_number("rope.scaling.yarn_beta_fast") or 32.0,
        beta_slow=metadata.optional_number("rope.scaling.yarn_beta_slow") or 1.0,
        attention_factor=attention,
        truncate=metadata.flag("rope.scaling.truncate", True),
    )


def longrope_amplitude(factor: float, original: int) -> float:
    """What cosines and sines are multiplied by.

    Source: LongRoPE as Phi-3 uses it (arXiv:2404.14219, modeling_phi3.py).

    Args:
        factor: how many times the original context.
        original: positions of that.
    """
    if factor <= 1 or original <= 1:
        return 1.0
    return math.sqrt(1 + math.log(factor) / math.log(original))


def _longrope(checkpoint: Checkpoint, metadata: ArchitectureMetadata, dims: int) -> RopeScaling:
    original = _original_context(metadata)
    attention = metadata.optional_number("rope.scaling.amplitude")
    attention = attention or metadata.optional_number("rope.scaling.attn_factor")
    if attention is None:
        ratio = metadata.size("context_length") / original
        attention = longrope_amplitude(ratio, original)

    def factors(tensor: str, key: str) -> FactorsScaling:
        if tensor in checkpoint.tensors:
            return FactorsScaling(tensor=tensor, attention_factor=attention)
        values = metadata.numbers(key)
        if len(values) != dims // 2:
            raise CorruptCheckpointError(
                f"The rotary embedding has {dims // 2} pairs, but {key} holds {len(values)} "
                "numbers.",
                hint="Download the model again.",
            )
        return FactorsScaling(values=values, attention_factor=attention)

    return LongRopeScaling(
        short=factors(_SHORT_FACTORS, "rope.scaling.short_factors"),
        long=factors(_LONG_FACTORS, "rope.scaling.long_factors"),
        original_context=original,
    )


def _original_context(metadata: ArchitectureMetadata) -> int:
    key = "rope.scaling.original_context_length"
    return metadata.optional_size(key) or metadata.size("context_length")
