from __future__ import annotations

import os
import struct
import tracemalloc
from pathlib import Path

import gguf
import numpy as np
import pytest

from mrs.errors import (
    CheckpointError,
    CorruptCheckpointError,
    SourceNotFoundError,
    UsageError,
)
from mrs.export.checkpoints.checkpoint import Checkpoint, TensorInfo
from mrs.export.checkpoints.gguf_reader import open_gguf
from tests.export.checkpoints import raw_gguf
from tests.export.gguf_files import (
    MetadataItem,
    Scalar,
    TensorItem,
    Typed,
    quantize,
    random_blocks,
    write_gguf,
    write_llama,
)

QUANTIZABLE = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4"]


def assert_same_as_gguf_package(path: Path) -> None:
    """Every key, value, shape, type and stored byte is what `gguf` reads."""
    reader = gguf.GGUFReader(path)
    with open_gguf(path) as checkpoint:
        fields = {k: f.contents() for k, f in reader.fields.items() if not k.startswith("GGUF.")}
        assert dict(checkpoint.metadata) == fields
        assert list(checkpoint.tensors) == [tensor.name for tensor in reader.tensors]
        for tensor in reader.tensors:
            info = checkpoint.tensors[tensor.name]
            assert info.shape == tuple(tensor.shape[::-1])
            assert info.dtype == tensor.tensor_type.name
            rows = int(np.prod(info.shape[:-1]))
            stored = checkpoint.read_rows(tensor.name, 0, rows)
            assert stored.tobytes() == tensor.data.tobytes()


@pytest.mark.parametrize("dtype", QUANTIZABLE)
def test_agrees_with_the_gguf_package(tmp_path: Path, dtype: str) -> None:
    assert_same_as_gguf_package(write_llama(tmp_path / "m.gguf", dtype=dtype))


