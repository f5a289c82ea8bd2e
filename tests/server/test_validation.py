from __future__ import annotations

import json
from typing import Literal

import pytest
from pydantic import Field

from mrs.errors import InvalidValueError, RequestError
from mrs.server.errors import FieldTypeError, MalformedBodyError, MissingFieldError
from mrs.server.validation import RequestModel, field_path, parse_request


class Item(RequestModel):
    kind: Literal["a", "b"]


class Order(RequestModel):
    count: int = Field(ge=1)
    price: float | None = None
    items: list[Item] = Field(default=[], max_length=2)


def parse(**fields: object) -> Order:
    return parse_request(Order, json.dumps({"count": 1, **fields}).encode())


@pytest.mark.parametrize(
    ("fields", "error", "param"),
    [
        ({"count": "1"}, FieldTypeError, "count"),
        ({"count": 1.0}, FieldTypeError, "count"),
        ({"count": 1.5}, FieldTypeError, "count"),
        ({"count": True}, FieldTypeError, "count"),
        ({"count": None}, FieldTypeError, "count"),
        ({"price": True}, FieldTypeError, "price"),
        ({"items": {}}, FieldTypeError, "items"),
        ({"items": ["x"]}, FieldTypeError, "items[0]"),
        ({"count": 0}, InvalidValueError, "count"),
        ({"items": [{"kind": "a"}, {"kind": "c"}]}, InvalidValueError, "items[1].kind"),
        ({"items": [{"kind": "a"}] * 3}, InvalidValueError, "items"),
        ({"items": [{}]}, MissingFieldError, "items[0].kind"),
    ],
)
def test_an_error_names_the_field(
    fields: dict[str, object], error: type[RequestError], param: str
) -> None:
    with pytest.raises(error) as caught:
        parse(**fields)
    assert type(caught.value) is error
    assert caught.value.param == param
    assert param in caught.value.message


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (None, "null"), (False, "false"), ({"a": 1}, "an object"), ([1], "an array of 1")],
)
def test_an_error_shows_the_value(value: object, shown: str) -> None:
    with pytest.raises(RequestError, match=f"got {shown}"):
        parse(count=value)


def test_an_error_shows_the_start_of_a_long_value() -> None:
    with pytest.raises(RequestError) as caught:
        parse(count="x" * 10_000)
    assert len(caught.value.message) < 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"count": 1} trailing',
        b"{'count': 1}",
        b'{"count": "\xff"}',
        b'{"count": "\\ud800"}',
        b'{"a": ' + b"[" * 100_000,
        b"nonsense",
    ],
)
def test_what_is_not_json_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedBodyError, match="not valid JSON"):
        parse_request(Order, body)


@pytest.mark.parametrize("body", [b"[]", b"null", b"1", b'"count"', b"true"])
def test_what_is_not_an_object_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedBodyError, match="must be a JSON object"):
        parse_request(Order, body)


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e999"])
def test_numbers_beyond_the_finite_are_refused(number: bytes) -> None:
    with pytest.raises(RequestError):
        parse_request(Order, b'{"count": 1, "price": ' + number + b"}")


def test_whole_numbers_are_floats_too() -> None:
    assert parse(price=2).price == 2.0


def test_unknown_fields_are_kept_aside() -> None:
    assert parse(other={"x": [1]}).model_extra == {"other": {"x": [1]}}


def test_tags_of_unions_are_not_part_of_a_path() -> None:
    assert field_path(("messages", 0, "content", "<parts>", 1, "type")) == (
        "messages[0].content[1].type"
    )
