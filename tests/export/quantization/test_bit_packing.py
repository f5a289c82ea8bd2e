from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrs.export.quantization.bit_packing import pack_codes, packed_size, unpack_codes


@settings(max_examples=80, deadline=None)
@given(st.sampled_from([2, 4, 8]), st.integers(1, 3), st.integers(1, 9), st.integers(0, 2**32))
def test_packed_codes_unpack_to_themselves(bits: int, rows: int, codes: int, seed: int) -> None:
    given_codes = np.random.default_rng(seed).integers(0, 2**bits, (rows, codes), dtype=np.uint8)
    packed = pack_codes(given_codes, bits)
    assert packed.shape == (rows, packed_size(codes, bits))
    np.testing.assert_array_equal(unpack_codes(packed, bits, codes), given_codes)


@pytest.mark.parametrize(
    ("bits", "codes", "packed"),
    [(4, [1, 2, 15], [0x21, 0x0F]), (2, [1, 2, 3, 0, 2], [0x39, 0x02]), (8, [7, 255], [7, 255])],
)
def test_the_first_code_is_lowest(bits: int, codes: list[int], packed: list[int]) -> None:
    """As MatMulNBits reads them; what is left of the last byte is 0."""
    assert pack_codes(np.array([codes], dtype=np.uint8), bits).tolist() == [packed]
