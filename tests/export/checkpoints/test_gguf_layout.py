from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from mrs.errors import CorruptCheckpointError, MrsError, UnsupportedTensorTypeError
from mrs.export.checkpoints.gguf_reader import open_gguf
from tests.export.checkpoints.raw_gguf import (
    ARCHITECTURE,
    F32,
    Q8_0,
    STRING,
    entry,
    gguf_bytes,
    string,
    tensor,
    uint32,
)
from tests.export.gguf_files import write_gguf

HUGE = (1 << 63) - 32


def refusal(tmp_path: Path, data: bytes, kind: type[MrsError] = CorruptCheckpointError) -> str:
    path = tmp_path / "m.gguf"
    path.write_bytes(data)
    with pytest.raises(kind) as caught:
        open_gguf(path)
    return str(caught.value)


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ([tensor("t", [4, 0])], "impossible shape [0, 4]"),
        ([tensor("t", [1 << 32, 1 << 32])], "impossible shape"),
        ([tensor("t", [(1 << 64) - 1])], "impossible shape"),
        ([tensor("t", [1 << 16] * 4)], "impossible shape"),
        ([tensor("t", [33], Q8_0)], "blocks of 32, but its rows have 33 elements"),
        ([tensor("t", [16, 2], Q8_0)], "blocks of 32, but its rows have 16 elements"),
        ([tensor("t", [4], offset=16)], "offset 16, not a multiple of 32"),
        ([tensor("t", [1 << 60])], "are missing"),
        ([tensor("t", [4], offset=HUGE)], "are missing"),
        ([tensor("a", [16]), tensor("b", [4], offset=32)], "'a' and 'b' overlap"),
        ([tensor("a", [4]), tensor("b", [4])], "'a' and 'b' overlap"),
        ([tensor("b", [4], offset=32), tensor("a", [9])], "'a' and 'b' overlap"),
    ],
)
def test_a_lie_is_told(tmp_path: Path, tensors: list[bytes], words: str) -> None:
    assert words in refusal(tmp_path, gguf_bytes(tensors=tensors, data=bytes(256)))


def test_missing_tensor_data_is_counted_to_the_end_of_the_last_tensor(tmp_path: Path) -> None:
    tensors = {"first": np.zeros(1000, np.float32), "second": np.zeros(1000, np.float32)}
    path = write_gguf(tmp_path / "whole.gguf", {}, tensors)
    whole = path.read_bytes()
    message = refusal(tmp_path, whole[:-6000])
    assert "'first'" in message
    assert "(6000 bytes are missing)" in message


def test_padding_after_the_last_tensor_may_be_missing(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_bytes(tensors=[tensor("t", [1])], data=b"abcd"))
    with open_gguf(path) as checkpoint:
        assert checkpoint.read_rows("t", 0, 1).tobytes() == b"abcd"


def test_tensors_need_not_lie_in_the_order_of_the_header(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    tensors = [tensor("second", [1], offset=32), tensor("first", [1])]
    path.write_bytes(gguf_bytes(tensors=tensors, data=b"abcd" + bytes(28) + b"efgh"))
    with open_gguf(path) as checkpoint:
        assert list(checkpoint.tensors) == ["second", "first"]
        assert checkpoint.read_rows("second", 0, 1).tobytes() == b"efgh"


@pytest.mark.parametrize("alignment", [0, 3, 48, 1 << 21])
def test_alignment_is_a_power_of_two_within_reason(tmp_path: Path, alignment: int) -> None:
    data = gguf_bytes([ARCHITECTURE, uint32("general.alignment", alignment)])
    assert f"general.alignment is {alignment}" in refusal(tmp_path, data)


@pytest.mark.parametrize(
    "value",
    [entry("general.alignment", STRING, string("32")), entry("general.alignment", 7, b"\x01")],
)
def test_alignment_is_an_integer(tmp_path: Path, value: bytes) -> None:
    assert "general.alignment" in refusal(tmp_path, gguf_bytes([ARCHITECTURE, value]))


def test_the_alignment_moves_the_data(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    metadata = [ARCHITECTURE, uint32("general.alignment", 1024)]
    data = struct.pack("<f", 1.5)
    path.write_bytes(gguf_bytes(metadata, [tensor("t", [1], F32, 0)], alignment=1024, data=data))
    with open_gguf(path) as checkpoint:
        assert checkpoint.read_rows("t", 0, 1).tobytes() == data


@pytest.mark.parametrize(("number", "words"), [(77, "does not know"), (4, "Q4_2")])
def test_an_unknown_type_is_unsupported_and_no_truncation(
    tmp_path: Path, number: int, words: str
) -> None:
    data = gguf_bytes(tensors=[tensor("t", [32], number)])
    message = refusal(tmp_path, data, UnsupportedTensorTypeError)
    assert f"type {number}" in message
    assert words in message
