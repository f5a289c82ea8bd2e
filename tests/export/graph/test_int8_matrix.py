"""8-bit matrices in ONNX Runtime against the values that gguf reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from mrs.export.graph.int8_matrix import store_int8
from tests.export.gguf_files import TensorItem, quantize, random_blocks
from tests.export.graph.activations import BLOCK, exact_in_int8, near_int8
from tests.export.graph.one_matrix import Part, gather, multiply, records, values

Floats = NDArray[np.float32]
EXACT = ("Q4_0", "Q5_0", "Q8_0")
ROUNDED = ("F32", "F16", "Q4_1", "Q4_K", "Q6_K")


def normal(dtype: str, rows: int = 40, columns: int = 512, seed: int = 0) -> TensorItem:
    weights = np.random.default_rng(seed).normal(scale=0.05, size=(rows, columns))
    if dtype == "F32":
        return weights.astype(np.float32)
    if dtype == "F16":
        return weights.astype(np.float16)
    if dtype in ("Q4_K", "Q6_K"):
        return random_blocks(dtype, (rows, columns), seed)
    return quantize(weights.astype(np.float32), dtype)


def half_steps(weights: Floats) -> NDArray[np.float64]:
    """What rounding to 8 bits may cost each weight: half of a 255th of what its block spans."""
    blocks = weights.reshape(len(weights), -1, BLOCK).astype(np.float64)
    span = np.maximum(blocks.max(-1), 0) - np.minimum(blocks.min(-1), 0)
    return np.repeat(span / 510, BLOCK, axis=-1)


@pytest.mark.parametrize("dtype", EXACT)
def test_exact_activations_show_every_repacked_weight(tmp_path: Path, dtype: str) -> None:
    part = Part(normal(dtype))
    x = exact_in_int8(6, 512)
    expected = x @ part.values.astype(np.float64).T
    rounding = 1e-6 * (np.abs(x) @ np.abs(part.values).T)
    assert np.all(np.abs(multiply(tmp_path, store_int8, [part], x) - expected) <= rounding)


@pytest.mark.parametrize("dtype", ROUNDED)
def test_exact_activations_show_rounded_weights_within_half_a_step(
    tmp_path: Path, dtype: str
) -> None:
    part = Part(normal(dtype))
    x = exact_in_int8(6, 512)
    expected = x @ part.values.astype(np.float64).T
    rounding = 1e-6 * (np.abs(x) @ np.abs(part.values).T)
    error = np.abs(multiply(tmp_path, store_int8, [part], x) - expected)
    assert np.all(error <= 1.001 * (np.abs(x) @ half_steps(part.values).T) + rounding)
    assert error.max() > 0


@pytest.mark.parametrize("shape", [(7,), (2, 5), (1, 1)], ids=str)
def test_rows_of_x_may_be_in_one_or_two_dimensions(tmp_path: Path, shape: tuple[int, ...]) -> None:
    x = near_int8((*shape, 512))
    part = Part(normal("Q4_1"))
    got = multiply(tmp_path, store_int8, [part], x)
    expected = x @ part.values.T
    assert got.shape == expected.shape
    assert np.linalg.norm(got - expected) < 0.015 * np.linalg.norm(expected)


def test_parts_with_and_without_zero_points_lie_below_one_another(tmp_path: Path) -> None:
    order = np.random.default_rng(3).permutation(24)
    parts = [Part(normal("Q8_0", 24), order), Part(normal("F16", 16, seed=1))]
    x = exact_in_int8(3, 512)
    expected = x @ values(parts).astype(np.float64).T
    got = multiply(tmp_path, store_int8, parts, x)
    rounding = 1e-6 * (np.abs(x) @ np.abs(values(parts)).T)
    allowed = 1.001 * (np.abs(x) @ half_steps(parts[1].values).T) + rounding[:, 24:]
    assert np.all(np.abs(got - expected)[:, :24] <= rounding[:, :24])
    assert np.all(np.abs(got - expected)[:, 24:] <= allowed)


# --- looking rows up ------------------------------------------------------------------------------

IDS = np.array([[3, 0, 39], [3, 17, 17]], dtype=np.int64)


@pytest.mark.parametrize("dtype", EXACT)
def test_repacked_rows_are_looked_up_exactly(tmp_path: Path, dtype: str) -> None:
    part = Part(normal(dtype))
    got = gather(tmp_path, store_int8, [part], IDS)
    np.testing.assert_array_equal(got, part.values[IDS])


@pytest.mark.parametrize("dtype", ROUNDED)
def test_rounded_rows_are_looked_up_within_half_a_step(tmp_path: Path, dtype: str) -> None:
    part = Part(normal(dtype))
    error = np.abs(gather(tmp_path, store_int8, [part], IDS) - part.values[IDS])
    assert np.all(error <= 1.001 * half_steps(part.values)[IDS])


def test_rows_are_looked_up_in_the_wanted_order(tmp_path: Path) -> None:
    order = np.random.default_rng(3).permutation(40)
    part = Part(normal("Q8_0"), order)
    np.testing.assert_array_equal(gather(tmp_path, store_int8, [part], IDS), part.values[IDS])


def test_records_name_format_and_exactness(tmp_path: Path) -> None:
    exact, rounded = records(tmp_path, store_int8, [Part(normal("Q5_0")), Part(normal("F16"))])
    assert (exact.source_type, exact.stored_as, exact.exact) == ("Q5_0", "int8-block32", True)
    assert (rounded.source_type, rounded.stored_as, rounded.exact) == ("F16", "int8-block32", False)
