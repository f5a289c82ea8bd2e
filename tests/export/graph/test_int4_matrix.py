"""4-bit matrices in ONNX Runtime against the values that gguf reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mrs.export.graph.builder import GraphBuilder
from mrs.export.graph.int4_matrix import can_store_int4, store_int4
from mrs.export.graph.weight_file import WeightFile
from mrs.export.quantization.int4_blocks import to_int4_blocks
from tests.export.gguf_files import StoredTensor, quantize, random_blocks
from tests.export.graph.activations import BLOCK, exact_in_int8, near_int8
from tests.export.graph.one_matrix import Part, multiply, records, row_sources, values

# Widths whose block sums are appended 2, 3 and 4 times, and one that ends inside a block.
WIDTHS = (1024, 576, 352, 2080)


def normal(dtype: str, rows: int, columns: int, seed: int = 0) -> StoredTensor:
    weights = np.random.default_rng(seed).normal(scale=0.05, size=(rows, columns))
    return quantize(weights.astype(np.float32), dtype)


def largest_offset(part: Part) -> float:
    assert isinstance(part.tensor, StoredTensor)
    return float(np.abs(to_int4_blocks(part.tensor.data, part.tensor.dtype).offsets).max())


def assert_exact_but_for_offsets(folder: Path, parts: list[Part]) -> None:
    """Activations are exact, so all that may be off is a 225th of the largest offset."""
    weights = values(parts).astype(np.float64)
    x = exact_in_int8(6, weights.shape[1])
    got = multiply(folder, store_int4, parts, x)
    sums = np.abs(x.reshape(6, -1, BLOCK).sum(axis=-1)).sum(axis=-1, keepdims=True)
    rounding = 1e-6 * (np.abs(x) @ np.abs(weights).T)
    bound = sums * max(map(largest_offset, parts)) / 225 + rounding
    assert np.all(np.abs(got - x @ weights.T) <= bound)


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("dtype", ["Q4_0", "Q4_1"])
def test_exact_activations_show_every_weight(tmp_path: Path, dtype: str, columns: int) -> None:
    assert_exact_but_for_offsets(tmp_path, [Part(normal(dtype, 40, columns))])


def test_exact_activations_show_every_weight_of_k_blocks(tmp_path: Path) -> None:
    assert_exact_but_for_offsets(tmp_path, [Part(random_blocks("Q4_K", (40, 1024)))])


def test_parts_with_and_without_offsets_lie_below_one_another(tmp_path: Path) -> None:
    parts = [Part(normal(dtype, 24, 512, seed)) for seed, dtype in enumerate(("Q4_1", "Q4_0"))]
    assert_exact_but_for_offsets(tmp_path, [*parts, Part(random_blocks("Q4_K", (8, 512)))])


def test_rows_are_stored_in_the_wanted_order(tmp_path: Path) -> None:
    order = np.random.default_rng(3).permutation(40)
    parts = [Part(normal("Q4_1", 40, 512), order), Part(normal("Q4_1", 8, 512, seed=1))]
    assert_exact_but_for_offsets(tmp_path, parts)


@pytest.mark.parametrize("shape", [(7,), (2, 5), (1, 1)], ids=str)
@pytest.mark.parametrize("dtype", ["Q4_0", "Q4_1"])
def test_rows_of_x_may_be_in_one_or_two_dimensions(
    tmp_path: Path, dtype: str, shape: tuple[int, ...]
) -> None:
    x = near_int8((*shape, 512))
    part = Part(normal(dtype, 40, 512))
    got = multiply(tmp_path, store_int4, [part], x)
    expected = x @ part.values.T
    assert got.shape == expected.shape
    assert np.linalg.norm(got - expected) < 0.015 * np.linalg.norm(expected)


def test_blocks_above_or_below_zero_only(tmp_path: Path) -> None:
    """No zero point reaches their minimum: the offset takes what is left, however large."""
    rng = np.random.default_rng(5)
    weights = rng.uniform(1, 2, (32, 512)) * np.repeat(rng.choice([-1, 1], (32, 16)), BLOCK, axis=1)
    assert_exact_but_for_offsets(tmp_path, [Part(quantize(weights.astype(np.float32), "Q4_1"))])


def test_narrow_matrices_are_left_to_other_formats() -> None:
    """Below 11 blocks the sums would have to be appended more than four times."""
    narrow, wide = (
        row_sources([Part(normal("Q4_1", 4, columns))]) for columns in (10 * BLOCK, 11 * BLOCK)
    )
    assert not can_store_int4(narrow)
    assert can_store_int4(wide)


def test_one_part_of_another_type_leaves_all_to_other_formats() -> None:
    parts = [Part(normal(dtype, 4, 512)) for dtype in ("Q4_1", "Q8_0")]
    assert not can_store_int4(row_sources(parts))


def test_records_name_format_and_exactness(tmp_path: Path) -> None:
    parts = [Part(normal(dtype, 4, 512)) for dtype in ("Q4_0", "Q4_1")]
    exact, offset = records(tmp_path, store_int4, parts)
    assert (exact.source_type, exact.stored_as, exact.exact) == ("Q4_0", "int4-block32", True)
    assert (offset.source_type, offset.stored_as, offset.exact) == (
        "Q4_1",
        "int4-block32+offsets",
        False,
    )


def test_offsets_cost_at_most_an_eighth(tmp_path: Path) -> None:
    """Codes, scales and zero points of a Q4_1 matrix 2048 wide: 64 sums twice are 4 blocks more."""
    with WeightFile(tmp_path / "model.onnx.data") as weight_file:
        builder = GraphBuilder(weight_file)
        store_int4(builder, "w", row_sources([Part(normal("Q4_1", 64, 2048))]))
        blocks = 64 + 4
        assert weight_file.size == 64 * (blocks * 16 + blocks * 4 + blocks // 2)
