"""Scales of an 8-bit KV cache: the largest keys and values that the bundled text gives.

A scale for each channel of each head, for keys and for values, so that the largest number seen is
127 steps. Rotation turns two channels of a key into one another as a text gets longer; what they
come to anywhere in the context follows from what they are at its beginning.

Scales are rounded up to powers of 2 ** (1/8), which leaves some room, costs nothing that can be
measured, and makes most of them the same on all processors. Not all: each kind of processor sums in
an order of its own, and some channel is always near a bound. So the scales are no part of what an
artifact is identified by.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mrs.cpu import usable_cpus
from mrs.errors import ModelLoadError, RuntimeUnavailableError
from mrs.export.graph.int8_cache import rotation_frequencies
from mrs.export.parity.graph_runner import GraphRunner, NotMeasurableError
from mrs.export.parity.text import tokenize_text

# Of each window of the bundled text: enough to meet all that it is made of, prose, code and others.
_TOKENS_OF_A_WINDOW = 256
_CHUNK = 128
_LARGEST = 127
_UNUSABLE = "ONNX Runtime cannot run the graph"
_STEPS_OF_AN_OCTAVE = 8
# No channel has a smaller scale than this part of its layer's largest: some are never used.
_SMALLEST_SHARE = 2.0**-10


def write_cache_scales(
    path: Path,
    graph: Path,
    tokenizer_json: Path,
    *,
    context_length: int,
    begin_token: int | None,
    mapped: bool = False,
) -> str | None:
    """Measure the scales of a model's cache and write them.

    Args:
        path: to create.
        graph: the float32-cache graph of the artifact.
        tokenizer_json: its tokenizer.
        context_length: of the model.
        begin_token: what texts start with, if anything.
        mapped: as `GraphRunner` has it; of use where weights are float32.

    Returns:
        why nothing was written; None if it was.
    """
    try:
        text = tokenize_text(tokenizer_json, context_length=context_length, begin_token=begin_token)
        runner = GraphRunner(
            graph,
            capacity=min(text.longest, _TOKENS_OF_A_WINDOW),
            threads=usable_cpus(),
            mapped=mapped,
        )
    except NotMeasurableError as error:
        return str(error)
    except RuntimeUnavailableError:
        return "there is no ONNX Runtime to run the graph"
    except ModelLoadError:
        return _UNUSABLE
    try:
        windows = [window[:_TOKENS_OF_A_WINDOW] for window in text.windows]
        peaks = _peaks(runner, rotation_frequencies(graph), windows, context_length)
    except ModelLoadError:
        return _UNUSABLE
    finally:
        runner.close()
    if not all(np.isfinite(peak).all() for peak in peaks):
        return "keys or values of the text are not finite"
    path.write_bytes(b"".join(_scales(peak).tobytes() for peak in peaks))
    return None


def _peaks(
    runner: GraphRunner,
    frequencies: Sequence[NDArray[np.float64]],
    windows: Sequence[NDArray[np.int64]],
    context_length: int,
) -> list[NDArray[np.float64]]:
    """The largest of each channel: keys and values of each layer, ``[heads, head_dim]``."""
    found: list[list[NDArray[np.float64]]] = []
    for window in windows:
        for start in range(0, len(window), _CHUNK):
            chunk = window[start : start + _CHUNK]
            runner.run(chunk, start, len(chunk) - 1)
        layers = zip(runner.cached(len(window)), frequencies, strict=True)
        found.append([])
        for (keys, values), turns in layers:
            with np.errstate(all="ignore"):  # What is not finite shows in the result.
                found[-1].append(largest_keys(keys, turns, context_length))
            found[-1].append(np.abs(values).max(axis=1).astype(np.float64))
    return [np.max(peaks, axis=0) for peaks in zip(*found, strict=True)]


def largest_keys(
    keys: NDArray[np.float32], frequencies: NDArray[np.float64], context_length: int
) -> NDArray[np.float64]:
    """The largest that rotated keys would come to, were each at any position of the context.

    Args:
        keys: float32 ``[heads, tokens, head_dim]``, of the first positions.
        frequencies: radians that each pair of channels is turned by from one position to the next;
            channel ``i`` and channel ``i + len(frequencies)`` are a pair, the rest is not turned.
        context_length: positions.

    Returns:
        absolute values, ``[heads, head_dim]``.
    """
    pairs = len(frequencies)
    first, second = keys[..., :pairs].astype(np.float64), keys[..., pairs : 2 * pairs]
    lengths = np.hypot(first, second)
    begin = np.arctan2(second, first) - np.arange(keys.shape[1])[:, np.newaxis] * frequencies
    arc = frequencies * (context_length - 1)
    cosines = lengths * _largest_cosine(begin, arc)
    sines = lengths * _largest_cosine(begin - np.pi / 2, arc)
    still = np.abs(keys[..., 2 * pairs :])
    largest: NDArray[np.float64] = np.concatenate([cosines, sines, still], axis=-1).max(axis=1)
    return largest


def _largest_cosine(begin: NDArray[np.float64], arc: NDArray[np.float64]) -> NDArray[np.float64]:
    """The largest absolute cosine between an angle and another one, ``arc`` further on."""
    end = begin + arc
    ends = np.maximum(np.abs(np.cos(begin)), np.abs(np.cos(end)))
    passes_one = np.floor(end / np.pi) > np.floor(begin / np.pi)
    return np.where(passes_one, 1.0, ends)


def _scales(peak: NDArray[np.float64]) -> NDArray[np.float32]:
    """float32, of the same shape, powers of 2 ** (1/8)."""
    largest = float(peak.max()) or 1.0
    wanted = np.maximum(peak, largest * _SMALLEST_SHARE) / _LARGEST
    steps = np.ceil(np.log2(wanted) * _STEPS_OF_AN_OCTAVE)
    scales: NDArray[np.float32] = np.exp2(steps / _STEPS_OF_AN_OCTAVE).astype(np.float32)
    return scales
