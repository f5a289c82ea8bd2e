"""Answers to a text completion request: whole, and as chunks that come to the same."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrs.runtime.generation import FinishReason, GenerationDelta, GenerationRequest, TokenLogprobs
from mrs.server.generation import BatchTally
from mrs.server.openai.completion_answer import completion_answer
from mrs.server.openai.completion_logprobs import CompletionLogprobsWriter
from mrs.server.openai.completion_request import parse_completion_request, prepare_completion
from mrs.server.openai.completion_schemas import Completion, CompletionChunk
from mrs.server.served_model import ServedModel
from tests.server.fake_engine import Deltas, FakeEncoder, FakeEngine, end, served, token
from tests.server.live_server import events
from tests.server.openai.usage_counts import counts_of

LETTERS = {ord(char): char.encode() for char in "abc hi"} | {8: b"\xe2\x82", 9: b"\xac"}


def model(begin: tuple[int, ...] = ()) -> ServedModel:
    encoder = FakeEncoder()
    encoder.begin = begin
    return replace(served(FakeEngine(), encoder), token_bytes=lambda i: LETTERS.get(i, b""))


def body_of(deltas: Sequence[Deltas], begin: tuple[int, ...] = (), **fields: Any) -> bytes:
    """What a client gets for the deltas."""
    request = parse_completion_request(json.dumps({"prompt": "hi", **fields}).encode())
    one = model(begin)
    prepared = prepare_completion(request, one)
    answer = completion_answer(request, prepared, one)
    asked = answer.generation
    tally = BatchTally((asked,) if isinstance(asked, GenerationRequest) else asked)
    sent = b""
    for step in deltas:
        tally.count(step)
        sent += answer.add(step)
    return sent + answer.close(tally)


def whole(deltas: Sequence[Deltas], begin: tuple[int, ...] = (), **fields: Any) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(body_of(deltas, begin, **fields))
    return made


def chunks(deltas: Sequence[Deltas], begin: tuple[int, ...] = (), **fields: Any) -> list[Any]:
    *data, done = events(body_of(deltas, begin, stream=True, **fields))
    assert done == "[DONE]"
    return [json.loads(item) for item in data]


def scored(text: str, *tokens: int, index: int = 0, **more: Any) -> GenerationDelta:
    """A delta whose tokens have logprobs."""
    logprobs = tuple(TokenLogprobs(t, -1.0, ((ord("a"), -0.5),)) for t in tokens)
    return GenerationDelta(index, text, tokens, logprobs=logprobs, **more)


def prompt_scores(*tokens: int) -> tuple[TokenLogprobs, ...]:
    return tuple(TokenLogprobs(t, -2.0, ((t, -2.0),)) for t in tokens)


HELLO: list[Deltas] = [(token("  Hel"),), (token("lo"),), (end(),)]


class TestAWholeAnswer:
    def test_has_openais_shape_and_all_its_white_space(self) -> None:
        made = whole(HELLO)
        assert made.pop("id").startswith("cmpl-")
        assert made.pop("created") > 1_700_000_000
        assert made.pop("system_fingerprint").startswith("fp_")
        assert {**made, "usage": counts_of(made["usage"])} == {
            "object": "text_completion",
            "model": "tiny/fake",
            "choices": [{"index": 0, "text": "  Hello", "logprobs": None, "finish_reason": "stop"}],
            "usage": {
                "prompt_tokens": 2,
                "completion_tokens": 3,
                "total_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 0},
            },
        }

    def test_counts_the_choices_of_one_prompt_before_those_of_the_next(self) -> None:
        deltas = [
            tuple(token(text, index) for index, text in enumerate("wxyz")),
            tuple(end(index) for index in range(4)),
        ]
        choices = whole(deltas, prompt=["p", "q"], n=2)["choices"]
        assert [(c["index"], c["text"]) for c in choices] == list(enumerate("wxyz"))

    def test_adds_the_tokens_of_all_prompts_up(self) -> None:
        usage = whole([(end(0),), (end(1),)], prompt=["abc", "d"])["usage"]
        assert (usage["prompt_tokens"], usage["completion_tokens"]) == (4, 2)


class TestEcho:
    def test_begins_each_text_with_its_prompt(self) -> None:
        deltas = [(token("x", 0), token("y", 1)), (end(0), end(1))]
        made = whole(deltas, prompt=["a", "b"], echo=True)
        assert [choice["text"] for choice in made["choices"]] == ["ax", "by"]

    def test_of_token_ids_is_their_text(self) -> None:
        made = whole([(token("x"),), (end(),)], prompt=[ord("h"), ord("i")], echo=True)
        assert made["choices"][0]["text"] == "hix"

    def test_tells_how_likely_the_prompt_was(self) -> None:
        first = scored("c", ord("c"), prompt_logprobs=prompt_scores(ord("i")))
        lists = whole([(first,), (end(),)], echo=True, logprobs=1)["choices"][0]["logprobs"]
        assert lists == {
            "tokens": ["h", "i", "c"],
            "token_logprobs": [None, -2.0, -1.0],
            "top_logprobs": [None, {"i": -2.0}, {"a": -0.5, "c": -1.0}],
            "text_offset": [0, 1, 2],
        }

    def test_leaves_out_what_was_put_before_the_text(self) -> None:
        scores = prompt_scores(ord("h"), ord("i"))
        deltas = [(scored("c", ord("c"), prompt_logprobs=scores),), (end(),)]
        lists = whole(deltas, begin=(1,), echo=True, logprobs=0)["choices"][0]["logprobs"]
        assert lists["tokens"] == ["h", "i", "c"]
        assert lists["token_logprobs"] == [-2.0, -2.0, -1.0]

    def test_of_a_prompt_that_lost_its_beginning_has_no_scores_for_it(self) -> None:
        first = scored("c", ord("c"), prompt_logprobs=prompt_scores(ord("b")))
        fields = {"prompt": "hiab", "echo": True, "logprobs": 0, "truncate_sequence": True}
        lists = whole([(first,), (end(),)], **fields)["choices"][0]["logprobs"]
        assert lists["tokens"] == ["h", "i", "a", "b", "c"]
        assert lists["token_logprobs"] == [None, None, None, -2.0, -1.0]

    def test_alone_scores_a_prompt(self) -> None:
        first = scored("c", ord("c"), prompt_logprobs=prompt_scores(ord("i")))
        ended = [(first,), (end(),)]
        for deltas in (ended, [(replace(first, finish_reason=FinishReason.STOP),)]):
            made = whole(deltas, echo=True, logprobs=0, max_tokens=0)
            (choice,) = made["choices"]
            assert (choice["text"], choice["finish_reason"]) == ("hi", "length")
            assert choice["logprobs"]["tokens"] == ["h", "i"]
            assert made["usage"]["completion_tokens"] == 0
            assert made["usage"]["total_tokens"] == 2

    def test_has_no_space_that_the_vocabulary_put_first(self) -> None:
        writer = CompletionLogprobsWriter(lambda _: b" hi", leading_spaces=1)
        lists = writer.write(prompt_scores(5, 6))
        assert lists["tokens"] == ["hi", " hi"]
        assert lists["text_offset"] == [0, 2]


class TestLogprobs:
    def test_have_the_shape_of_text_completions(self) -> None:
        deltas = [(scored("b", ord("b")),), (scored("a", ord("a")),), (end(),)]
        assert whole(deltas, logprobs=1)["choices"][0]["logprobs"] == {
            "tokens": ["b", "a"],
            "token_logprobs": [-1.0, -1.0],
            "top_logprobs": [{"a": -0.5, "b": -1.0}, {"a": -1.0}],
            "text_offset": [0, 1],
        }

    def test_spell_bytes_that_are_no_character(self) -> None:
        deltas = [(scored("", 8),), (scored("€", 9),), (scored("b", ord("b")),), (end(),)]
        lists = whole(deltas, logprobs=1)["choices"][0]["logprobs"]
        assert lists["tokens"] == ["bytes:\\xe2\\x82", "bytes:\\xac", "b"]
        assert lists["text_offset"] == [0, 0, 1]

    def test_are_numbers_that_json_knows(self) -> None:
        never = TokenLogprobs(ord("b"), float("-inf"))
        deltas = [(GenerationDelta(0, "b", (ord("b"),), logprobs=(never,)),), (end(),)]
        assert whole(deltas, logprobs=1)["choices"][0]["logprobs"]["token_logprobs"] == [-9999.0]

    def test_of_certainty_are_zero(self) -> None:
        sure = TokenLogprobs(ord("b"), 0.0)
        deltas = [(GenerationDelta(0, "b", (ord("b"),), logprobs=(sure,)),), (end(),)]
        assert whole(deltas, logprobs=1)["choices"][0]["logprobs"]["token_logprobs"] == [0.0]


class TestBestOf:
    def deltas(self) -> list[Deltas]:
        def last(index: int, logprob: float) -> GenerationDelta:
            return GenerationDelta(
                index, "abc"[index], (7,), FinishReason.STOP, cumulative_logprob=logprob
            )

        # The mean counts: the second text is twice as long, and likelier by that.
        return [(GenerationDelta(1, "B", (7,)),), (last(0, -3.0), last(1, -4.0), last(2, -1.0))]

    def test_returns_the_likeliest_first(self) -> None:
        made = whole(self.deltas(), best_of=3, n=2)
        assert [(c["index"], c["text"]) for c in made["choices"]] == [(0, "c"), (1, "Bb")]
        assert made["usage"]["completion_tokens"] == 4

    def test_of_the_number_asked_for_changes_nothing(self) -> None:
        deltas = [tuple(token(t, i, FinishReason.STOP) for i, t in enumerate("ab"))]
        assert [c["text"] for c in whole(deltas, best_of=2, n=2)["choices"]] == ["a", "b"]


class TestAStream:
    def test_has_text_then_the_reason(self) -> None:
        choices = [chunk["choices"][0] for chunk in chunks(HELLO)]
        assert [choice["text"] for choice in choices] == ["  Hel", "lo", ""]
        assert [choice["finish_reason"] for choice in choices] == [None, None, "stop"]

    def test_tells_usage_in_a_last_chunk_if_asked(self) -> None:
        *rest, last = chunks(HELLO, stream_options={"include_usage": True})
        assert last["choices"] == []
        assert counts_of(last["usage"]) == counts_of(whole(HELLO)["usage"])
        assert all(chunk["usage"] is None for chunk in rest)
        assert all("usage" not in chunk for chunk in chunks(HELLO))

    def test_sends_nothing_for_text_that_is_held_back(self) -> None:
        assert len(chunks([(token(""),), (token("x"),), (end(),)])) == 2


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["", "a", " b"])), max_size=12),
    st.booleans(),
)
def test_chunks_come_to_the_whole_answer(steps: list[tuple[int, str]], echo: bool) -> None:
    fields: dict[str, Any] = {"prompt": ["a", "bc"], "n": 2, "echo": echo, "logprobs": 1}
    deltas: list[Deltas] = [(scored(text, *text.encode(), index=i),) for i, text in steps]
    first = (
        scored("", index=i, prompt_logprobs=prompt_scores(ord("c"))[: i // 2]) for i in range(4)
    )
    deltas = [tuple(first), *deltas, tuple(end(i) for i in range(4))]
    made = whole(deltas, **fields)
    Completion.model_validate_json(json.dumps(made), strict=True, extra="forbid")
    texts, tokens, reasons = [""] * 4, [[] for _ in range(4)], [None] * 4  # type: ignore[var-annotated]
    for chunk in chunks(deltas, **fields):
        CompletionChunk.model_validate_json(json.dumps(chunk), strict=True, extra="forbid")
        (choice,) = chunk["choices"]
        texts[choice["index"]] += choice["text"]
        tokens[choice["index"]] += choice["logprobs"]["tokens"]
        reasons[choice["index"]] = choice["finish_reason"]
    assert texts == [choice["text"] for choice in made["choices"]]
    assert tokens == [choice["logprobs"]["tokens"] for choice in made["choices"]]
    assert reasons == ["stop"] * 4
    assert ["".join(each) for each in tokens] == texts


@pytest.mark.parametrize("stream", [True, False])
def test_a_prompt_that_is_echoed_is_echoed_once(stream: bool) -> None:
    deltas = [(token("x"),), (token("y"),), (end(),)]
    if stream:
        text = "".join(chunk["choices"][0]["text"] for chunk in chunks(deltas, echo=True))
    else:
        text = whole(deltas, echo=True)["choices"][0]["text"]
    assert text == "hixy"
