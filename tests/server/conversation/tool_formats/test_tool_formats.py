"""Each format against what its models' authors document, and laws that hold for all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrs.runtime.generation import FinishReason
from mrs.server.conversation.events import Finished, TextDelta, ToolCallArguments, ToolCallBegun
from mrs.server.conversation.tool_formats import FORMATS, format_named
from tests.server.conversation.reading import (
    call_events,
    calls,
    cut,
    joined,
    read,
    reader_of,
    texts,
)

PARIS = ("get_weather", {"city": "Paris", "days": 3})
SUM = ("add", {"a": 1, "b": [True, None, {"c": "d"}]})

# Format, text as documentation or template of the models has it, calls.
VECTORS: list[tuple[str, str, list[tuple[str, dict[str, Any]]]]] = [
    (
        "hermes",
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}\n'
        '</tool_call>\n<tool_call>\n{"arguments": {"a": 1, "b": 2}, "name": "add"}\n</tool_call>',
        [PARIS, ("add", {"a": 1, "b": 2})],
    ),
    ("hermes", '{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}', [PARIS]),
    (
        "hermes",
        '<tool_call>{"type": "function", "function": {"name": "add", "arguments": "{\\"a\\": 1}"}}'
        "</tool_call>",
        [("add", {"a": 1})],
    ),
    ("hermes", '<tool_call>{"name": "add"}</tool_call>', [("add", {})]),
    ("hermes", '<tool_call>{"name": "add", "arguments": null}</tool_call>', [("add", {})]),
    (
        "qwen_coder",
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n"
        "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
        [PARIS],
    ),
    (
        "qwen_coder",
        '<tool_call>\n<function=get_weather>\n<parameter=city>\n3\nlines "<b>"\n\n</parameter>\n'
        '<parameter=options>\n{"a": [1]}\n</parameter>\n</function>\n</tool_call>',
        [("get_weather", {"city": '3\nlines "<b>"\n', "options": {"a": [1]}})],
    ),
    (
        "seed",
        "<seed:tool_call>\n<function=get_weather>\n<parameter=city>Paris</parameter>\n"
        "<parameter=days>3</parameter>\n</function>\n</seed:tool_call>",
        [PARIS],
    ),
    ("llama", '{"name": "get_weather", "parameters": {"city": "Paris", "days": 3}}', [PARIS]),
    (
        "llama",
        '<|python_tag|>{"name": "get_weather", "parameters": {"city": "Paris", "days": 3}}; '
        '{"name": "add", "parameters": {}}',
        [PARIS, ("add", {})],
    ),
    ("llama", '<|python_tag|>get_weather.call(city="Paris", days=3)', [PARIS]),
    ("llama", '[get_weather(city="Paris", days=3)]', [PARIS]),
    (
        "mistral",
        '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}, '
        '"id": "abcdefghi"}, {"name": "add", "arguments": {"a": 1}}]',
        [PARIS, ("add", {"a": 1})],
    ),
    (
        "mistral_args",
        '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris", "days": 3}[TOOL_CALLS]add[CALL_ID]'
        "abcdefghi[ARGS]{}",
        [PARIS, ("add", {})],
    ),
    ("mistral_args", '[TOOL_CALLS]get_weather{"city": "Paris", "days": 3}', [PARIS]),
    (
        "deepseek",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
        '{"city": "Paris", "days": 3}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function'
        "<｜tool▁sep｜>add\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        [PARIS, ("add", {})],
    ),
    (
        "deepseek_v31",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>"
        '{"city": "Paris", "days": 3}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
        [PARIS],
    ),
    (
        "gemma",
        '<|tool_call>call:get_weather{city:<|"|>Paris<|"|>,days:3}<tool_call|>'
        '<|tool_call>call:add{a:1,b:[true,null,{c:<|"|>d<|"|>}]}<tool_call|>',
        [PARIS, SUM],
    ),
    (
        "function_gemma",
        "<start_function_call>call:get_weather{city:<escape>Paris<escape>,days:3}"
        "<end_function_call>",
        [PARIS],
    ),
    ("gemma_tool_code", '```tool_code\nget_weather(city="Paris", days=3)\n```', [PARIS]),
    (
        "phi",
        '<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}]'
        "<|/tool_call|>",
        [PARIS],
    ),
    (
        "granite",
        '<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}]',
        [PARIS],
    ),
    (
        "liquid",
        '<|tool_call_start|>[get_weather(city="Paris", days=3), add()]<|tool_call_end|>',
        [PARIS, ("add", {})],
    ),
    (
        "liquid",
        '<|tool_call_start|>[{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}]'
        "<|tool_call_end|>",
        [PARIS],
    ),
    (
        "pythonic",
        "[get_weather('Paris', days=3), add(a=1, b=(True, None, {'c': 'd'}))]",
        [PARIS, SUM],
    ),
    (
        "command_r",
        'Action: ```json\n[\n    {\n        "tool_name": "get_weather",\n        "parameters": {\n'
        '            "city": "Paris",\n            "days": 3\n        }\n    }\n]```',
        [PARIS],
    ),
    (
        "command_action",
        '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "get_weather", "parameters": '
        '{"city": "Paris", "days": 3}}\n]<|END_ACTION|>',
        [PARIS],
    ),
    (
        "harmony",
        "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"
        '{"city": "Paris", "days": 3}<|call|>',
        [PARIS],
    ),
    (
        "harmony",
        " to=functions.get_weather<|channel|>commentary json<|message|>"
        '{"city": "Paris", "days": 3}<|call|>',
        [PARIS],
    ),
    ("glm4", 'get_weather\n{"city": "Paris", "days": 3}', [PARIS]),
    (
        "glm",
        "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n"
        "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
        [PARIS],
    ),
    ("json", '{"name": "get_weather", "parameters": {"city": "Paris", "days": 3}}', [PARIS]),
    ("json", '[{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}]', [PARIS]),
]
NAMES = [form.name for form in FORMATS]
IDS = [f"{index}-{vector[0]}" for index, vector in enumerate(VECTORS)]


def test_every_format_has_a_vector() -> None:
    assert {name for name, *_ in VECTORS} == set(NAMES)


@pytest.mark.parametrize(("name", "text", "expected"), VECTORS, ids=IDS)
def test_calls_are_read_and_leave_no_text(
    name: str, text: str, expected: list[tuple[str, dict[str, Any]]]
) -> None:
    events = read(reader_of(name), [text])
    assert [(tool, json.loads(arguments)) for tool, arguments in calls(events)] == expected
    assert texts(events) == ""
    assert events[-1] == Finished("tool_calls")


@pytest.mark.parametrize(("name", "text", "expected"), VECTORS, ids=IDS)
def test_one_character_at_a_time_gives_the_same(name: str, text: str, expected: Any) -> None:
    assert joined(read(reader_of(name), list(text))) == joined(read(reader_of(name), [text]))


@pytest.mark.parametrize(("name", "text", "expected"), VECTORS, ids=IDS)
def test_arguments_come_in_fragments(name: str, text: str, expected: Any) -> None:
    """A call is told before its arguments are complete."""
    events = read(reader_of(name), list(text))
    begun = next(event for event in events if isinstance(event, ToolCallBegun))
    fragments = [
        event for event in events if isinstance(event, ToolCallArguments) and event.index == 0
    ]
    assert begun.name == expected[0][0]
    written_early = '"arguments": {"a": 1' not in text and expected[0][1] and '"{' not in text
    assert len(fragments) > 3 or not written_early


@pytest.mark.parametrize("name", NAMES)
def test_text_without_calls_is_passed_on_as_it_is(name: str) -> None:
    text = "  Is 1 < 2?\n\n```python\n{'a': [1]}\n```\n <b> [x](y) "
    expected = text.lstrip() if name == "harmony" else text
    assert texts(read(reader_of(name), [text])) == expected
    assert texts(read(reader_of(name), list(text))) == expected


WITH_MARKS = [name for name in NAMES if name not in ("pythonic", "json", "harmony", "glm4")]


@pytest.mark.parametrize("name", WITH_MARKS)
def test_text_may_stand_before_calls(name: str) -> None:
    form = format_named(name)
    marked = form.write([PARIS]) if form.opens_with_mark else form.begins[0] + form.write([PARIS])
    events = joined(read(reader_of(name), ["Let me see.\n\n", marked]))
    assert events[0] == TextDelta("Let me see.")
    assert [(tool, json.loads(arguments)) for tool, arguments in calls(events)] == [PARIS]


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_function_is_text(name: str) -> None:
    written = format_named(name).write([("drop_table", {"a": 1})])
    events = read(reader_of(name), list(written))
    assert calls(events) == []
    assert events[-1] == Finished("stop")
    expected = '{"a": 1}' if name == "harmony" else str(written)
    assert texts(events) == expected.rstrip("\n")


@pytest.mark.parametrize("name", NAMES)
def test_one_call_alone_where_they_may_not_be_parallel(name: str) -> None:
    written = format_named(name).write([PARIS, SUM])
    events = read(reader_of(name, parallel=False), [written, "and more"])
    assert [(tool, json.loads(arguments)) for tool, arguments in calls(events)] == [PARIS]
    assert texts(events) == ""


@pytest.mark.parametrize("name", NAMES)
def test_a_call_that_the_limit_cuts_off_does_not_end(name: str) -> None:
    written = str(format_named(name).write([PARIS]))
    place = written.index("Paris") + 3
    events = read(reader_of(name), [written[:place]], FinishReason.LENGTH)
    assert [event.name for event in events if isinstance(event, ToolCallBegun)] == ["get_weather"]
    assert calls(events) == []
    assert events[-1] == Finished("length")
    fragments = [event.fragment for event in events if isinstance(event, ToolCallArguments)]
    assert "".join(fragments) == '{"city": "Par'


@pytest.mark.parametrize("name", NAMES)
@given(nonsense=st.text("xyz!=-.' ", min_size=1, max_size=12))
def test_arguments_that_are_nonsense_are_handed_on_as_they_are(name: str, nonsense: str) -> None:
    """A client sees what the model wrote: nothing is made up, and no letter is lost."""
    written = str(format_named(name).write([PARIS])).replace("3", nonsense)
    events = joined(read(reader_of(name), list(written)))
    [(tool, arguments)] = calls(events)
    assert tool == "get_weather"
    assert arguments.startswith('{"city": "Paris"')
    letters = [letter for letter in nonsense if letter in "xyz"]
    found = [letter for letter in arguments + texts(events) if letter in "xyz"]
    assert "".join(letters) in "".join(found)
    assert events[-1] == Finished("tool_calls")


_TEXTS = st.text("ab\"'<>{}[]\\\n,é😺:| ", max_size=12)
_PLACES = st.lists(st.integers(0, 999))
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9999, 9999)
    | st.text("ab\"'<>{}[]\\\n,é😺:", max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab"), inner, max_size=2),
    max_leaves=4,
)


@pytest.mark.parametrize("name", NAMES)
@given(
    city=st.text("ab\"'<>{}[]\\\n,é😺:| ", max_size=12),
    value=_VALUES,
    places=st.lists(st.integers(0, 999)),
)
def test_what_is_written_is_read_however_it_is_cut(
    name: str, city: str, value: Any, places: list[int]
) -> None:
    if name in ("gemma", "function_gemma") and not _has_keys(value):
        value = None
    # XML has no quotes: of a parameter without a type, text that is JSON is taken for it.
    if name in ("qwen_coder", "seed", "glm") and isinstance(value, str):
        value = None
    given_calls = [("get_weather", {"city": city}), ("add", {"a": value})]
    if name == "harmony":
        given_calls = given_calls[:1]
    text = str(format_named(name).write(given_calls))
    events = read(reader_of(name), cut(text, places))
    assert [(tool, json.loads(arguments)) for tool, arguments in calls(events)] == given_calls


def _has_keys(value: Any) -> bool:
    """Whether no key in it is empty: Gemma's are not quoted."""
    if isinstance(value, dict):
        return all(key and _has_keys(item) for key, item in value.items())
    return not isinstance(value, list) or all(map(_has_keys, value))


