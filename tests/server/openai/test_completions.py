"""The real openai client against the real server: text completions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from mrs.errors import InvalidValueError
from mrs.runtime.generation import FinishReason, GenerationRequest
from tests.server.fake_engine import Deltas, FakeEngine, end, failure, say, token
from tests.server.live_server import LiveServer, events


@pytest.fixture
def sdk(live: LiveServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{live.url}/v1",
        api_key="none",
        max_retries=0,
        timeout=10,
        _strict_response_validation=True,
    ) as client:
        yield client


@pytest.fixture
def lenient(sdk: openai.OpenAI) -> openai.OpenAI:
    """For streams: the reason is null until the end, as OpenAI sends it and denies it in a type."""
    return sdk.with_options(_extra_kwargs={"_strict_response_validation": False})


@pytest.fixture(autouse=True)
def _echo(played_engine: FakeEngine) -> None:
    """An engine that says the prompt's first token, in letters, in every choice."""

    def script(request: GenerationRequest) -> list[Deltas]:
        letter = chr(request.prompt_ids[0])
        told = tuple(token(f" {letter}{index}", index) for index in range(request.n))
        return [told, tuple(end(index) for index in range(request.n))]

    played_engine.script = script


def test_a_whole_completion(sdk: openai.OpenAI) -> None:
    completion = sdk.completions.create(model="tiny/fake", prompt="hi")
    assert completion.choices[0].text == " h0"
    assert completion.choices[0].finish_reason == "stop"
    assert completion.usage is not None
    assert completion.usage.total_tokens == 2 + 2


def test_several_prompts_by_several_choices(sdk: openai.OpenAI) -> None:
    completion = sdk.completions.create(model="default", prompt=["a", "b", "c"], n=2)
    assert [choice.index for choice in completion.choices] == list(range(6))
    assert [choice.text for choice in completion.choices] == [
        *(" a0", " a1", " b0", " b1", " c0", " c1")
    ]


def test_several_prompts_in_a_stream(lenient: openai.OpenAI) -> None:
    texts = [""] * 4
    stream = lenient.completions.create(
        model="default",
        prompt=[[97, 1], [98]],
        n=2,
        stream=True,
        stream_options={"include_usage": True},
    )
    *chunks, last = stream
    for chunk in chunks:
        (choice,) = chunk.choices
        texts[choice.index] += choice.text
    assert texts == [" a0", " a1", " b0", " b1"]
    assert last.usage is not None
    assert (last.usage.prompt_tokens, last.usage.completion_tokens) == (3, 8)


def test_a_prompt_that_fails_fails_them_all(live: LiveServer, played_engine: FakeEngine) -> None:
    played_engine.script = None
    with live.connect() as connection:
        connection.post("/v1/completions", b'{"prompt":["a","b"]}')
        going_on, failing = (played_engine.next_stream() for _ in range(2))
        going_on.push(token("a"))
        failing.push(failure(InvalidValueError("Bad.", param="prompt")))
        status, _, body = connection.read_json()
    assert (status, body["error"]["param"]) == (400, "prompt")
    assert going_on.cancelled.is_set()


def test_errors_are_the_clients_own_classes(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        sdk.completions.create(model="davinci-002", prompt="a")
    with pytest.raises(openai.BadRequestError) as caught:
        sdk.completions.create(model="default", prompt=[])
    assert caught.value.param == "prompt"


class TestReportedBugs:
    """Symptoms that users of other servers have reported."""

    def test_an_array_of_prompts_is_not_refused(self, sdk: openai.OpenAI) -> None:
        assert len(sdk.completions.create(model="default", prompt=["a"]).choices) == 1

    def test_leading_white_space_is_not_trimmed(
        self, sdk: openai.OpenAI, played_engine: FakeEngine
    ) -> None:
        played_engine.script = say("\n    return", " x")
        completion = sdk.completions.create(model="default", prompt="def f(x):")
        assert completion.choices[0].text == "\n    return x"

    def test_a_stream_of_several_choices_is_done_once(
        self, live: LiveServer, played_engine: FakeEngine
    ) -> None:
        played_engine.script = say("a")
        with live.connect() as connection:
            connection.post("/v1/completions", b'{"prompt":["a","b"],"n":3,"stream":true}')
            connection.read_head()
            data = events(b"".join(connection.read_chunks()))
        assert data.count("[DONE]") == 1
        assert data[-1] == "[DONE]"

    def test_a_reason_is_null_until_the_last_chunk(self, lenient: openai.OpenAI) -> None:
        chunks = list(lenient.completions.create(model="default", prompt="a", stream=True))
        reasons: list[Any] = [chunk.choices[0].finish_reason for chunk in chunks]
        assert reasons == [None, "stop"]

    def test_no_choice_waits_for_the_slowest(
        self, live: LiveServer, played_engine: FakeEngine
    ) -> None:
        played_engine.script = None
        with live.connect() as connection:
            connection.post("/v1/completions", b'{"prompt":"a","n":2,"stream":true}')
            stream = played_engine.next_stream()
            stream.push(token("x", 1, FinishReason.STOP))
            connection.read_head()
            chunks = connection.read_chunks()
            assert '"index":1' in events(next(chunks))[0]
            stream.push(end(0))
            stream.finish()
            assert events(b"".join(chunks))[-1] == "[DONE]"
