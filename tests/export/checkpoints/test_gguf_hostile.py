"""Laws of the GGUF reader: whatever the bytes are, it opens or raises a `CheckpointError`."""

from __future__ import annotations

import contextlib
import math
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrs.errors import CheckpointError, CorruptCheckpointError
from mrs.export.checkpoints.gguf_reader import open_gguf
from tests.export.gguf_files import MetadataItem, TensorItem, quantize, write_gguf


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A small file with every kind of metadata and several tensors."""
    metadata: dict[str, MetadataItem] = {
        "a.flag": True,
        "a.count": 3,
        "a.rate": 0.5,
        "a.text": "text",
        "a.numbers": [1, 2, 3],
        "a.flags": [True, False],
        "tokenizer.ggml.tokens": ["a", "b", "é"],
        "tokenizer.ggml.merges": ["a b"],
    }
    tensors: dict[str, TensorItem] = {
        "m": quantize(np.ones((2, 64), np.float32), "Q4_1"),
        "v": np.ones(4, np.float32),
        "c": np.ones((2, 2, 2), np.float16),
    }
    path = write_gguf(tmp_path_factory.mktemp("valid") / "m.gguf", metadata, tensors)
    return path.read_bytes()


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch") / "m.gguf"


def header_size(valid: bytes) -> int:
    """Up to the offset of the last tensor, `c`: 8 bytes after its type."""
    name_at = valid.rindex(struct.pack("<Q", 1) + b"c")
    return name_at + 9 + 4 + 3 * 8 + 4 + 8


def open_and_read_all(path: Path) -> None:
    with open_gguf(path) as checkpoint:
        assert all(checkpoint.metadata[key] is not None for key in checkpoint.metadata)
        for name, info in checkpoint.tensors.items():
            rows = math.prod(info.shape[:-1])
            assert checkpoint.read_rows(name, 0, rows).tobytes()


def test_every_truncation_is_reported(valid: bytes, scratch: Path) -> None:
    last_byte = len(valid) - 16  # 16 bytes of tensor `c`, then 16 of padding
    for size in range(last_byte):
        scratch.write_bytes(valid[:size])
        with pytest.raises(CorruptCheckpointError, match=r"missing|empty|cut off"):
            open_gguf(scratch)
    scratch.write_bytes(valid[:last_byte])
    open_and_read_all(scratch)


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_changed_bytes_open_or_raise_a_checkpoint_error(
    valid: bytes, scratch: Path, data: st.DataObject
) -> None:
    size = header_size(valid)
    places = st.dictionaries(st.integers(0, size - 1), st.integers(0, 255), min_size=1, max_size=4)
    changed = bytearray(valid)
    for place, value in data.draw(places).items():
        changed[place] = value
    scratch.write_bytes(changed)
    try:
        open_and_read_all(scratch)
    except CheckpointError as error:
        assert error.message


HOSTILE_U64 = [0, 1 << 20, 1 << 31, 1 << 60, (1 << 64) - 1]


def test_a_hostile_number_anywhere_allocates_nothing_of_its_size(
    valid: bytes, scratch: Path
) -> None:
    scratch.write_bytes(valid)
    open_and_read_all(scratch)
    tracemalloc.start()
    try:
        for place in range(4, header_size(valid) - 7):
            for number in HOSTILE_U64:
                changed = valid[:place] + struct.pack("<Q", number) + valid[place + 8 :]
                scratch.write_bytes(changed)
                tracemalloc.reset_peak()
                before = tracemalloc.get_traced_memory()[0]
                with contextlib.suppress(CheckpointError):
                    open_and_read_all(scratch)
                assert tracemalloc.get_traced_memory()[1] - before < 300_000
    finally:
        tracemalloc.stop()


@settings(max_examples=200, deadline=None)
@given(tail=st.binary(max_size=300))
def test_noise_after_the_magic_opens_or_is_refused(scratch: Path, tail: bytes) -> None:
    scratch.write_bytes(b"GGUF\x03\x00\x00\x00" + tail)
    try:
        open_and_read_all(scratch)
    except CheckpointError as error:
        assert error.message
