from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from mrs.export.graph.builder import GraphBuilder
from mrs.export.graph.matrix_formats import MatrixFormats, matrix_format
from mrs.export.graph.row_source import RowSource
from mrs.export.graph.weight_file import WeightFile
from mrs.export.quantization.requested import parse_quantization
from tests.export.gguf_files import TensorItem, quantize, random_blocks
from tests.export.graph.activations import exact_in_int8
from tests.export.graph.one_matrix import Part, Stored, multiply, row_sources, values


def stored_as(folder: Path, quant: str, dtype: str, columns: int, *, gathered: bool) -> str:
    weights = np.random.default_rng(0).normal(size=(4, columns)).astype(np.float32)
    tensor: TensorItem = weights if dtype == "F32" else quantize(weights, dtype)
    with WeightFile(folder / "model.onnx.data") as weight_file:
        _, records = matrix_format(quant).store(
            GraphBuilder(weight_file), "w", row_sources([Part(tensor)]), gathered=gathered
        )
    return records["part0"].stored_as


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("F32", "int8-block32"),
        ("Q8_0", "int8-block32"),
        ("Q4_0", "int4-block32"),
        ("Q4_1", "int8-block32"),  # Too small for offset columns.
    ],
)
def test_auto_keeps_codes_that_need_no_offsets(tmp_path: Path, dtype: str, expected: str) -> None:
    assert stored_as(tmp_path, "auto", dtype, 512, gathered=False) == expected


@pytest.mark.parametrize("gathered", [True, False])
@pytest.mark.parametrize("quant", ["auto", "q8"])
def test_rows_without_whole_blocks_stay_float32(tmp_path: Path, quant: str, gathered: bool) -> None:
    assert stored_as(tmp_path, quant, "F32", 48, gathered=gathered) == "float32"


@pytest.mark.parametrize("gathered", [True, False])
@pytest.mark.parametrize("dtype", ["F32", "Q4_1", "Q8_0"])
def test_fp32_is_float32_throughout(tmp_path: Path, dtype: str, gathered: bool) -> None:
    assert stored_as(tmp_path, "fp32", dtype, 512, gathered=gathered) == "float32"


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("F32", "float32"),
        ("Q4_0", "int4-block32"),
        ("Q4_1", "int4-block32+offsets"),
        ("Q5_1", "int8-block32+offsets"),
        ("Q8_0", "int8-block32"),
    ],
)
@pytest.mark.parametrize("gathered", [True, False])
def test_keep_keeps_codes_and_offsets(
    tmp_path: Path, dtype: str, expected: str, gathered: bool
) -> None:
    assert stored_as(tmp_path, "keep", dtype, 512, gathered=gathered) == expected


# --- one matrix for as many parts as share a layout -----------------------------------------------

LARGE = 1024


def layouts(
    quant: str, *types: str, rows: int = 400, columns: int = LARGE
) -> list[tuple[str, int]]:
    """Label and number of parts of each run."""
    parts = [Part(random_blocks(dtype, (rows, columns))) for dtype in types]
    runs = matrix_format(quant).runs(row_sources(parts))
    return [(layout.label, len(run)) for layout, run in runs]


def test_neighbours_of_one_layout_are_one_matrix() -> None:
    assert layouts("auto", "Q4_K", "Q4_K", "Q6_K") == [
        ("int4-block32+offset-columns", 2),
        ("int8-block16", 1),
    ]


def test_parts_without_offsets_join_those_with() -> None:
    expected = [("int4-block32+offset-columns", 3)]
    assert layouts("auto", "Q4_0", "Q4_K", "Q4_1") == expected


def test_a_run_too_small_for_columns_joins_its_neighbours_of_8_bits() -> None:
    """390 rows of 1024 are 399 360 weights."""
    parts = [Part(random_blocks("Q8_0", (400, LARGE))), Part(random_blocks("Q4_K", (390, LARGE)))]
    runs = matrix_format("auto").runs(row_sources(parts))
    assert [(layout.label, len(run)) for layout, run in runs] == [("int8-block32", 2)]


def test_the_size_of_a_run_counts_and_not_that_of_its_parts() -> None:
    assert layouts("auto", "Q4_K", "Q4_K", rows=200) == [("int4-block32+offset-columns", 2)]


def test_narrow_matrices_have_no_columns() -> None:
    """Below 11 blocks the sums would have to be appended more than four times."""
    assert layouts("auto", "Q4_1", rows=2000, columns=10 * 32) == [("int8-block32", 1)]
    assert layouts("auto", "Q4_1", rows=2000, columns=11 * 32) == [
        ("int4-block32+offset-columns", 1)
    ]


def test_products_of_several_runs_lie_side_by_side(tmp_path: Path) -> None:
    parts = [Part(random_blocks(dtype, (24, 512))) for dtype in ("Q4_K", "Q6_K", "Q5_0")]
    x = exact_in_int8(5, 512, block=16)
    got = multiply(tmp_path, keep_store, parts, x)
    expected = x @ values(parts).astype(np.float64).T
    allowed = 2e-6 * (np.abs(x).astype(np.float64) @ np.abs(values(parts)).T)
    assert np.all(np.abs(got - expected) <= allowed)


