from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from mrs.errors import CheckpointError, CorruptCheckpointError
from mrs.export.checkpoints import gguf_header
from mrs.export.checkpoints.gguf_reader import open_gguf
from tests.export.checkpoints.raw_gguf import (
    ARCHITECTURE,
    ARRAY,
    BOOL,
    INT32,
    STRING,
    UINT8,
    UINT32,
    array,
    entry,
    gguf_bytes,
    string,
    tensor,
    uint32,
)
from tests.export.gguf_files import Typed, write_gguf


def refusal(tmp_path: Path, data: bytes) -> str:
    """The message of the `CorruptCheckpointError` that opening ``data`` raises."""
    path = tmp_path / "m.gguf"
    path.write_bytes(data)
    with pytest.raises(CorruptCheckpointError) as caught:
        open_gguf(path)
    return str(caught.value)


@pytest.mark.parametrize("version", [0, 1, 4, 65535])
def test_other_versions_are_named(tmp_path: Path, version: int) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_bytes(version=version))
    with pytest.raises(CheckpointError, match=f"version {version}, "):
        open_gguf(path)


def test_big_endian_is_named(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF" + struct.pack(">IQQ", 3, 0, 0))
    with pytest.raises(CheckpointError, match="big-endian"):
        open_gguf(path)


def test_a_truncation_names_thing_place_and_missing_bytes(tmp_path: Path) -> None:
    whole = gguf_bytes([entry("abc", STRING, string("0123456789"))])
    start = whole.index(b"0123456789")
    assert (
        f"the value of 'abc' at byte {start} takes 10 bytes, and 4 of them are missing"
        in refusal(tmp_path, whole[: start + 6])
    )


def test_a_truncation_inside_a_vocabulary_names_the_element(tmp_path: Path) -> None:
    elements = b"".join(string(f"token{i}") for i in range(1000))
    whole = gguf_bytes([ARCHITECTURE, array("tokenizer.ggml.tokens", STRING, 1000, elements)])
    message = refusal(tmp_path, whole[: whole.index(b"token777") + 3])
    assert "element 777 of the array 'tokenizer.ggml.tokens'" in message
    assert "5 of them are missing" in message


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (gguf_bytes(metadata_count=(1 << 16) + 1), "claims 65537 metadata entries"),
        (gguf_bytes(tensor_count=(1 << 20) + 1), "claims 1048577 tensors"),
        (gguf_bytes(metadata_count=1 << 60), f"claims {1 << 60} metadata entries"),
        (gguf_bytes([string("k", claim=1 << 60)]), f"takes {1 << 60} bytes"),
        (gguf_bytes([entry("k", STRING, string("v", claim=(1 << 64) - 1))]), "are missing"),
        (gguf_bytes([array("k", INT32, 1 << 60, b"")]), f"takes {4 << 60} bytes"),
        (gguf_bytes([array("k", STRING, 1 << 61, b"")]), f"takes {8 << 61} bytes"),
        (gguf_bytes([array("k", ARRAY, 1, b"")]), "holds arrays"),
        (gguf_bytes([array("k", 13, 1, b"1234")]), "elements of type 13"),
        (gguf_bytes([entry("k", 13, b"1234")]), "type 13"),
        (gguf_bytes([entry("k", BOOL, b"\x02")]), "boolean"),
        (gguf_bytes([array("k", BOOL, 3, b"\x01\x00\x02")]), "boolean"),
        (gguf_bytes([ARCHITECTURE, uint32("k", 1), uint32("k", 2)]), "'k' occurs twice"),
        (gguf_bytes([entry(b"\xff", STRING, string("v"))]), "not UTF-8"),
        (gguf_bytes([entry("k", STRING, string(b"ab\xff"))]), "not UTF-8"),
        (gguf_bytes([array("k", STRING, 2, string("a") + string(b"\xff"))]), "element 1 of"),
        (gguf_bytes([entry("k" * (1 << 16), STRING, string("v"))]), "more than 65535"),
        (gguf_bytes(tensors=[tensor(b"\xff", [1])]), "not UTF-8"),
        (gguf_bytes(tensors=[tensor("", [1])]), "no name"),
        (gguf_bytes(tensors=[tensor("t", [])]), "0 dimensions"),
        (gguf_bytes(tensors=[tensor("t", [1] * 5)]), "5 dimensions"),
        (gguf_bytes(tensors=[tensor("t", [1]), tensor("t", [1], offset=32)]), "'t' occurs twice"),
    ],
)
def test_a_lie_is_told(tmp_path: Path, data: bytes, words: str) -> None:
    assert words in refusal(tmp_path, data)


