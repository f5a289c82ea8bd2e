from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrs.runtime.generation import FinishReason, GenerationDelta, TokenLogprobs
from mrs.server.conversation.answer_reader import AnswerReader
from mrs.server.conversation.events import Finished, ReasoningDelta, TextDelta
from mrs.server.conversation.reasoning import FORMATS, ReasoningFormat
from tests.server.conversation.reading import call_events, cut, joined, read, reader_of


@pytest.mark.parametrize("marks", FORMATS, ids=lambda marks: marks.name)
@pytest.mark.parametrize("opened", [True, False])
def test_reasoning_is_split_off(marks: ReasoningFormat, opened: bool) -> None:
    text = f"{'' if opened else marks.opens}\nHm.\n\nSo.\n{marks.closes}\n\nYes. "
    for pieces in ([text], list(text)):
        events = read(reader_of(None, reasoning=marks, opened=opened), pieces)
        assert joined(events) == [
            ReasoningDelta("Hm.\n\nSo."),
            TextDelta("Yes. "),
            Finished("stop"),
        ]


@pytest.mark.parametrize("finish", [FinishReason.STOP, FinishReason.LENGTH])
def test_reasoning_that_does_not_end_is_reasoning(finish: FinishReason) -> None:
    events = read(reader_of(None), ["<think>", "Hm", " </thi"], finish)
    assert joined(events) == [ReasoningDelta("Hm </thi"), Finished(finish.value)]


@pytest.mark.parametrize("form", [None, "granite"])
def test_the_tags_around_granites_answer_are_no_part_of_it(form: str | None) -> None:
    [granite] = [marks for marks in FORMATS if marks.name == "granite"]
    text = "<think>Hm.</think>\n<response>Yes <b>.</response>"
    events = read(reader_of(form, reasoning=granite), list(text))
    assert joined(events) == [ReasoningDelta("Hm."), TextDelta("Yes <b>."), Finished("stop")]


def test_no_reasoning_leaves_the_text_as_it_is() -> None:
    assert joined(read(reader_of(None), list("  <b>\n "))) == [
        TextDelta("  <b>\n "),
        Finished("stop"),
    ]


def test_marks_within_the_text_are_text() -> None:
    text = "Write <think> and </think>."
    assert joined(read(reader_of(None), list(text))) == [TextDelta(text), Finished("stop")]


def test_empty_reasoning_is_none() -> None:
    events = joined(read(reader_of(None), list("<think>\n\n</think>\n\nHi")))
    assert events == [TextDelta("Hi"), Finished("stop")]


def test_a_model_may_begin_the_reasoning_that_its_prompt_has_begun() -> None:
    events = joined(read(reader_of(None, opened=True), list("<think>a</think>b")))
    assert events == [ReasoningDelta("a"), TextDelta("b"), Finished("stop")]


def test_calls_follow_reasoning_and_reasoning_may_follow_calls() -> None:
    call = '<tool_call>{"name": "add", "arguments": {}}</tool_call>'
    text = f"<think>a</think>\n{call}\n<think>b</think>{call}"
    assert joined(read(reader_of("hermes"), list(text))) == [
        ReasoningDelta("a"),
        *call_events(0, "add", "{}"),
        ReasoningDelta("b"),
        *call_events(1, "add", "{}"),
        Finished("tool_calls"),
    ]


def test_calls_within_reasoning_are_reasoning() -> None:
    text = '<think>maybe <tool_call>{"name": "add"}</tool_call></think>No.'
    assert joined(read(reader_of("hermes"), list(text))) == [
        ReasoningDelta('maybe <tool_call>{"name": "add"}</tool_call>'),
        TextDelta("No."),
        Finished("stop"),
    ]


@pytest.mark.parametrize(
    ("finish", "text"), [(FinishReason.LENGTH, "Hi"), (FinishReason.STOP, 'Hi\n<tool_call>{"na')]
)
def test_the_beginning_of_a_call_is_text_only_if_the_model_stopped_there(
    finish: FinishReason, text: str
) -> None:
    events = read(reader_of("hermes"), ["Hi\n<tool_call>", '{"na'], finish)
    assert joined(events) == [TextDelta(text), Finished(finish.value)]


def test_channels() -> None:
    text = (
        "<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>commentary"
        "<|message|>I'll look.<|end|><|start|>assistant<|channel|>commentary to=functions.add "
        '<|constrain|>json<|message|>{"a": 1}<|call|>'
    )
    for hidden_end in (text, text.replace("<|end|>", "").replace("<|call|>", "")):
        assert joined(read(reader_of("harmony"), list(hidden_end))) == [
            ReasoningDelta("Think."),
            TextDelta("I'll look."),
            *call_events(0, "add", '{"a": 1}'),
            Finished("tool_calls"),
        ]


def test_tokens_of_reasoning_are_counted() -> None:
    [*_, last] = read(reader_of(None), ["<think>", "a", "b", "</think>", "c", "d"])
    # The marks, too, are no part of the text.
    assert last == Finished("stop", reasoning_tokens=4)


def test_a_delta_may_hold_several_tokens() -> None:
    reader = reader_of(None)
    events = [*reader.read(GenerationDelta(0, "<think>a", (1, 2))), *read(reader, ["</think>b"])]
    assert events[-1] == Finished("stop", reasoning_tokens=3)


def drawn(text: str, token: int) -> GenerationDelta:
    return GenerationDelta(0, text, (token,), logprobs=(TokenLogprobs(token, -1.0),))


def test_logprobs_are_those_of_the_text_alone() -> None:
    reader = reader_of("hermes")
    pieces = ["<think>", "a", "</think>", "Hi", "<", "b", "<tool_call>", '{"name": "add"}']
    events = [
        event for index, piece in enumerate(pieces) for event in reader.read(drawn(piece, index))
    ]
    told = [
        (event.text, [found.token for found in event.logprobs])
        for event in events
        if isinstance(event, TextDelta)
    ]
    assert told == [("Hi", [3]), ("<b", [4, 5])]


def test_logprobs_of_text_that_ends_held_back_come_at_the_end() -> None:
    reader = reader_of("hermes")
    assert list(reader.read(drawn("<tool", 1))) == []
    [text, _] = reader.read(GenerationDelta(0, "", (0,), FinishReason.STOP))
    assert text == TextDelta("<tool", (TokenLogprobs(1, -1.0),))


def test_a_plain_answer_is_passed_through() -> None:
    reader = AnswerReader()
    assert list(reader.read(drawn("a", 1))) == [TextDelta("a", (TokenLogprobs(1, -1.0),))]
    ending = GenerationDelta(0, "", (0,), FinishReason.STOP, stop="x")
    assert list(reader.read(ending)) == [Finished("stop", "x")]


@given(
    st.lists(st.sampled_from(["<think>", "</think>", "a", " ", "\n", "<", "<thi"]), max_size=10),
    st.lists(st.integers(0, 99)),
    st.booleans(),
)
def test_nothing_depends_on_how_the_text_is_cut(
    pieces: list[str], places: list[int], opened: bool
) -> None:
    text = "".join(pieces)
    whole = joined(read(reader_of(None, opened=opened), [text]))
    assert joined(read(reader_of(None, opened=opened), cut(text, places))) == whole
