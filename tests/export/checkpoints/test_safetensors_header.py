from __future__ import annotations

import json
import struct
import tracemalloc

import pytest
from safetensors import SafetensorError
from safetensors.numpy import load

from mrs.errors import CorruptCheckpointError, MrsError, UnsupportedTensorTypeError
from mrs.export.checkpoints import safetensors_header
from mrs.export.checkpoints.checkpoint import TensorInfo
from mrs.export.checkpoints.safetensors_header import parse_safetensors_header
from tests.export.safetensors_files import entry, raw_safetensors

F32_4 = entry("F32", [4], 0, 16)


def parse(data: bytes) -> dict[str, TensorInfo]:
    return {name: t.info for name, t in parse_safetensors_header(data, "m.safetensors").items()}


def refusal(data: bytes) -> MrsError:
    with pytest.raises(MrsError) as caught:
        parse(data)
    assert isinstance(caught.value, CorruptCheckpointError | UnsupportedTensorTypeError)
    assert "m.safetensors" in str(caught.value)
    return caught.value


def test_name_type_and_shape_are_those_of_the_header() -> None:
    header = {
        "__metadata__": {"format": "pt", "note": '} " {'},
        "b": entry("F16", [2, 3], 4, 16),
        "a": entry("F8_E4M3", [2, 2], 0, 4),
    }
    assert parse(raw_safetensors(header, bytes(16))) == {
        "b": TensorInfo("b", (2, 3), "F16"),
        "a": TensorInfo("a", (2, 2), "F8_E4M3"),
    }


def test_the_header_may_be_padded_with_spaces() -> None:
    text = json.dumps({"t": F32_4}) + " " * 13
    assert list(parse(raw_safetensors(text, bytes(16)))) == ["t"]


def test_a_file_without_tensors_is_empty() -> None:
    assert parse(raw_safetensors("{}")) == {}


def test_scalars_and_empty_tensors_are_tensors() -> None:
    header = {"scalar": entry("F32", [], 0, 4), "empty": entry("F32", [0, 7], 4, 4)}
    placed = parse_safetensors_header(raw_safetensors(header, bytes(4)), "m")
    assert (placed["scalar"].rows, placed["scalar"].row_bytes) == (1, 4)
    assert (placed["empty"].rows, placed["empty"].row_bytes) == (0, 28)


