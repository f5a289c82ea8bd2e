"""Matrices in blocks in ONNX Runtime against the values that gguf reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from mrs.export.graph.block_matrix import BlockLayout, Offsets
from mrs.export.graph.builder import GraphBuilder
from mrs.export.graph.float32_matrix import Float32Layout
from mrs.export.graph.matrix_choices import auto, keep, q4, q8
from mrs.export.graph.weight_file import WeightFile
from mrs.export.quantization.block_types import BLOCK_DTYPES, block_type
from tests.export.gguf_files import StoredTensor, TensorItem, quantize, random_blocks
from tests.export.graph.activations import BLOCK, exact_in_int8, near_int8
from tests.export.graph.one_matrix import (
    Part,
    gather,
    multiply,
    records,
    row_sources,
    stored_by,
    values,
)

Floats = NDArray[np.float32]

# Widths whose block sums are appended 2, 3 and 4 times, and one that ends inside a block.
WIDTHS = (1024, 576, 352, 2080)
IDS = np.array([[3, 0, 39], [3, 17, 17]], dtype=np.int64)


def normal(dtype: str, rows: int = 40, columns: int = 512, seed: int = 0) -> TensorItem:
    weights = np.random.default_rng(seed).normal(scale=0.05, size=(rows, columns))
    if dtype in ("F32", "F16"):
        return weights.astype({"F32": np.float32, "F16": np.float16}[dtype])
    if dtype in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"):
        return quantize(weights.astype(np.float32), dtype)
    return random_blocks(dtype, (rows, columns), seed)


def rounding(x: Floats, weights: Floats) -> NDArray[np.float64]:
    """What the order of float32 sums may cost."""
    bound: NDArray[np.float64] = 2e-6 * (np.abs(x).astype(np.float64) @ np.abs(weights).T)
    return bound


# --- the checkpoint's values ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", BLOCK_DTYPES)
def test_exact_activations_show_every_kept_weight(tmp_path: Path, dtype: str) -> None:
    """Within what float32 sums cost, where any misplaced or rounded weight would show."""
    part = Part(normal(dtype, columns=1024))
    kind = block_type(dtype)
    assert kind is not None
    x = exact_in_int8(6, 1024, block=min(kind.block_size, 32))
    got = multiply(tmp_path, stored_by(keep), [part], x)
    expected = x @ part.values.astype(np.float64).T
    assert np.all(np.abs(got - expected) <= rounding(x, part.values))


@pytest.mark.parametrize("dtype", BLOCK_DTYPES)
def test_kept_rows_are_looked_up_bit_for_bit(tmp_path: Path, dtype: str) -> None:
    part = Part(normal(dtype))
    got = gather(tmp_path, stored_by(keep, gathered=True), [part], IDS)
    np.testing.assert_array_equal(got, part.values[IDS])


@pytest.mark.parametrize("shape", [(7,), (2, 5), (1, 1)], ids=str)
@pytest.mark.parametrize("dtype", ["Q4_0", "Q4_1", "Q5_K", "Q6_K", "TQ2_0"])
def test_rows_of_x_may_be_in_one_or_two_dimensions(
    tmp_path: Path, dtype: str, shape: tuple[int, ...]
) -> None:
    x = near_int8((*shape, 512))
    part = Part(normal(dtype))
    for store in map(stored_by, (keep, auto)):
        folder = tmp_path / str(store)
        folder.mkdir()
        got = multiply(folder, store, [part], x)
        expected = x @ part.values.T
        assert got.shape == expected.shape
        assert np.linalg.norm(got - expected) < 0.015 * np.linalg.norm(expected)


def test_parts_with_and_without_offsets_lie_below_one_another(tmp_path: Path) -> None:
    order = np.random.default_rng(3).permutation(24)
    types = ("Q4_1", "Q4_0", "Q4_K")
    parts = [Part(normal(dtype, 24, seed=seed), order) for seed, dtype in enumerate(types)]
    x = exact_in_int8(3, 512)
    got = multiply(tmp_path, stored_by(keep), parts, x)
    expected = x @ values(parts).astype(np.float64).T
    assert np.all(np.abs(got - expected) <= rounding(x, values(parts)))


def test_a_block_with_a_zero_point_of_its_own_is_kept(tmp_path: Path) -> None:
    """Two bits hold the fourth code of TQ2_0 only around another zero point."""
    tensor = random_blocks("TQ2_0", (8, 512))
    tensor.data[:4, :64] &= 0x55
    part = Part(tensor)
    kind = block_type("TQ2_0")
    assert kind is not None
    assert set(np.unique(kind.unpack(tensor.data).zero_points)) == {1, 2}
    x = exact_in_int8(3, 512)
    got = multiply(tmp_path, stored_by(keep), [part], x)
    assert np.all(np.abs(got - x @ part.values.T) <= rounding(x, part.values))


# --- offsets as columns ---------------------------------------------------------------------------


def largest_offset(part: Part) -> float:
    assert isinstance(part.tensor, StoredTensor)
    kind = block_type(part.tensor.dtype)
    assert kind is not None
    offsets = kind.unpack(part.tensor.data).offsets
    return 0.0 if offsets is None else float(np.abs(offsets).max())


def assert_exact_but_for_offsets(folder: Path, parts: list[Part]) -> None:
    """Activations are exact, so all that may be off is a 225th of the largest offset."""
    weights = values(parts).astype(np.float64)
    x = exact_in_int8(6, weights.shape[1])
    got = multiply(folder, stored_by(auto), parts, x)
    sums = np.abs(x.reshape(6, -1, BLOCK).sum(axis=-1)).sum(axis=-1, keepdims=True)
    bound = sums * max(map(largest_offset, parts)) / 225 + rounding(x, values(parts))
    assert np.all(np.abs(got - x @ weights.T) <= bound)


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("dtype", ["Q4_0", "Q4_1"])
def test_exact_activations_show_every_weight(tmp_path: Path, dtype: str, columns: int) -> None:
    assert_exact_but_for_offsets(tmp_path, [Part(normal(dtype, 40, columns))])


def test_exact_activations_show_every_weight_of_k_blocks(tmp_path: Path) -> None:
    assert_exact_but_for_offsets(tmp_path, [Part(random_blocks("Q4_K", (40, 1024)))])


def test_columns_of_parts_with_and_without_offsets(tmp_path: Path) -> None:
    order = np.random.default_rng(3).permutation(24)
    parts = [Part(normal(dtype, 24, seed=4), order) for dtype in ("Q4_1", "Q4_0")]
    assert_exact_but_for_offsets(tmp_path, [*parts, Part(random_blocks("Q4_K", (8, 512)))])


def test_blocks_above_or_below_zero_only(tmp_path: Path) -> None:
    """No zero point reaches their minimum: the offset takes what is left, however large."""
    rng = np.random.default_rng(5)
    weights = rng.uniform(1, 2, (32, 512)) * np.repeat(rng.choice([-1, 1], (32, 16)), BLOCK, axis=1)
    assert_exact_but_for_offsets(tmp_path, [Part(quantize(weights.astype(np.float32), "Q4_1"))])


def test_offset_columns_cost_at_most_an_eighth(tmp_path: Path) -> None:
    """Codes, scales and zero points of a Q4_1 matrix 2048 wide: 64 sums twice are 4 blocks more."""
    with WeightFile(tmp_path / "model.onnx.data") as weight_file:
        builder = GraphBuilder(weight_file)
        stored_by(auto)(builder, "w", row_sources([Part(normal("Q4_1", 64, 2048))]))
        blocks = 64 + 4
        assert weight_file.size == 64 * (blocks * 16 + blocks * 4 + blocks // 2)


def test_rows_with_offset_columns_cannot_be_looked_up(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="offset columns"):
        gather(tmp_path, stored_by(auto), [Part(normal("Q4_1"))], IDS)


# --- rounded to 8 bits ----------------------------------------------------------------------------


def half_steps(weights: Floats) -> NDArray[np.float64]:
    """What rounding to 8 bits may cost each weight: half of a 255th of what its block spans."""
    blocks = weights.reshape(len(weights), -1, BLOCK).astype(np.float64)
    span = np.maximum(blocks.max(-1), 0) - np.minimum(blocks.min(-1), 0)
    return np.repeat(span / 510, BLOCK, axis=-1)


@pytest.mark.parametrize("dtype", ["F32", "F16", "Q4_1", "Q4_K", "Q5_1"])
def test_exact_activations_show_rounded_weights_within_half_a_step(
    tmp_path: Path, dtype: str
) -> None:
    part = Part(normal(dtype))
    x = exact_in_int8(6, 512)
    expected = x @ part.values.astype(np.float64).T
    error = np.abs(multiply(tmp_path, stored_by(q8), [part], x) - expected)
    allowed = 1.001 * (np.abs(x) @ half_steps(part.values).T) + rounding(x, part.values)
    assert np.all(error <= allowed)
    assert error.max() > 0


@pytest.mark.parametrize("dtype", ["F32", "F16", "Q4_1", "Q4_K"])
def test_rounded_rows_are_looked_up_within_half_a_step(tmp_path: Path, dtype: str) -> None:
    part = Part(normal(dtype))
    got = gather(tmp_path, stored_by(q8, gathered=True), [part], IDS)
    assert np.all(np.abs(got - part.values[IDS]) <= 1.001 * half_steps(part.values)[IDS])


@pytest.mark.parametrize("dtype", ["Q4_0", "Q5_0", "Q8_0", "Q3_K", "Q6_K", "TQ1_0"])
def test_codes_without_offsets_are_widened_to_8_bits_exactly(tmp_path: Path, dtype: str) -> None:
    part = Part(normal(dtype))
    got = gather(tmp_path, stored_by(q8, gathered=True), [part], IDS)
    np.testing.assert_array_equal(got, part.values[IDS])


def test_fewer_bits_are_further_from_the_weights(tmp_path: Path) -> None:
    part = Part(normal("F32", columns=1024))
    x = exact_in_int8(6, 1024)
    expected = x @ part.values.astype(np.float64).T
    found = []
    for name, store in {
        "q8": stored_by(q8),
        "q4": stored_by(q4),
        "q4 without offsets": stored_by(q4, gathered=True),
    }.items():
        folder = tmp_path / name
        folder.mkdir()
        got = multiply(folder, store, [part], x)
        found.append(np.linalg.norm(got - expected) / np.linalg.norm(expected))
    assert 0 < found[0] < 0.01
    assert 5 * found[0] < found[1] < found[2] < 0.1


# --- layouts --------------------------------------------------------------------------------------


def test_layouts_of_equal_blocks_join_and_the_higher_offsets_win() -> None:
    plain, columns = BlockLayout(4, 32), BlockLayout(4, 32, Offsets.COLUMNS)
    exact = BlockLayout(4, 32, Offsets.EXACT)
    assert plain.join(columns) == columns.join(plain) == columns
    assert columns.join(exact) == exact


@pytest.mark.parametrize("other", [BlockLayout(8, 32), BlockLayout(4, 16), Float32Layout()])
def test_other_layouts_do_not_join(other: BlockLayout | Float32Layout) -> None:
    assert BlockLayout(4, 32).join(other) is None
    assert other.join(BlockLayout(4, 32)) is None


def test_records_name_format_and_exactness(tmp_path: Path) -> None:
    parts = [Part(normal(dtype)) for dtype in ("Q4_0", "Q4_1")]
    plain, columns = records(tmp_path, stored_by(auto), parts)
    assert (plain.source_type, plain.stored_as, plain.exact) == ("Q4_0", "int4-block32", True)
    assert columns.stored_as == "int4-block32+offset-columns"
    assert not columns.exact
