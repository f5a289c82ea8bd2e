from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrs.export.checkpoints.json_members import MalformedJsonError, members, parse_value


def parsed(text: str | bytes) -> dict[str, Any]:
    data = text.encode() if isinstance(text, str) else text
    return {member.key: parse_value(data, member, 10_000) for member in members(data, 0, len(data))}


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
)
flat = st.dictionaries(st.text(), st.one_of(scalars, st.lists(scalars, max_size=3)), max_size=4)


@given(
    document=st.dictionaries(
        st.text(), st.one_of(scalars, flat, st.dictionaries(st.text(), flat, max_size=2))
    ),
    indent=st.one_of(st.none(), st.integers(0, 3)),
    ascii_only=st.booleans(),
)
def test_agrees_with_the_json_module(
    document: dict[str, Any], indent: int | None, ascii_only: bool
) -> None:
    try:
        text = json.dumps(document, indent=indent, ensure_ascii=ascii_only).encode()
    except UnicodeEncodeError:
        return
    if has_lone_surrogates(document):
        with pytest.raises(MalformedJsonError):
            parsed(text)
    else:
        assert parsed(text) == document


def has_lone_surrogates(document: object) -> bool:
    try:
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{",
        "}",
        "{}{}",
        '{"a"}',
        '{"a":}',
        '{"a":1,}',
        '{,"a":1}',
        '{"a":1 "b":2}',
        '{"a":1}}',
        '{"a":[1]}',
        "{'a':1}",
        '{"a":"\n"}',
        '{"a":tru}',
        '{"a":{"b" 1}}',
        '{"a":{"b":1,"b":2}}',
        '{"a":' * 6 + "1" + "}" * 6,
        b'{"\xff":1}',
        b'{"a":"\xed\xa0\x80"}',
    ],
)
def test_what_is_no_such_object_is_malformed(text: str | bytes) -> None:
    with pytest.raises(MalformedJsonError) as caught:
        parsed(text)
    assert 0 <= caught.value.position <= len(text)


def test_only_a_part_of_the_bytes_is_read() -> None:
    data = b'xx{"a": 1}  yy'
    (member,) = members(data, 2, 12)
    assert (member.key, data[member.start : member.stop]) == ("a", b"1")


def test_a_large_value_is_not_parsed() -> None:
    data = json.dumps({"a": "x" * 100}).encode()
    (member,) = members(data, 0, len(data))
    with pytest.raises(MalformedJsonError, match="102 bytes"):
        parse_value(data, member, 101)
    assert parse_value(data, member, 102) == "x" * 100


def test_a_large_key_is_refused() -> None:
    with pytest.raises(MalformedJsonError, match="a key of"):
        parsed('{"' + "x" * 70_000 + '": 1}')
