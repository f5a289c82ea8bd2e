"""Rotary tables, and the order of rows that a graph's rotation expects."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from mrs.export.architectures.spec import (
    DynamicScaling,
    FactorsScaling,
    LinearScaling,
    Llama3Scaling,
    RopeLayout,
    RopeSpec,
    YarnScaling,
)

_Doubles = NDArray[np.float64]
Wave = Callable[[_Doubles], _Doubles]

# Positions per chunk: bounds the float64 values of a chunk to a few megabytes.
_CHUNK_POSITIONS = 4096


def rope_frequencies(rope: RopeSpec, context: int, factors: _Doubles | None = None) -> _Doubles:
    """Radians by which each pair turns from one position to the next, float64 ``[dims / 2]``.

    Args:
        rope: base, dims and scaling.
        context: positions that the table will have.
        factors: what a `FactorsScaling` divides by, ``[dims / 2]``.
    """
    scaling = rope.scaling
    if isinstance(scaling, DynamicScaling):
        return _plain(_stretched_base(rope, scaling, context), rope.dims)
    plain = _plain(rope.base, rope.dims)
    if isinstance(scaling, LinearScaling):
        return plain / scaling.factor
    if isinstance(scaling, Llama3Scaling):
        return _llama3(plain, scaling)
    if isinstance(scaling, YarnScaling):
        return _yarn(plain, rope, scaling)
    if isinstance(scaling, FactorsScaling):
        assert factors is not None, "the factors are in the checkpoint"
        return plain / factors
    return plain


def rope_amplitude(rope: RopeSpec) -> float:
    """What cosines and sines are multiplied by."""
    if isinstance(rope.scaling, YarnScaling | FactorsScaling):
        return rope.scaling.attention_factor
    return 1.0


def rope_table(
    wave: Wave, frequencies: _Doubles, length: int, amplitude: _Doubles | float = 1.0
) -> Iterator[NDArray[np.float32]]:
    """Cosines or sines for positions ``0 .. length-1``, float32 ``[some positions, dims / 2]``.

    Args:
        wave: `numpy.cos` or `numpy.sin`.
        frequencies: of the pairs, as `rope_frequencies` gives them.
        length: number of positions.
        amplitude: multiplies every value; a number, or one for each pair.
    """
    for start in range(0, length, _CHUNK_POSITIONS):
        stop = min(start + _CHUNK_POSITIONS, length)
        positions = np.arange(start, stop, dtype=np.float64)
        yield (amplitude * wave(np.outer(positions, frequencies))).astype(np.float32)


def head_row_order(
    layout: RopeLayout, heads: int, head_dim: int, rotated: int
) -> NDArray[np.int64] | None:
    """For each row of a projection as the graph rotates it, the checkpoint's row; None if equal.

    The graph pairs row ``i`` of a head with row ``i + whole / 2``, of the ``whole`` rows
    that `rotated_with_padding` counts.
    """
    whole = rotated_with_padding(rotated)
    if layout is RopeLayout.HALVES and whole == rotated:
        return None
    rows = np.arange(rotated)
    pairs = rows.reshape(2, -1) if layout is RopeLayout.HALVES else rows.reshape(-1, 2).T
    still = np.arange(rotated, whole).reshape(2, -1)
    rest = np.arange(whole, head_dim)
    head = np.concatenate([pairs[0], still[0], pairs[1], still[1], rest])
    order: NDArray[np.int64] = (np.arange(heads)[:, None] * head_dim + head).reshape(-1)
    return order


def rotated_with_padding(rotated: int) -> int:
    """Rows of a head that the graph's operator turns; it takes multiples of 16 alone.

    Those beyond ``rotated`` are turned by 0: their cosine is 1, their sine 0.
    """
    return -(-rotated // 16) * 16


def _plain(base: float, dims: int) -> _Doubles:
    frequencies: _Doubles = base ** (-np.arange(0, dims, 2, dtype=np.float64) / dims)
    return frequencies


def _stretched_base(rope: RopeSpec, scaling: DynamicScaling, context: int) -> float:
    """The base for a sequence as long as the context; a cache cannot follow a growing one."""
    ratio = max(context, scaling.original_context) / scaling.original_context
    stretch = scaling.factor * ratio - (scaling.factor - 1)
    return float(rope.base * stretch ** (rope.dims / (rope.dims - 2)))


def _llama3(plain: _Doubles, scaling: Llama3Scaling) -> _Doubles:
    """Source: the reference code of Llama 3.1's model card."""
    rotations = scaling.original_context * plain / (2 * math.pi)
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    smooth = np.clip((rotations - low) / (high - low), 0.0, 1.0)
    return (1 - smooth) * plain / scaling.factor + smooth * plain


def _yarn(plain: _Doubles, rope: RopeSpec, scaling: YarnScaling) -> _Doubles:
    """Source: YaRN, section 3.2 ("NTK-by-parts")."""

    def pair_with(rotations: float) -> float:
        """The (fractional) pair that turns so often over the original context."""
        wavelength = scaling.original_context / (rotations * 2 * math.pi)
        return rope.dims * math.log(wavelength) / (2 * math.log(rope.base))

    first, last = pair_with(scaling.beta_fast), pair_with(scaling.beta_slow)
    if scaling.truncate:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, rope.dims - 1)
    # A ramp without length would be divided by.
    span = last - first or 0.001
    slow: _Doubles = np.clip((np.arange(len(plain)) - first) / span, 0.0, 1.0)
    return plain / scaling.factor * slow + plain * (1 - slow)
