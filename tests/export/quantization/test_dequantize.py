from __future__ import annotations

import gguf
import numpy as np
import pytest

from mrs.errors import UnsupportedTensorTypeError
from mrs.export.quantization.dequantize import READABLE_DTYPES, check_readable, dequantize
from tests.export.gguf_files import random_blocks

FLOATS = {"F32", "F16", "BF16"}
# Zero, one, a third, the smallest and the largest of each type, infinity, and their negatives.
BFLOAT16_BITS = [0x0000, 0x3F80, 0x3EAB, 0x0001, 0x7F7F, 0x7F80, 0x8000, 0xBF80]
BFLOAT16_VALUES = [0.0, 1.0, 0.333984375, 2.0**-133, (2 - 2**-7) * 2.0**127, np.inf, -0.0, -1.0]


@pytest.mark.parametrize("dtype", sorted(READABLE_DTYPES - FLOATS))
def test_blocks_have_the_values_that_gguf_reads(dtype: str) -> None:
    tensor = random_blocks(dtype, (6, 512))
    expected = gguf.quants.dequantize(tensor.data, gguf.GGMLQuantizationType[dtype])
    got = dequantize(tensor.data, dtype)
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, expected)
    assert got.std() > 0


def test_float32_is_taken_bit_for_bit() -> None:
    values = np.array([[0.1, -0.0], [np.inf, 1e-45]], dtype=np.float32)
    got = dequantize(values.view(np.uint8), "F32")
    np.testing.assert_array_equal(got.view(np.uint32), values.view(np.uint32))


def test_float16_is_widened() -> None:
    values = np.array([[1 / 3, 65504, 2**-24, -np.inf]], dtype=np.float16)
    got = dequantize(values.view(np.uint8), "F16")
    assert got.tolist() == [[0.333251953125, 65504.0, 2.0**-24, -np.inf]]


def test_bfloat16_is_the_upper_half_of_float32() -> None:
    rows = np.array([BFLOAT16_BITS], dtype="<u2").view(np.uint8)
    got = dequantize(rows, "BF16")
    np.testing.assert_array_equal(got, np.array([BFLOAT16_VALUES], dtype=np.float32))


def test_floats_may_lie_at_any_address() -> None:
    """A file may align its tensors to single bytes."""
    values = np.array([[1.5, -2.25]], dtype=np.float32)
    shifted = np.frombuffer(b"x" + values.tobytes(), np.uint8)[1:].reshape(1, -1)
    np.testing.assert_array_equal(dequantize(shifted, "F32"), values)


@pytest.mark.parametrize("dtype", sorted(READABLE_DTYPES))
def test_readable_types_pass(dtype: str) -> None:
    check_readable("blk.0.ffn_up.weight", dtype)


@pytest.mark.parametrize("dtype", ["Q8_K", "F64", "I8"])
def test_an_unreadable_type_is_named_beside_the_readable_ones(dtype: str) -> None:
    with pytest.raises(UnsupportedTensorTypeError) as caught:
        check_readable("blk.0.ffn_up.weight", dtype)
    assert caught.value.message == (
        f"The tensor 'blk.0.ffn_up.weight' is stored as {dtype}; readable types are BF16, F16, "
        "F32, IQ1_M, IQ1_S, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS, IQ4_NL, IQ4_XS, MXFP4, NVFP4, "
        "Q2_K, Q3_K, Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K, Q8_0, TQ1_0, TQ2_0."
    )
