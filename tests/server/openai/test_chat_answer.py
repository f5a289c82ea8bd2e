from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrs.runtime.generation import (
    FinishReason,
    GenerationDelta,
    GenerationRequest,
    TokenLogprobs,
)
from mrs.server.conversation.answer_reader import AnswerReader
from mrs.server.conversation.prepare import PreparedConversation
from mrs.server.generation import Tally
from mrs.server.openai.chat_answer import chat_answer
from mrs.server.openai.sampling import chat_sampling_params
from mrs.server.openai.schemas import ChatCompletion, ChatCompletionChunk, ChatCompletionRequest
from tests.server.fake_engine import Deltas, FakeEngine, end, served, token
from tests.server.live_server import events
from tests.server.openai.usage_counts import counts_of

MODEL = served(FakeEngine())


def answer(deltas: Sequence[Deltas], n: int = 1, **fields: Any) -> bytes:
    """What a client gets for the deltas."""
    body = {"messages": [{"role": "user", "content": "hi"}], "n": n, **fields}
    request = ChatCompletionRequest.model_validate_json(json.dumps(body))
    sampling = chat_sampling_params(request, MODEL)
    prepared = PreparedConversation(GenerationRequest((1, 2, 3), sampling, n), AnswerReader)
    written = chat_answer(request, prepared, MODEL)
    tally = Tally(3, n)
    sent = b""
    for step in deltas:
        tally.count(step)
        sent += written.add(step)
    return sent + written.close(tally)


def chunks(deltas: Sequence[Deltas], n: int = 1, **fields: Any) -> list[dict[str, Any]]:
    """The chunks of a stream; checks that it ends with one ``[DONE]``."""
    *data, done = events(answer(deltas, n, stream=True, **fields))
    assert done == "[DONE]"
    return [json.loads(item) for item in data]


HELLO = [(token("Hel"),), (token("lo"),), (end(),)]
USAGE = {
    "prompt_tokens": 3,
    "completion_tokens": 3,
    "total_tokens": 6,
    "prompt_tokens_details": {"cached_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 0},
}
WITH_USAGE: dict[str, Any] = {"stream_options": {"include_usage": True}}


class TestAWholeAnswer:
    def test_has_openais_shape(self) -> None:
        body = json.loads(answer(HELLO))
        assert body.pop("id").startswith("chatcmpl-")
        assert body.pop("created") > 1_700_000_000
        assert {**body, "usage": counts_of(body["usage"])} == {
            "object": "chat.completion",
            "model": "tiny/fake",
            "system_fingerprint": MODEL.fingerprint,
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": "Hello", "refusal": None},
                    "logprobs": None,
                    "finish_reason": "stop",
                }
            ],
            "usage": USAGE,
        }

    def test_keeps_choices_apart_and_in_order(self) -> None:
        deltas = [
            (token("b", 1), token("a", 0)),
            (end(1), token("A", 0, FinishReason.LENGTH)),
        ]
        choices = json.loads(answer(deltas, n=2))["choices"]
        assert [choice["message"]["content"] for choice in choices] == ["aA", "b"]
        assert [choice["finish_reason"] for choice in choices] == ["length", "stop"]

    def test_keeps_leading_space(self) -> None:
        deltas = [(token("  x\n"),), (end(),)]
        assert json.loads(answer(deltas))["choices"][0]["message"]["content"] == "  x\n"

    def test_is_as_documented(self) -> None:
        ChatCompletion.model_validate_json(answer(HELLO), strict=True, extra="forbid")

    def test_names_the_service_tier_if_the_request_did(self) -> None:
        assert json.loads(answer(HELLO, service_tier="auto"))["service_tier"] == "default"
        assert "service_tier" not in json.loads(answer(HELLO))


