"""Events of an answer to content blocks."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings

from mrs.server.anthropic.content import (
    BlockBegun,
    BlockDelta,
    BlockEnded,
    BlockStep,
    ContentReader,
    whole_blocks,
)
from mrs.server.conversation.events import (
    AnswerEvent,
    Finished,
    ReasoningDelta,
    TextDelta,
    ToolCallArguments,
    ToolCallBegun,
    ToolCallEnded,
)
from tests.server.anthropic.answers import LAW, Events, answers, call


def steps(*events: AnswerEvent, **options: Any) -> list[BlockStep]:
    reader = ContentReader(**options)
    made = [
        step for event in events if not isinstance(event, Finished) for step in reader.read(event)
    ]
    return [*made, *reader.finish()]


def blocks(*events: AnswerEvent, **options: Any) -> list[dict[str, Any]]:
    return whole_blocks(steps(*events, **options))


@settings(LAW)
@given(answers())
def test_each_block_begins_goes_on_and_ends_before_the_next(events: Events) -> None:
    begun = ended = 0
    for step in steps(*events):
        match step:
            case BlockBegun(index, _):
                assert index == begun == ended
                begun += 1
            case BlockDelta(index, _, _, _):
                assert index == begun - 1 == ended
            case BlockEnded(index):
                assert index == ended == begun - 1
                ended += 1
    assert begun == ended


@settings(LAW)
@given(answers())
def test_all_that_is_said_and_no_white_space_alone_is_in_the_blocks(events: Events) -> None:
    made = blocks(*events)
    said = "".join(event.text for event in events if isinstance(event, TextDelta))
    thought = "".join(event.text for event in events if isinstance(event, ReasoningDelta))
    texts = [block["text"] for block in made if block["type"] == "text"]
    assert "".join("".join(texts).split()) == "".join(said.split())
    assert "".join(block["thinking"] for block in made if block["type"] == "thinking") == thought
    if len(made) > 1:
        assert all(text.strip() for text in texts)


@settings(LAW)
@given(answers())
def test_a_whole_call_has_all_its_arguments(events: Events) -> None:
    inputs = [block["input"] for block in blocks(*events) if block["type"] == "tool_use"]
    ended = [json.loads(event.arguments) for event in events if isinstance(event, ToolCallEnded)]
    assert inputs[: len(ended)] == ended


def test_text_and_calls_are_blocks_in_their_order() -> None:
    made = blocks(
        ReasoningDelta("Hm"),
        ReasoningDelta("m."),
        TextDelta("Look: "),
        TextDelta("here"),
        *call(0, '{"a":1}', '{"a"', ":1}"),
        *call(1, "{}", name="g"),
        TextDelta("Done."),
    )
    assert [block["type"] for block in made] == ["thinking", "text", "tool_use", "tool_use", "text"]
    assert made[0]["thinking"] == "Hmm."
    assert made[1] == {"type": "text", "text": "Look: here"}
    assert made[2] == {"type": "tool_use", "id": "call_0", "name": "f", "input": {"a": 1}}
    assert made[3]["name"] == "g"


def test_a_call_without_fragments_still_has_a_delta() -> None:
    made = steps(ToolCallBegun(0, "id", "f"), ToolCallEnded(0, "{}"))
    assert made[1] == BlockDelta(0, "input_json_delta", "partial_json", "{}")


def test_a_call_that_was_cut_off_has_what_is_complete() -> None:
    begun = (ToolCallBegun(0, "id", "f"), ToolCallArguments(0, '{"a":[1,2],"b":"x'))
    (block,) = blocks(*begun)
    assert block["input"] == {"a": [1, 2]}
    assert blocks(ToolCallBegun(0, "id", "f"))[0]["input"] == {}
    assert blocks(ToolCallBegun(0, "id", "f"), ToolCallArguments(0, "no"))[0]["input"] == {}


def test_thinking_ends_with_a_signature_of_what_was_thought() -> None:
    first, other = (blocks(ReasoningDelta(text))[0] for text in ("a", "b"))
    pieces = blocks(ReasoningDelta("x"), ReasoningDelta("y"))[0]
    assert first["signature"] and first["signature"] != other["signature"]
    assert pieces["signature"] == blocks(ReasoningDelta("xy"))[0]["signature"]


def test_thinking_may_be_left_out() -> None:
    thinking, text = blocks(ReasoningDelta("a"), TextDelta("b"), shows_thinking=False)
    assert thinking["thinking"] == ""
    assert thinking["signature"]
    assert text["text"] == "b"


def test_white_space_alone_is_a_block_where_it_is_all() -> None:
    assert blocks(TextDelta("\n"), TextDelta(" ")) == [{"type": "text", "text": "\n "}]
    assert [b["type"] for b in blocks(TextDelta("\n\n"), *call(0, "{}"))] == ["tool_use"]
    assert [b["type"] for b in blocks(*call(0, "{}"), TextDelta("\n"))] == ["tool_use"]
    assert blocks(TextDelta("  x"))[0]["text"] == "  x"


def test_an_empty_answer_has_no_blocks() -> None:
    assert blocks(TextDelta("")) == []
