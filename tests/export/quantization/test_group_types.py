from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrs.export.quantization.block_types import block_type
from mrs.export.quantization.blocks import QuantizedBlocks
from mrs.export.quantization.dequantize import check_readable, dequantize
from mrs.export.quantization.group_types import (
    GroupType,
    pack_groups,
    parse_group_type,
    unpack_groups,
)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([4, 8]), st.sampled_from([16, 32, 40, 128]), st.integers(0, 2**32))
def test_packed_groups_unpack_to_themselves(bits: int, size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    blocks = QuantizedBlocks(
        bits,
        rng.integers(0, 2**bits, (3, 2, size), dtype=np.uint8),
        rng.normal(size=(3, 2)).astype(np.float32),
        rng.integers(0, 2**bits, (3, 2), dtype=np.uint8),
    )
    group = GroupType(bits, size)
    stored = pack_groups(blocks)
    assert stored.shape == (3, 2 * group.block_bytes)
    found = unpack_groups(stored, group)
    np.testing.assert_array_equal(found.codes, blocks.codes)
    np.testing.assert_array_equal(found.scales, blocks.scales)
    np.testing.assert_array_equal(found.zero_points, blocks.zero_points)
    np.testing.assert_array_equal(dequantize(stored, group.name), blocks.dequantize())
    check_readable("w", group.name)


def test_names() -> None:
    assert parse_group_type(GroupType(4, 128).name) == GroupType(4, 128)
    assert GroupType(8, 32).name == "GROUP8_32"


@pytest.mark.parametrize("name", ["GROUP3_128", "GROUP4_0", "GROUP4_", "GROUP4_128x", "Q4_0"])
def test_other_names_are_no_groups(name: str) -> None:
    assert parse_group_type(name) is None


@pytest.mark.parametrize(("size", "block"), [(16, 16), (128, 128), (4096, 128), (11008, 128)])
def test_groups_are_cut_into_blocks(size: int, block: int) -> None:
    kind = block_type(f"GROUP4_{size}")
    assert kind is not None
    assert kind.block_size == block


@pytest.mark.parametrize("size", [8, 24, 100])
def test_groups_that_no_block_divides_are_no_block_type(size: int) -> None:
    assert block_type(f"GROUP4_{size}") is None