def test_names_are_unicode() -> None:
    assert list(parse(raw_safetensors({'größe "☃"': F32_4}, bytes(16)))) == ['größe "☃"']


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ({"t": entry("F32", [4], 0, 12)}, "takes 16 bytes, and not 12"),
        ({"t": entry("F32", [1 << 62, 1 << 62], 0, 16)}, "and not 16"),
        ({"t": entry("F32", [-4], 0, 16)}, "impossible shape"),
        ({"t": entry("F32", [1] * 9, 0, 4)}, "impossible shape"),
        ({"t": {**F32_4, "shape": [4.0]}}, "impossible shape"),
        ({"t": {**F32_4, "shape": [True, 4]}}, "impossible shape"),
        ({"t": {**F32_4, "shape": "4"}}, "impossible shape"),
        ({"t": {"dtype": "F32", "data_offsets": [0, 16]}}, "impossible shape (none)"),
        ({"t": entry("F32", [4], 16, 0)}, "impossible data_offsets"),
        ({"t": {**F32_4, "data_offsets": [0]}}, "impossible data_offsets"),
        ({"t": {**F32_4, "data_offsets": [0, 1e3]}}, "impossible data_offsets"),
        ({"t": {**F32_4, "data_offsets": None}}, "impossible data_offsets None"),
        ({"t": {**F32_4, "dtype": "Q4_0"}}, "storage type 'Q4_0', which is unknown"),
        ({"t": {**F32_4, "dtype": ["F32"]}}, "which is unknown"),
        ({"t": entry("F4", [2, 1], 0, 1)}, "no whole byte"),
        ({"": F32_4}, "has no name"),
        ({"t": "F32"}, "not by an object"),
        ({"t": entry("F32", [8], 0, 32)}, "truncated: the last 16 bytes"),
        ({"t": entry("F32", [2], 0, 8)}, "the last 8 bytes belong to no tensor"),
        ({"t": entry("F32", [2], 8, 16)}, "8 bytes between the header and tensor 't'"),
        ({"a": entry("U8", [9], 0, 9), "b": entry("U8", [9], 7, 16)}, "'b' overlaps tensor 'a'"),
        ({"a": F32_4, "b": F32_4}, "overlaps"),
        ('{"t": {}}x', "malformed JSON|impossible"),
        ("{}x", "malformed JSON"),
        ('{"t": {}', "malformed JSON"),
        ('{"t" {}}', "malformed JSON"),
        ("{t: {}}", "malformed JSON"),
        ('{"t": {},}', "malformed JSON"),
        ('{"t": ' + "{" * 3000 + "}" * 3000 + "}", "malformed JSON"),
        ('{"t": {"shape": ' + "[" * 3000 + "]" * 3000 + "}}", "more than 4096"),
        ('{"t": {"shape": ' + "[" * 1500 + "]" * 1500 + "}}", "cannot be read"),
        ('{"t": {"dtype": "F32", "dtype": "F16"}}', "cannot be read"),
        (b'{"\xff": {}}', "not Unicode"),
        ('{"\\ud800": {}}', "not Unicode"),
        ('{"t": {"dtype": "\\ud800", "shape": [4], "data_offsets": [0, 16]}}', "not Unicode"),
        ('{"t": {"shape": [' + "9" * 4000 + "]}}", "cannot be read|impossible|unknown"),
    ],
)  # fmt: skip
def test_a_lie_is_named(header: dict[str, object] | str | bytes, words: str) -> None:
    error = str(refusal(raw_safetensors(header, bytes(16))))
    assert any(word in error for word in words.split("|")), error


def test_a_name_that_occurs_twice_is_refused() -> None:
    text = json.dumps({"t": F32_4})
    assert "occurs twice" in str(refusal(raw_safetensors(text[:-1] + "," + text[1:], bytes(16))))


@pytest.mark.parametrize("claim", [0, 1, 1 << 20, 100_000_001, 1 << 40, (1 << 64) - 1])
def test_a_header_length_that_cannot_be_right_is_refused(claim: int) -> None:
    refusal(raw_safetensors({"t": F32_4}, bytes(16), claim=claim))


@pytest.mark.parametrize("size", range(8))
def test_a_file_shorter_than_its_length_field_is_refused(size: int) -> None:
    refusal(bytes(size) or b"{")


def test_what_the_file_is_instead_is_told() -> None:
    assert "zip archive" in str(refusal(b"PK\x03\x04" + bytes(100)))
    assert "Git LFS pointer" in str(refusal(b"version https://git-lfs.github.com/spec/v1\n"))


def test_the_number_of_tensors_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safetensors_header, "most_tensors", lambda size: 2)
    header = {str(number): entry("U8", [0], 0, 0) for number in range(3)}
    assert "more than 2 tensors" in str(refusal(raw_safetensors(header)))


@pytest.mark.parametrize(
    "filling",
    ['"a":{"x":[' + "[]," * 500_000 + "0]}", '"a":{' + '"b":{},' * 200_000 + '"c":{}}'],
)
def test_a_header_of_many_small_objects_costs_no_memory(filling: str) -> None:
    data = raw_safetensors("{" + filling + "}")
    tracemalloc.start()
    try:
        refusal(data)
        assert tracemalloc.get_traced_memory()[1] < 300_000
    finally:
        tracemalloc.stop()


def test_a_million_quotes_are_read_in_linear_time() -> None:
    """Backtracking would take years."""
    refusal(raw_safetensors('{"a":' + '"\\' * 1_000_000))
    refusal(raw_safetensors('{"a":{' * 300_000))


def test_a_hostile_length_is_refused_by_the_reference_too() -> None:
    data = struct.pack("<Q", 1 << 62) + b"{}"
    with pytest.raises(SafetensorError):
        load(data)
    refusal(data)