_MARKS = """
<tool_call> </tool_call> {"name":"add", "arguments":{ "a":1 } { [TOOL_CALLS] [ARGS] [ ] add ( ) a=
'x' " , call: <function=add> <parameter=a> </parameter> </function> <think> </think> <|tool_call>
<tool_call|> <|tool_call|> <|channel|> <|message|> <|start|> ```json text 😺 analysis
<｜tool▁calls▁begin｜> <｜tool▁call▁begin｜> <｜tool▁sep｜> <|python_tag|> to=functions.add
<|tool_call_start|> ```tool_code <|START_ACTION|>
"""
_PIECES = st.lists(st.sampled_from([*_MARKS.split(), "\n", " "]), max_size=14)


@pytest.mark.parametrize("name", NAMES)
@given(pieces=_PIECES, places=_PLACES, parallel=st.booleans())
def test_nonsense_never_fails_and_is_the_same_however_it_is_cut(
    name: str, pieces: list[str], places: list[int], parallel: bool
) -> None:
    text = "".join(pieces)
    whole = joined(read(reader_of(name, parallel=parallel), [text]))
    assert joined(read(reader_of(name, parallel=parallel), cut(text, places))) == whole
    assert isinstance(whole[-1], Finished)


def test_events_of_a_call_come_in_order() -> None:
    text = 'Hi <tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call> bye'
    assert joined(read(reader_of("hermes"), list(text))) == [
        TextDelta("Hi"),
        *call_events(0, "add", '{"a": 1}'),
        TextDelta("bye"),
        Finished("tool_calls"),
    ]
