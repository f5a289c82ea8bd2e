from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from mrs.errors import CorruptCheckpointError, UnsupportedTensorTypeError
from mrs.export.graph import row_source
from mrs.export.graph.builder import GraphBuilder
from mrs.export.graph.matrix_choices import auto, fp32, keep, q8
from mrs.export.graph.row_source import RowSource, matrix, vector
from mrs.export.graph.weight_file import WeightFile
from tests.export.gguf_files import StoredTensor, TensorItem, dequantize, random_blocks
from tests.export.graph.one_matrix import Part, Store, row_sources, stored_by
from tests.export.memory_checkpoint import MemoryCheckpoint

ORDER = np.random.default_rng(0).permutation(50)


# --- chunks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [None, ORDER], ids=["stored", "permuted"])
@pytest.mark.parametrize("chunk_weights", [1, 64 * 7, 64 * 50, 1 << 20])
def test_chunks_add_up_to_the_matrix(
    monkeypatch: pytest.MonkeyPatch, chunk_weights: int, order: NDArray[np.int64] | None
) -> None:
    monkeypatch.setattr(row_source, "_CHUNK_WEIGHTS", chunk_weights)
    part = Part(random_blocks("Q8_0", (50, 64)), order)
    chunks = list(row_sources([part])[0].float_chunks())
    np.testing.assert_array_equal(np.concatenate(chunks), part.values)
    assert max(map(len, chunks)) == min(50, max(1, chunk_weights // 64))


def test_a_chunk_has_a_million_weights_at_most() -> None:
    rows = np.zeros((1025, 2048), dtype=np.float32)
    assert [len(chunk) for chunk in row_sources([Part(rows)])[0].chunks()] == [512, 512, 1]


# --- what a tensor must be ------------------------------------------------------------------------

CHECKPOINT = MemoryCheckpoint(
    {
        "w": np.arange(6, dtype=np.float32).reshape(2, 3),
        "v": np.arange(3, dtype=np.float16),
        "i": np.arange(3, dtype=np.int32),
    }
)


def test_a_matrix() -> None:
    assert matrix(CHECKPOINT, "w", (2, 3)) == RowSource(CHECKPOINT, "w", "F32", 2, 3)


def test_a_vector_is_float32() -> None:
    values = vector(CHECKPOINT, "v", 3)
    assert values.dtype == np.float32
    assert values.tolist() == [0, 1, 2]


def test_a_missing_tensor_is_named() -> None:
    with pytest.raises(CorruptCheckpointError, match="lacks the tensor 'x'"):
        matrix(CHECKPOINT, "x", (2, 3))


@pytest.mark.parametrize("shape", [(3, 2), (2, 4), (1, 6)])
def test_a_matrix_of_another_shape_is_refused_with_both_shapes(shape: tuple[int, int]) -> None:
    with pytest.raises(CorruptCheckpointError) as caught:
        matrix(CHECKPOINT, "w", shape)
    assert caught.value.message == (
        f"The tensor 'w' has shape [2, 3]; its metadata says {list(shape)}."
    )


def test_a_matrix_is_no_vector() -> None:
    with pytest.raises(CorruptCheckpointError, match=r"has shape \[2, 3\]"):
        vector(CHECKPOINT, "w", 6)


def test_an_unreadable_type_is_refused() -> None:
    with pytest.raises(UnsupportedTensorTypeError, match="'i' is stored as I32"):
        vector(CHECKPOINT, "i", 3)


# --- NaN and infinity -----------------------------------------------------------------------------


def spoilt(dtype: str, half_at: int, value: float) -> StoredTensor:
    """Blocks, one of which has this float16 at this byte."""
    tensor = random_blocks(dtype, (3, 512))
    tensor.data[1, half_at : half_at + 2] = np.array([value], dtype=np.float16).view(np.uint8)
    return tensor


def spoilt_float(dtype: type[np.generic], value: float) -> NDArray[np.generic]:
    values = np.ones((3, 512), dtype=dtype)
    values[2, 100] = value
    return values


ALL = tuple(map(stored_by, (fp32, q8, auto, keep)))
NOT_FINITE: list[tuple[Sequence[Store], TensorItem]] = [
    (ALL, spoilt_float(np.float32, np.nan)),
    (ALL, spoilt_float(np.float32, -np.inf)),
    (ALL, spoilt_float(np.float16, np.inf)),
    (ALL, spoilt("Q8_0", 0, np.nan)),
    (ALL, spoilt("Q6_K", 208, np.inf)),
    (ALL, spoilt("Q4_0", 0, -np.inf)),
    (ALL, spoilt("Q4_1", 2, np.inf)),
    (ALL, spoilt("Q4_1", 0, np.nan)),
    (ALL, spoilt("Q4_K", 2, np.nan)),
    (ALL, spoilt("Q5_K", 2, np.nan)),
    (ALL, spoilt("Q2_K", 80, np.inf)),
    (ALL, spoilt("IQ4_XS", 0, np.inf)),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("store", "tensor"),
    [(store, tensor) for stores, tensor in NOT_FINITE for store in stores],
)
def test_no_format_takes_nan_or_infinity(tmp_path: Path, store: Store, tensor: TensorItem) -> None:
    with (
        WeightFile(tmp_path / "model.onnx.data") as weight_file,
        pytest.raises(CorruptCheckpointError, match="'part0' holds NaN or infinity"),
    ):
        store(GraphBuilder(weight_file), "w", row_sources([Part(tensor)]))


def test_a_vector_with_nan_is_refused() -> None:
    checkpoint = MemoryCheckpoint({"v": np.array([1, np.nan], dtype=np.float32)})
    with pytest.raises(CorruptCheckpointError, match="'v' holds NaN or infinity"):
        vector(checkpoint, "v", 2)


def test_the_largest_finite_scales_pass() -> None:
    tensor = spoilt("Q8_0", 0, 65504.0)
    (chunk,) = row_sources([Part(tensor)])[0].float_chunks()
    np.testing.assert_array_equal(chunk, dequantize(tensor))