class TestAStream:
    def test_has_the_role_then_text_then_the_reason(self) -> None:
        choices = [chunk["choices"][0] for chunk in chunks(HELLO)]
        assert [choice["delta"] for choice in choices] == [
            {"role": "assistant", "content": ""},
            {"content": "Hel"},
            {"content": "lo"},
            {},
        ]
        assert [choice["finish_reason"] for choice in choices] == [None, None, None, "stop"]
        assert all(choice["logprobs"] is None for choice in choices)

    def test_has_one_header_in_all_chunks(self) -> None:
        headers = [
            {key: value for key, value in chunk.items() if key != "choices"}
            for chunk in chunks(HELLO)
        ]
        assert headers[0].keys() == {"id", "object", "created", "model", "system_fingerprint"}
        assert headers[0]["object"] == "chat.completion.chunk"
        assert all(header == headers[0] for header in headers)

    def test_is_as_documented(self) -> None:
        variants: list[dict[str, Any]] = [{}, WITH_USAGE, {"service_tier": "auto"}]
        for fields in variants:
            for chunk in chunks(HELLO, **fields):
                ChatCompletionChunk.model_validate_json(
                    json.dumps(chunk), strict=True, extra="forbid"
                )

    def test_tells_usage_in_a_last_chunk_if_asked(self) -> None:
        *rest, last = chunks(HELLO, **WITH_USAGE)
        assert last["choices"] == []
        assert counts_of(last["usage"]) == USAGE
        assert all(chunk["usage"] is None for chunk in rest)
        assert last.keys() == rest[0].keys()

    @pytest.mark.parametrize("options", [None, {}, {"include_usage": False}])
    def test_tells_no_usage_unasked(self, options: Any) -> None:
        assert all("usage" not in chunk for chunk in chunks(HELLO, stream_options=options))

    def test_sends_nothing_for_text_that_is_held_back(self) -> None:
        deltas = [(token(""),), (token(""),), (token("😺"),), (end(),)]
        assert len(chunks(deltas)) == 3

    def test_opens_each_choice_before_its_text(self) -> None:
        deltas = [(token("a", 0),), (token("b", 1),), (end(0),), (end(1),)]
        seen = [
            (chunk["choices"][0]["index"], chunk["choices"][0]["delta"])
            for chunk in chunks(deltas, n=2)
        ]
        assert seen == [
            (0, {"role": "assistant", "content": ""}),
            (0, {"content": "a"}),
            (1, {"role": "assistant", "content": ""}),
            (1, {"content": "b"}),
            (0, {}),
            (1, {}),
        ]

    def test_sends_the_last_text_before_the_reason(self) -> None:
        deltas = [(token("all", 0, FinishReason.LENGTH),)]
        assert [chunk["choices"][0]["delta"] for chunk in chunks(deltas)] == [
            {"role": "assistant", "content": ""},
            {"content": "all"},
            {},
        ]

    def test_of_an_empty_answer_has_role_and_reason(self) -> None:
        assert [chunk["choices"][0]["delta"] for chunk in chunks([(end(),)])] == [
            {"role": "assistant", "content": ""},
            {},
        ]


_TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=8)


@given(_TEXTS, st.integers(1, 3))
def test_streamed_and_whole_answers_are_equal(texts: list[str], n: int) -> None:
    deltas: list[Deltas] = [tuple(token(text, index) for index in range(n)) for text in texts]
    deltas.append(tuple(GenerationDelta(index, "!", (0,), FinishReason.STOP) for index in range(n)))
    *parts, last = chunks(deltas, n, **WITH_USAGE)
    whole = json.loads(answer(deltas, n))
    for index in range(n):
        streamed = "".join(
            chunk["choices"][0]["delta"].get("content", "")
            for chunk in parts
            if chunk["choices"][0]["index"] == index
        )
        assert streamed == whole["choices"][index]["message"]["content"] == "".join(texts) + "!"
    assert counts_of(last["usage"]) == counts_of(whole["usage"])


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_an_event_is_one_line(text: str) -> None:
    sent = answer([(token(text),), (end(),)], stream=True)
    for block in sent.split(b"\n\n")[:-1]:
        assert block.startswith(b"data: ")
        assert b"\n" not in block
        assert b"\r" not in block


def test_ids_are_unique() -> None:
    assert len({json.loads(answer(HELLO))["id"] for _ in range(50)}) == 50


def drawn(text: str, token: int, logprob: float, other: tuple[int, float]) -> GenerationDelta:
    logprobs = TokenLogprobs(token, logprob, ((token, logprob), other))
    return GenerationDelta(0, text, (token,), logprobs=(logprobs,))


class TestLogprobs:
    # A character in two tokens, then the end.
    EURO = (
        (drawn("", 8, -0.5, (7, -1.5)),),
        (drawn("€", 9, -0.25, (0, float("-inf"))),),
        (end(),),
    )  # fmt: skip
    ENTRIES = (
        {
            "token": "\ufffd",
            "logprob": -0.5,
            "bytes": [0xE2, 0x82],
            "top_logprobs": [
                {"token": "\ufffd", "logprob": -0.5, "bytes": [0xE2, 0x82]},
                {"token": "x", "logprob": -1.5, "bytes": [0x78]},
            ],
        },
        {
            "token": "\ufffd",
            "logprob": -0.25,
            "bytes": [0xAC],
            "top_logprobs": [
                {"token": "\ufffd", "logprob": -0.25, "bytes": [0xAC]},
                {"token": "", "logprob": -9999.0, "bytes": []},
            ],
        },
    )
    ASKED: dict[str, Any] = {"logprobs": True, "top_logprobs": 2}  # noqa: RUF012

    def test_a_whole_answer_has_one_entry_for_each_token(self) -> None:
        [choice] = json.loads(answer(self.EURO, **self.ASKED))["choices"]
        assert choice["logprobs"] == {"content": list(self.ENTRIES), "refusal": None}

    def test_a_stream_sends_each_with_its_token(self) -> None:
        found = [chunk["choices"][0] for chunk in chunks(self.EURO, **self.ASKED)]
        told = [
            (choice["delta"].get("content"), choice["logprobs"]["content"])
            for choice in found
            if choice["logprobs"] is not None
        ]
        assert told == [("", [self.ENTRIES[0]]), ("€", [self.ENTRIES[1]])]

    def test_the_documented_shape_holds(self) -> None:
        ChatCompletion.model_validate_json(answer(self.EURO, **self.ASKED))
        for chunk in chunks(self.EURO, **self.ASKED):
            ChatCompletionChunk.model_validate(chunk)

    def test_without_being_asked_for_there_are_none(self) -> None:
        [choice] = json.loads(answer(self.EURO))["choices"]
        assert choice["logprobs"] is None