def keep_store(builder: GraphBuilder, name: str, sources: Sequence[RowSource]) -> Stored:
    return matrix_format("keep").store(builder, name, sources, gathered=False)


@pytest.mark.parametrize("dtype", ["F32", "F16", "Q5_1", "Q6_K", "Q8_0"])
def test_q4_searches_for_blocks_with_offset_columns(dtype: str) -> None:
    shape = (400, LARGE)
    floats = {"F16": np.float16, "F32": np.float32}
    tensor: TensorItem = (
        np.zeros(shape, floats[dtype]) if dtype in floats else random_blocks(dtype, shape)
    )
    assert labels("q4", Part(tensor)) == ["int4-block32+offset-columns"]


def test_q4_keeps_codes_of_four_bits() -> None:
    parts = [Part(random_blocks(dtype, (400, LARGE))) for dtype in ("Q4_K", "Q4_0", "Q3_K")]
    assert labels("q4", *parts) == ["int4-block32+offset-columns", "int4-block16"]


def test_the_vocabulary_stays_at_8_bits_in_q4(tmp_path: Path) -> None:
    assert stored_as(tmp_path, "q4", "F32", 512, gathered=True) == "int8-block32"
    head = Part(np.zeros((400, LARGE), dtype=np.float32))
    (source,) = row_sources([head])
    source = dataclasses.replace(source, name="output.weight")
    assert matrix_format("q4").choose(source, 10**9).layout.label == "int8-block32"


def test_the_vocabulary_has_4_bits_if_a_pattern_says_so() -> None:
    formats = MatrixFormats(parse_quantization("q8", ["token_embd.*=q4", "output.*=q4"]))
    (source,) = row_sources([Part(np.zeros((400, LARGE), dtype=np.float32))])
    embedding = dataclasses.replace(source, name="token_embd.weight")
    head = dataclasses.replace(source, name="output.weight")
    assert formats.choose(embedding, 10**9, gathered=True).layout.label == "int4-block32"
    assert formats.choose(head, 10**9).layout.label == "int4-block32+offset-columns"


def test_a_small_product_has_8_bits_in_q4() -> None:
    """Its offset columns would cost more than they save."""
    assert labels("q4", Part(np.zeros((390, LARGE), dtype=np.float32))) == ["int8-block32"]


def test_a_narrow_matrix_does_without_offsets_in_q4() -> None:
    assert labels("q4", Part(np.zeros((2000, 320), dtype=np.float32))) == ["int4-block32"]


def test_w8a8_has_a_scale_for_each_channel() -> None:
    assert labels("w8a8", Part(np.zeros((4, 48), dtype=np.float32))) == ["int8-channel"]


def test_w8a8_has_blocks_for_the_vocabulary(tmp_path: Path) -> None:
    assert stored_as(tmp_path, "w8a8", "F32", 512, gathered=True) == "int8-block32"


def test_w8a8_has_blocks_for_an_output_head_unless_a_pattern_names_it() -> None:
    (source,) = row_sources([Part(np.zeros((400, LARGE), dtype=np.float32))])
    head = dataclasses.replace(source, name="output.weight")
    default, asked = (
        MatrixFormats(parse_quantization("w8a8", patterns)) for patterns in ([], ["output*=w8a8"])
    )
    assert default.choose(head, 10**9).layout.label == "int8-block32"
    assert asked.choose(head, 10**9).layout.label == "int8-channel"


@pytest.mark.parametrize(
    ("quant", "dtype", "columns", "label"),
    [
        ("auto", "F32", 512, "int8-channel"),
        ("auto", "Q5_K", 512, "int8-channel"),
        ("auto", "Q8_0", 512, "int8-block32"),
        ("auto", "F32", 96, "int8-block32"),
        ("auto", "F32", 312, "float32"),
        ("q8", "F32", 512, "int8-block32"),
    ],
)
def test_models_that_read_whole_texts_have_channels_where_weights_are_rounded(
    quant: str, dtype: str, columns: int, label: str
) -> None:
    shape = (4, columns)
    tensor = np.zeros(shape, np.float32) if dtype == "F32" else random_blocks(dtype, shape)
    (source,) = row_sources([Part(tensor)])
    formats = MatrixFormats(parse_quantization(quant), whole_texts=True)
    assert formats.choose(source, 10**9).layout.label == label
    assert formats.choose(source, 10**9, gathered=True).layout.label != "int8-channel"


def labels(quant: str, *parts: Part) -> list[str]:
    return [layout.label for layout, _ in matrix_format(quant).runs(row_sources(parts))]


def test_a_pattern_decides_for_its_tensors(tmp_path: Path) -> None:
    requested = parse_quantization("fp32", ["part[12]=q8", "part2=keep"])
    parts = [Part(random_blocks("Q4_1", (4, 512))) for _ in range(3)]
    runs = MatrixFormats(requested).runs(row_sources(parts))
    assert [layout.label for layout, _ in runs] == [
        "float32",
        "int8-block32",
        "int4-block32+offsets",
    ]