def test_the_elements_of_all_arrays_are_bounded_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gguf_header, "most_elements", lambda size: 10)
    arrays = [array(key, UINT8, 5, bytes(5)) for key in "abc"]
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_bytes([ARCHITECTURE, *arrays[:2]]))
    open_gguf(path).close()
    assert "over 10 array elements" in refusal(tmp_path, gguf_bytes([ARCHITECTURE, *arrays]))


def test_a_vocabulary_of_two_million_tokens_needs_a_file_of_its_size(tmp_path: Path) -> None:
    assert "array elements" in refusal(
        tmp_path, gguf_bytes([ARCHITECTURE, array("k", UINT8, 2_000_000, bytes(2_000_000))])
    )
    path = tmp_path / "large.gguf"
    path.write_bytes(
        gguf_bytes([ARCHITECTURE, array("k", UINT32, 2_000_000, bytes(8_000_000))])
        + bytes(28_000_000)
    )
    open_gguf(path).close()


def test_arrays_that_nobody_asks_for_take_no_more_than_their_bytes(tmp_path: Path) -> None:
    numbers = array("n", UINT32, 100_000, np.arange(1000, 101_000, dtype="<u4").tobytes())
    strings = array("tokenizer.ggml.tokens", STRING, 50_000, string("ab") * 50_000)
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_bytes([ARCHITECTURE, numbers, strings]))
    tracemalloc.start()
    try:
        with open_gguf(path) as checkpoint:
            # Beside the kept arrays, one of them is copied at a time.
            assert tracemalloc.get_traced_memory()[1] < 2 * path.stat().st_size
            assert checkpoint.metadata["n"] == list(range(1000, 101_000))
            assert checkpoint.metadata["tokenizer.ggml.tokens"] == ["ab"] * 50_000
    finally:
        tracemalloc.stop()


def test_more_tokens_than_rows_are_refused_before_they_are_decoded(tmp_path: Path) -> None:
    tokens = array("tokenizer.ggml.tokens", STRING, 50_000, string("ab") * 50_000)
    tensors = [tensor("token_embd.weight", [1, 49_999])]
    data = gguf_bytes([ARCHITECTURE, tokens], tensors, data=bytes(4 * 49_999))
    tracemalloc.start()
    try:
        assert "50000 tokens, the embedding only 49999 rows" in refusal(tmp_path, data)
        assert tracemalloc.get_traced_memory()[1] < 2 * len(data)
    finally:
        tracemalloc.stop()


def test_only_a_large_file_may_have_many_tensors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gguf_header, "_FEW_TENSORS", 100)
    count = 1000
    tensors = b"".join(tensor(str(number), [1], offset=32 * number) for number in range(count))
    data = gguf_bytes(tensors=[tensors], tensor_count=count)
    assert f"claims {count} tensors" in refusal(tmp_path, data)
    (tmp_path / "m.gguf").write_bytes(data + bytes(512 * count))
    open_gguf(tmp_path / "m.gguf").close()


def test_a_string_longer_than_the_bound_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gguf_header, "MAX_STRING_BYTES", 4)
    tokens = array("k", STRING, 2, string("abcd") + string("abcde"))
    assert "element 1 of the array 'k'" in refusal(tmp_path, gguf_bytes([tokens]))


@pytest.mark.parametrize("key", ["tokenizer.ggml.tokens", "tokenizer.ggml.merges"])
def test_tokens_keep_bytes_that_are_not_utf8(tmp_path: Path, key: str) -> None:
    tokens = [b"a", b"\xff", b"\xe2\x96", "Ġé".encode()]
    path = write_gguf(tmp_path / "m.gguf", {key: Typed(tokens, "STRING")})
    with open_gguf(path) as checkpoint:
        read = checkpoint.metadata[key]
        assert isinstance(read, list)
        assert [str(token).encode("utf-8", "surrogateescape") for token in read] == tokens


def test_an_empty_array_is_an_empty_list(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(
        gguf_bytes([ARCHITECTURE, array("n", INT32, 0, b""), array("s", STRING, 0, b"")])
    )
    with open_gguf(path) as checkpoint:
        assert checkpoint.metadata["n"] == []
        assert checkpoint.metadata["s"] == []


def test_names_in_messages_are_escaped_and_short(tmp_path: Path) -> None:
    name = "\x1b[31m" + "x" * 5000
    message = refusal(tmp_path, gguf_bytes(tensors=[tensor(name, [])]))
    assert "\x1b" not in message
    assert len(message) < 300
