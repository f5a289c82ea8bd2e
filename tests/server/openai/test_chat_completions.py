"""The real openai client against the real server."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest
from openai.types.chat import ChatCompletionUserMessageParam

from mrs.errors import QueueFullError
from tests.server.fake_engine import FakeEngine, failure, say, token
from tests.server.live_server import LiveServer

HI: ChatCompletionUserMessageParam = {"role": "user", "content": "hi"}


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


@pytest.fixture(autouse=True)
def _hello(played_engine: FakeEngine) -> None:
    played_engine.script = say("Hel", "lo", " 😺")


def test_a_whole_answer(sdk: openai.OpenAI) -> None:
    completion = sdk.chat.completions.create(model="tiny/fake", messages=[HI], n=2)
    assert [choice.message.content for choice in completion.choices] == ["Hello 😺"] * 2
    assert completion.choices[0].finish_reason == "stop"
    assert completion.usage is not None
    assert completion.usage.total_tokens == 2 + 8


def test_a_streamed_answer(sdk: openai.OpenAI) -> None:
    chunks = list(
        sdk.chat.completions.create(
            model="default",
            messages=[HI],
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1])
    assert text == "Hello 😺"
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 4


def test_the_clients_own_accumulator(sdk: openai.OpenAI) -> None:
    with sdk.chat.completions.stream(model="default", messages=[HI], n=2) as stream:
        for _ in stream:
            pass
        completion = stream.get_final_completion()
    assert [choice.message.content for choice in completion.choices] == ["Hello 😺"] * 2
    assert [choice.finish_reason for choice in completion.choices] == ["stop", "stop"]


def test_stream_options_without_a_stream_are_accepted(sdk: openai.OpenAI) -> None:
    completion = sdk.chat.completions.create(
        model="default",
        messages=[HI],
        stream=False,
        stream_options={"include_usage": True},
    )
    assert completion.choices[0].message.content == "Hello 😺"


def test_harmless_fields_are_accepted(sdk: openai.OpenAI) -> None:
    completion = sdk.chat.completions.create(
        model="default",
        messages=[HI],
        user="u",
        metadata={"a": "b"},
        store=False,
        service_tier="auto",
        parallel_tool_calls=True,
        safety_identifier="s",
        prompt_cache_key="k",
        response_format={"type": "text"},
        logit_bias={},
        extra_body={"future_field": {"x": 1}},
    )
    assert completion.service_tier == "default"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"model": "gpt-4"}, openai.NotFoundError),
        ({"temperature": 3}, openai.BadRequestError),
        ({"tool_choice": "required"}, openai.BadRequestError),
        ({"store": True}, openai.BadRequestError),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_errors_are_the_clients_own_classes(
    sdk: openai.OpenAI, fields: dict[str, object], error: type[openai.APIStatusError], stream: bool
) -> None:
    body = {"model": "default", **fields}
    with pytest.raises(error) as caught:
        sdk.chat.completions.create(messages=[HI], stream=stream, **body)  # type: ignore[call-overload]
    assert caught.value.type == "invalid_request_error"
    assert caught.value.param == next(iter(fields))
    assert caught.value.request_id


def test_a_full_queue_is_a_rate_limit(sdk: openai.OpenAI, played_engine: FakeEngine) -> None:
    played_engine.refusal = QueueFullError("Full.", retry_after=3)
    with pytest.raises(openai.RateLimitError) as caught:
        sdk.chat.completions.create(model="default", messages=[HI])
    assert caught.value.response.headers["retry-after"] == "3"


def test_a_failure_in_a_stream_is_raised(sdk: openai.OpenAI, played_engine: FakeEngine) -> None:
    played_engine.script = None
    with ThreadPoolExecutor(1) as pool:
        generating = pool.submit(played_engine.next_stream)
        generating.add_done_callback(lambda done: done.result().push(token("one"), token("two")))
        stream = sdk.chat.completions.create(model="default", messages=[HI], stream=True)
    received = [next(stream)]
    generating.result().push(failure())
    with pytest.raises(openai.APIError, match="error while it processed"):
        received.extend(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in received) == "onetwo"


def test_models_are_listed_and_found(sdk: openai.OpenAI) -> None:
    (model,) = sdk.models.list().data
    assert (model.id, model.object, model.owned_by) == ("tiny/fake", "model", "mrs")
    assert sdk.models.retrieve("tiny/fake") == model
    assert sdk.models.retrieve("default") == model
    with pytest.raises(openai.NotFoundError):
        sdk.models.retrieve("gpt-4")
