"""The events of an answer: whatever the model does, their grammar holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrs.runtime.generation import FinishReason, GenerationDelta, TokenLogprobs
from mrs.server.conversation.answer_reader import AnswerReader
from mrs.server.conversation.events import (
    AnswerEvent,
    Finished,
    ReasoningDelta,
    TextDelta,
    ToolCallArguments,
    ToolCallBegun,
    ToolCallEnded,
)
from mrs.server.generation import Tally
from mrs.server.responses.answer import AnswerForm, ResponseAnswer
from mrs.server.responses.items import unseal
from tests.server.fake_engine import PIECES
from tests.server.responses.events import check_grammar, kinds, parse_events

ERROR = {"type": "server_error", "code": "server_error", "message": "It broke.", "param": None}


class Told(AnswerReader):
    """Tells the events that a test wants, one list for each delta."""

    def __init__(self, told: list[list[AnswerEvent]]) -> None:
        self._told = iter(told)

    def read(self, delta: GenerationDelta) -> Iterator[AnswerEvent]:
        yield from next(self._told)


def resource(status: str = "in_progress") -> dict[str, Any]:
    empty = {"completed_at": None, "error": None, "incomplete_details": None, "usage": None}
    return {"id": "resp_1", "status": status, "output": [], "output_text": "", **empty}


class Played:
    """An answer of given events, and all that was streamed of it."""

    def __init__(self, *told: list[AnswerEvent], status: str = "in_progress", **form: Any) -> None:
        self.tally = Tally(3, 1)
        reader = Told(list(told))
        shape = AnswerForm(reader, lambda token: PIECES.get(token, b""), **form)
        self.answer = ResponseAnswer(resource(status), shape, self.tally)
        self.stream = b"".join(self.answer.begin())
        for _ in told:
            deltas = (GenerationDelta(0, "", (7,)),)
            self.tally.count(deltas)
            self.stream += b"".join(self.answer.add(deltas))

    def end(self, how: str = "complete") -> list[dict[str, Any]]:
        frames = self.answer.fail(ERROR) if how == "fail" else getattr(self.answer, how)()
        self.stream += b"".join(frames)
        return parse_events(self.stream)


def call(index: int, *fragments: str) -> list[AnswerEvent]:
    begun = ToolCallBegun(index, f"call_{index}", "look_up")
    pieces = [ToolCallArguments(index, fragment) for fragment in fragments]
    return [begun, *pieces, ToolCallEnded(index, "".join(fragments))]


texts = st.text(max_size=8)
reasoning = st.lists(texts.map(ReasoningDelta), max_size=3)
body = st.lists(
    st.one_of(
        st.lists(texts.map(TextDelta), min_size=1, max_size=3),
        st.lists(texts, max_size=3).map(lambda fragments: call(0, *fragments)),
    ),
    max_size=4,
)
endings = st.sampled_from(["stop", "length", "tool_calls"])


@given(reasoning, body, endings, st.sampled_from(["complete", "fail", "cancel"]), st.data())
def test_every_stream_follows_the_grammar(
    thought: list[AnswerEvent],
    said: list[list[AnswerEvent]],
    reason: str,
    how: str,
    data: st.DataObject,
) -> None:
    events: list[AnswerEvent] = [*thought, *(event for events in said for event in events)]
    if how == "complete":
        events.append(Finished(reason, reasoning_tokens=1))
    else:
        # It may end anywhere.
        events = events[: data.draw(st.integers(0, len(events)))]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=3)))
    steps = [events[i:j] for i, j in zip([0, *cuts], [*cuts, len(events)], strict=True)]
    status = data.draw(st.sampled_from(["in_progress", "queued"]))
    played = Played(*steps, status=status)
    final = check_grammar(played.end(how))
    assert final == played.answer.resource
    wanted = {"complete": "incomplete" if reason == "length" else "completed"}
    assert final["status"] == wanted.get(how, {"fail": "failed", "cancel": "cancelled"}.get(how))


def test_a_text() -> None:
    events = Played([TextDelta("Hel")], [TextDelta("lo"), Finished("stop")]).end()
    assert kinds(events) == [
        *("created", "in_progress", "output_item.added", "content_part.added"),
        *("output_text.delta", "output_text.delta", "output_text.done"),
        *("content_part.done", "output_item.done", "completed"),
    ]
    final = events[-1]["response"]
    assert final["output_text"] == "Hello"
    assert final["usage"]["output_tokens"] == 2
    assert final["completed_at"] is not None


def test_reasoning_comes_first_and_is_an_item_of_its_own() -> None:
    told = [ReasoningDelta("Hm"), ReasoningDelta("."), TextDelta("Yes"), Finished("stop", None, 2)]
    events = Played(told).end()
    final = check_grammar(events)
    thought, said = final["output"]
    assert thought["content"] == [{"type": "reasoning_text", "text": "Hm."}]
    assert thought["summary"] == []
    assert "encrypted_content" not in thought
    assert said["content"][0]["text"] == final["output_text"] == "Yes"
    assert final["usage"]["output_tokens_details"] == {"reasoning_tokens": 2}
    assert kinds(events)[2:7] == [
        *("output_item.added", "content_part.added", "reasoning_text.delta"),
        *("reasoning_text.delta", "reasoning_text.done"),
    ]


def test_sealed_reasoning_can_be_read_again() -> None:
    played = Played([ReasoningDelta("Hm. é"), Finished("stop")], sealed_reasoning=True)
    (thought,) = check_grammar(played.end())["output"]
    assert unseal(thought["encrypted_content"], "x") == "Hm. é"


def test_calls_are_items_and_their_arguments_stream() -> None:
    told = [*call(0, '{"a"', ":1}"), *call(1, "{}"), Finished("tool_calls")]
    events = Played(told).end()
    final = check_grammar(events)
    assert [item["call_id"] for item in final["output"]] == ["call_0", "call_1"]
    assert [item["arguments"] for item in final["output"]] == ['{"a":1}', "{}"]
    assert {item["status"] for item in final["output"]} == {"completed"}
    assert final["output_text"] == ""
    assert kinds(events)[2:7] == [
        *("output_item.added", "function_call_arguments.delta", "function_call_arguments.delta"),
        *("function_call_arguments.done", "output_item.done"),
    ]


def test_a_call_tells_the_namespace_of_its_function() -> None:
    played = Played([*call(0, "{}"), Finished("tool_calls")], namespaces={"look_up": ("db", "f")})
    (item,) = check_grammar(played.end())["output"]
    assert (item["namespace"], item["name"]) == ("db", "f")


def test_what_the_limit_cuts_off_is_incomplete() -> None:
    begun = [ToolCallBegun(0, "call_0", "look_up"), ToolCallArguments(0, '{"a')]
    events = Played([TextDelta("I look"), *begun, Finished("length")]).end()
    final = check_grammar(events)
    assert events[-1]["type"] == "response.incomplete"
    assert final["incomplete_details"] == {"reason": "max_output_tokens"}
    assert [item["status"] for item in final["output"]] == ["completed", "incomplete"]
    assert final["completed_at"] is None


def test_an_empty_answer_is_an_empty_message() -> None:
    (item,) = check_grammar(Played([Finished("stop")]).end())["output"]
    assert item["content"][0]["text"] == ""


def test_in_the_background_progress_begins_with_the_first_token() -> None:
    played = Played(status="queued")
    assert kinds(parse_events(played.stream)) == ["created", "queued"]
    played = Played([TextDelta("a")], [Finished("stop")], status="queued")
    assert kinds(played.end())[:3] == ["created", "queued", "in_progress"]


def test_logprobs_go_with_their_text() -> None:
    first = TokenLogprobs(7, -0.5, ((7, -0.5), (8, float("-inf"))))
    second = TokenLogprobs(8, -1.0)
    told = [TextDelta("x", (first,)), TextDelta("", (second,)), Finished("stop")]
    events = Played(told).end()
    final = check_grammar(events)
    deltas = [event for event in events if event["type"].endswith("text.delta")]
    one = {
        "token": "x",
        "logprob": -0.5,
        "bytes": [120],
        "top_logprobs": [
            {"token": "x", "logprob": -0.5, "bytes": [120]},
            {"token": "\ufffd", "logprob": -9999.0, "bytes": [0xE2, 0x82]},
        ],
    }
    assert [len(event["logprobs"]) for event in deltas] == [1, 1]
    assert deltas[0]["logprobs"] == [one]
    assert final["output"][0]["content"][0]["logprobs"] == [one, deltas[1]["logprobs"][0]]
    (done,) = [event for event in events if event["type"].endswith("text.done")]
    assert len(done["logprobs"]) == 2


def test_while_it_runs_the_response_shows_what_there_is() -> None:
    played = Played([ReasoningDelta("Hm"), TextDelta("Hel")])
    thought, said = played.answer.resource["output"]
    assert (thought["status"], said["status"]) == ("completed", "in_progress")
    assert played.answer.resource["output_text"] == "Hel"
    assert played.answer.resource["status"] == "in_progress"


def test_an_end_that_nobody_saw_can_become_a_failure() -> None:
    played = Played([TextDelta("a"), Finished("stop")])
    *shown, _ = played.answer.complete()
    played.stream += b"".join(shown)
    final = check_grammar(played.end("fail"))
    assert final["status"] == "failed"
    assert final["error"] == ERROR
    assert final["completed_at"] is None


@pytest.mark.parametrize("text", ["", "a", "é" * 64, "x" * 200])
def test_obfuscated_deltas_are_of_few_lengths(text: str) -> None:
    events = Played([TextDelta(text), Finished("stop")], obfuscate=True).end()
    check_grammar(events)
    (delta,) = [event for event in events if event["type"].endswith("text.delta")]
    assert delta["delta"] == text
    assert (len(text) + len(delta["obfuscation"])) % 64 == 0


def test_the_finish_reason_of_the_engine_reaches_the_response() -> None:
    reader = AnswerReader()
    tally = Tally(1, 1)
    answer = ResponseAnswer(resource(), AnswerForm(reader, lambda _: b""), tally)
    answer.begin()
    answer.add((GenerationDelta(0, "a", (7,), FinishReason.LENGTH),))
    answer.complete()
    assert answer.resource["status"] == "incomplete"
