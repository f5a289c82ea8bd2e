"""Laws of the safetensors reader: whatever the bytes are, it opens or is a `CheckpointError`."""

from __future__ import annotations

import json
import math
import struct
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError
from safetensors.numpy import load

from mrs.errors import CheckpointError
from mrs.export.checkpoints import gguf_header
from mrs.export.checkpoints.safetensors_reader import open_safetensors
from tests.export.safetensors_files import entry, raw_safetensors

DATA = bytes(range(64))
HEADER = {
    "__metadata__": {"format": "pt"},
    "model.w": entry("F32", [2, 3], 0, 24),
    "model.b": entry("F16", [4], 24, 32),
    "model.s": entry("I64", [], 32, 40),
    "é": entry("U8", [2, 3, 4], 40, 64),
}
VALID = raw_safetensors(HEADER, DATA)
HEADER_SIZE = len(VALID) - len(DATA)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch")


def read_all(folder: Path, data: bytes) -> dict[str, bytes] | None:
    """The bytes of every tensor, or None if the file is refused."""
    (folder / "model.safetensors").write_bytes(data)
    try:
        with open_safetensors(folder) as opened:
            return {
                name: opened.read_rows(name, 0, math.prod(info.shape[:-1])).tobytes()
                for name, info in opened.tensors.items()
            }
    except CheckpointError as error:
        assert error.message
        assert len(error.message) < 1000
        return None


def read_by_reference(data: bytes) -> dict[str, bytes] | None:
    """What the `safetensors` package reads."""
    try:
        return {name: values.tobytes() for name, values in load(data).items()}
    except (SafetensorError, KeyError, ValueError, TypeError, UnicodeDecodeError):
        return None


def test_every_truncation_is_refused(scratch: Path) -> None:
    for size in range(1, len(VALID)):
        assert read_all(scratch, VALID[:size]) is None
    assert read_all(scratch, VALID) is not None


places = st.dictionaries(st.integers(0, HEADER_SIZE - 1), st.integers(0, 255), max_size=4)


@settings(max_examples=300, deadline=None)
@given(changes=places, cut=st.integers(0, 8))
def test_changed_bytes_give_what_the_reference_reads_or_nothing(
    scratch: Path, changes: dict[int, int], cut: int
) -> None:
    data = bytearray(VALID[: len(VALID) - cut])
    for place, value in changes.items():
        data[place] = value
    read = read_all(scratch, bytes(data))
    if read is not None:
        assert read == read_by_reference(bytes(data))


numbers = st.one_of(
    st.integers(0, 70),
    st.sampled_from([-1, 1 << 31, 1 << 62, (1 << 64) - 1, 1 << 64, 10**30, 1.0, 1e400, None, "1"]),
)
descriptions = st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.sampled_from(["F32", "BF16", "U8", "F4", "C64", "f32", "", None, 3]),
        "shape": st.one_of(st.lists(numbers, max_size=4), numbers),
        "data_offsets": st.one_of(st.lists(numbers, max_size=3), numbers),
        "more": st.one_of(numbers, st.lists(st.none(), max_size=2)),
    },
)


@settings(max_examples=300, deadline=None)
@given(
    header=st.dictionaries(st.text(max_size=3), st.one_of(descriptions, numbers), max_size=4),
    data=st.binary(max_size=64),
)
def test_any_header_gives_what_the_reference_reads_or_nothing(
    scratch: Path, header: dict[str, object], data: bytes
) -> None:
    file = raw_safetensors(json.dumps(header), data)
    read = read_all(scratch, file)
    if read is not None:
        assert read == read_by_reference(file)


@settings(max_examples=200, deadline=None)
@given(header=st.binary(max_size=200), data=st.binary(max_size=16))
def test_noise_in_the_header_is_refused_or_read(scratch: Path, header: bytes, data: bytes) -> None:
    read_all(scratch, raw_safetensors(b"{" + header, data))


def test_a_hostile_number_anywhere_allocates_nothing_of_its_size(scratch: Path) -> None:
    read_all(scratch, VALID)
    digits = [place for place in range(8, HEADER_SIZE) if VALID[place : place + 1].isdigit()]
    tracemalloc.start()
    try:
        for number in [b"1048576", b"2147483648", b"1" + b"0" * 18, b"1" + b"0" * 300]:
            for place in digits:
                header = VALID[8:place] + number + VALID[place + 1 : HEADER_SIZE]
                data = struct.pack("<Q", len(header)) + header + DATA
                tracemalloc.reset_peak()
                before = tracemalloc.get_traced_memory()[0]
                read_all(scratch, data)
                assert tracemalloc.get_traced_memory()[1] - before < 100_000
    finally:
        tracemalloc.stop()


def test_many_empty_tensors_are_refused_before_they_take_memory(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes 50 bytes of the header, and takes ten times that as an object."""
    monkeypatch.setattr(gguf_header, "_FEW_TENSORS", 100)
    count = 3000
    entries = (f'"{i}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}' for i in range(count))
    data = raw_safetensors("{" + ",".join(entries) + "}")
    tracemalloc.start()
    try:
        assert read_all(scratch, data) is None
        assert tracemalloc.get_traced_memory()[1] < 3 * len(data)
    finally:
        tracemalloc.stop()


@settings(max_examples=200, deadline=None)
@given(
    text=st.one_of(
        st.text(max_size=100),
        st.recursive(
            st.one_of(st.none(), st.integers(), st.text(max_size=5)),
            lambda inner: st.one_of(
                st.lists(inner, max_size=3),
                st.dictionaries(st.sampled_from(["weight_map", "a", "b"]), inner, max_size=3),
            ),
            max_leaves=10,
        ).map(json.dumps),
    )
)
def test_any_index_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.mktemp("index")
    (folder / "model.safetensors.index.json").write_bytes(text.encode("utf-8", "replace"))
    (folder / "b.safetensors").write_bytes(VALID)
    try:
        open_safetensors(folder).close()
    except CheckpointError as error:
        assert error.message
    except Exception as error:
        # A shard that is named and is not there is a missing file.
        assert type(error).__name__ == "SourceNotFoundError"