@pytest.mark.parametrize("dtype", ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"])
def test_agrees_with_the_gguf_package_on_k_and_i_quants(tmp_path: Path, dtype: str) -> None:
    tensors = {"a": random_blocks(dtype, (3, 512)), "b": random_blocks(dtype, (2, 2, 256), 1)}
    assert_same_as_gguf_package(write_gguf(tmp_path / "m.gguf", {}, tensors))


def test_agrees_with_the_gguf_package_on_every_metadata_type(tmp_path: Path) -> None:
    scalars: dict[str, Scalar] = {
        "UINT8": 255,
        "INT8": -128,
        "UINT16": 65535,
        "INT16": -32768,
        "UINT32": 2**32 - 1,
        "INT32": -(2**31),
        "UINT64": 2**64 - 1,
        "INT64": -(2**63),
        "FLOAT32": 0.1,
        "FLOAT64": 0.1,
        "BOOL": True,
        "STRING": "né\0\n",
    }
    metadata: dict[str, MetadataItem] = {
        f"scalar.{kind}": Typed(value, kind) for kind, value in scalars.items()
    }
    metadata |= {f"array.{kind}": Typed([value] * 3, kind) for kind, value in scalars.items()}
    assert_same_as_gguf_package(write_gguf(tmp_path / "m.gguf", metadata))


def test_agrees_with_the_gguf_package_on_a_custom_alignment(tmp_path: Path) -> None:
    tensors: dict[str, TensorItem] = {"a": np.ones((3, 5), np.float32), "b": np.ones(7, np.float16)}
    assert_same_as_gguf_package(write_gguf(tmp_path / "m.gguf", {}, tensors, alignment=256))


def test_version_2_is_read(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    tensors = [raw_gguf.tensor("t", [2])]
    path.write_bytes(raw_gguf.gguf_bytes(tensors=tensors, version=2, data=b"12345678"))
    with open_gguf(path) as checkpoint:
        assert checkpoint.version == 2
        assert checkpoint.read_rows("t", 0, 1).tobytes() == b"12345678"


def test_shape_is_outermost_first(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", {}, {"w": np.zeros((2, 3, 5), np.float32)})
    with open_gguf(path) as checkpoint:
        assert checkpoint.tensors["w"] == TensorInfo("w", (2, 3, 5), "F32")


def test_rows_are_all_dimensions_but_the_last(tmp_path: Path) -> None:
    values = np.arange(30, dtype=np.float32).reshape(2, 3, 5)
    with open_gguf(write_gguf(tmp_path / "m.gguf", {}, {"w": values})) as checkpoint:
        rows = checkpoint.read_rows("w", 2, 5)
        assert rows.shape == (3, 20)
        assert np.array_equal(rows.view(np.float32), values.reshape(6, 5)[2:5])


def test_a_vector_is_one_row(tmp_path: Path) -> None:
    values = np.arange(5, dtype=np.float32)
    with open_gguf(write_gguf(tmp_path / "m.gguf", {}, {"v": values})) as checkpoint:
        assert np.array_equal(checkpoint.read_rows("v", 0, 1).view(np.float32), values[None])


def test_no_rows_are_an_empty_view(tmp_path: Path) -> None:
    stored = quantize(np.ones((4, 64), np.float32), "Q4_1")
    with open_gguf(write_gguf(tmp_path / "m.gguf", {}, {"w": stored})) as checkpoint:
        assert checkpoint.read_rows("w", 4, 4).shape == (0, 40)


def test_rows_are_a_read_only_view(tmp_path: Path) -> None:
    with open_gguf(write_llama(tmp_path / "m.gguf")) as checkpoint:
        rows = checkpoint.read_rows("output_norm.weight", 0, 1)
        assert not rows.flags.owndata
        with pytest.raises(ValueError, match="read-only"):
            rows[0, 0] = 1


@pytest.mark.parametrize(("start", "stop"), [(-1, 1), (0, 5), (3, 2)])
def test_rows_outside_the_tensor_are_an_index_error(tmp_path: Path, start: int, stop: int) -> None:
    path = write_gguf(tmp_path / "m.gguf", {}, {"w": np.zeros((4, 2), np.float32)})
    with open_gguf(path) as checkpoint, pytest.raises(IndexError):
        checkpoint.read_rows("w", start, stop)


def test_an_unknown_tensor_is_a_key_error(tmp_path: Path) -> None:
    with open_gguf(write_llama(tmp_path / "m.gguf")) as checkpoint, pytest.raises(KeyError):
        checkpoint.read_rows("nope", 0, 1)


def test_a_view_outlives_the_checkpoint(tmp_path: Path) -> None:
    values = np.arange(6, dtype=np.float32)
    checkpoint = open_gguf(write_gguf(tmp_path / "m.gguf", {}, {"v": values}))
    rows = checkpoint.read_rows("v", 0, 1)
    checkpoint.close()
    checkpoint.close()
    assert np.array_equal(rows.view(np.float32)[0], values)


def test_reading_a_closed_checkpoint_is_a_value_error(tmp_path: Path) -> None:
    checkpoint = open_gguf(write_llama(tmp_path / "m.gguf"))
    checkpoint.close()
    with pytest.raises(ValueError, match="closed"):
        checkpoint.read_rows("output_norm.weight", 0, 1)


def test_a_file_that_shrank_is_refused_before_its_bytes_are_touched(tmp_path: Path) -> None:
    path = write_llama(tmp_path / "m.gguf")
    with open_gguf(path) as checkpoint:
        size = path.stat().st_size
        os.truncate(path, size - 4096)
        with pytest.raises(CorruptCheckpointError, match=f"shrunk from {size} to {size - 4096}"):
            checkpoint.read_rows("token_embd.weight", 0, 1)


def test_it_is_a_checkpoint(tmp_path: Path) -> None:
    checkpoint: Checkpoint = open_gguf(write_llama(tmp_path / "m.gguf"))
    assert checkpoint.architecture == "llama"
    checkpoint.close()


def test_an_unknown_architecture_opens(tmp_path: Path) -> None:
    with open_gguf(write_gguf(tmp_path / "m.gguf", architecture="foo")) as checkpoint:
        assert checkpoint.architecture == "foo"


def test_a_missing_architecture_is_named(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(raw_gguf.gguf_bytes(metadata=[]))
    with pytest.raises(CheckpointError, match=r"general\.architecture"):
        open_gguf(path)


def test_a_split_into_one_part_is_whole(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", {"split.count": Typed(1, "UINT16")})
    open_gguf(path).close()


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFoundError, match="nope"):
        open_gguf(tmp_path / "nope.gguf")


def test_a_folder_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="regular file"):
        open_gguf(tmp_path)


def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    with pytest.raises(UsageError, match="regular file"):
        open_gguf(tmp_path / "pipe.gguf")


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"", "empty"),
        (b"<!DOCTYPE html><html>", "web page"),
        (b"\n  <HTML>", "web page"),
        (b"PK\x03\x04....", "zip archive"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "Git LFS pointer"),
        (b"\x80\x04\x95....", "pickle"),
        (struct.pack("<Q", 100) + b'{"a":{"dtype"', "safetensors"),
        (b'{"model_type": "llama"}', "JSON"),
        (b"tjgg\x01\x00\x00\x00", "GGJT"),
        (b"\x00" * 4096, "zero bytes"),
        (b"GGU", "cut off after 3 bytes"),
        (b"\x01\x02\x03\x04 what", "01 02 03 04"),
    ],
)
def test_a_file_of_another_kind_is_recognised(tmp_path: Path, head: bytes, kind: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(head)
    with pytest.raises(CorruptCheckpointError, match=kind) as caught:
        open_gguf(path)
    assert caught.value.hint


def test_opening_costs_no_tensor_memory(tmp_path: Path) -> None:
    """A sparse file of 8 GiB opens: nothing of its size is read or allocated."""
    path = tmp_path / "m.gguf"
    dims = [1 << 16, 1 << 15]
    path.write_bytes(raw_gguf.gguf_bytes(tensors=[raw_gguf.tensor("t", dims)]))
    os.truncate(path, path.stat().st_size + 4 * dims[0] * dims[1])
    tracemalloc.start()
    try:
        with open_gguf(path) as checkpoint:
            assert checkpoint.read_rows("t", 0, dims[1]).shape == (dims[1], 4 * dims[0])
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
        path.unlink()
