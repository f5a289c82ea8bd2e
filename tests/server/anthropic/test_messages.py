"""The real anthropic client against the real server."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anthropic
import pytest
from anthropic.types import MessageParam
from starlette.testclient import TestClient

from mrs.errors import QueueFullError, ShuttingDownError
from mrs.runtime.generation import FinishReason, GenerationDelta
from mrs.server.app import create_app
from mrs.server.settings import RequestLimits, ServerSettings
from tests.server.anthropic.answers import read_events
from tests.server.fake_engine import FakeEngine, end, failure, say, served, token
from tests.server.live_server import LiveServer

HI: MessageParam = {"role": "user", "content": "hi"}


@pytest.fixture
def sdk(live: LiveServer) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(
        base_url=live.url,
        api_key="none",
        max_retries=0,
        timeout=10,
        _strict_response_validation=True,
    ) as client:
        yield client


@pytest.fixture(autouse=True)
def _hello(played_engine: FakeEngine) -> None:
    played_engine.script = say("Hel", "lo", " 😺")


def test_a_whole_message(sdk: anthropic.Anthropic) -> None:
    message = sdk.messages.create(model="tiny/fake", max_tokens=20, messages=[HI])
    assert [block.model_dump(exclude_none=True) for block in message.content] == [
        {"type": "text", "text": "Hello 😺"}
    ]
    assert message.stop_reason == "end_turn"
    assert (message.usage.input_tokens, message.usage.output_tokens) == (2, 4)


def test_a_streamed_message(sdk: anthropic.Anthropic) -> None:
    with sdk.messages.stream(model="default", max_tokens=20, messages=[HI]) as stream:
        assert list(stream.text_stream) == ["Hel", "lo", " 😺"]
        message = stream.get_final_message()
    assert message.content[0].type == "text"
    assert message.content[0].text == "Hello 😺"
    assert (message.stop_reason, message.usage.input_tokens) == ("end_turn", 2)
    assert stream.request_id


def test_the_end_by_a_stop_sequence_is_told(
    sdk: anthropic.Anthropic, played_engine: FakeEngine
) -> None:
    ended = GenerationDelta(0, "", (7,), FinishReason.STOP, stop="END")
    played_engine.script = lambda request: [(token("a"),), (ended,)]
    message = sdk.messages.create(
        model="default", max_tokens=20, messages=[HI], stop_sequences=["END"]
    )
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "END")
    assert played_engine.requests[-1].sampling.stop == ("END",)


def test_tokens_are_counted_without_generating(
    sdk: anthropic.Anthropic, played_engine: FakeEngine
) -> None:
    counted = sdk.messages.count_tokens(model="default", messages=[HI], system="abc")
    assert counted.input_tokens == 5
    assert not played_engine.requests


def test_models_are_listed_and_found(sdk: anthropic.Anthropic) -> None:
    (model,) = sdk.models.list(limit=5).data
    assert (model.id, model.type, model.max_input_tokens) == ("tiny/fake", "model", 128)
    assert sdk.models.retrieve("tiny/fake") == model
    with pytest.raises(anthropic.NotFoundError):
        sdk.models.retrieve("claude")


@pytest.mark.parametrize(
    ("fields", "error", "kind"),
    [
        ({"model": "claude"}, anthropic.NotFoundError, "not_found_error"),
        ({"max_tokens": 0}, anthropic.BadRequestError, "invalid_request_error"),
        (
            {"messages": [{"role": "user", "content": "x" * 128}]},
            anthropic.BadRequestError,
            "invalid_request_error",
        ),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_errors_are_the_clients_own_classes(
    sdk: anthropic.Anthropic, fields: Any, error: Any, kind: str, stream: bool
) -> None:
    body = {"model": "default", "max_tokens": 9, "messages": [HI], "stream": stream, **fields}
    with pytest.raises(error) as caught:
        sdk.messages.create(**body)
    assert caught.value.type == kind
    assert caught.value.request_id


@pytest.mark.parametrize(
    ("refusal", "error"),
    [
        (QueueFullError("Full.", retry_after=3), anthropic.RateLimitError),
        (ShuttingDownError("Off."), anthropic.InternalServerError),
    ],
)
def test_a_server_without_room_is_told_in_anthropics_statuses(
    sdk: anthropic.Anthropic, played_engine: FakeEngine, refusal: Exception, error: Any
) -> None:
    played_engine.refusal = refusal
    with pytest.raises(error) as caught:
        sdk.messages.create(model="default", max_tokens=9, messages=[HI])
    full = isinstance(refusal, QueueFullError)
    assert caught.value.status_code == (429 if full else 529)
    assert caught.value.type == ("rate_limit_error" if full else "overloaded_error")
    if full:
        assert caught.value.response.headers["retry-after"] == "3"


def test_a_failure_in_a_stream_is_raised(
    sdk: anthropic.Anthropic, played_engine: FakeEngine
) -> None:
    played_engine.script = None
    with ThreadPoolExecutor(1) as pool:
        generating = pool.submit(played_engine.next_stream)
        generating.add_done_callback(lambda done: done.result().push(token("one")))
        stream = sdk.messages.create(model="default", max_tokens=9, messages=[HI], stream=True)
    received = [next(stream).type]
    generating.result().push(failure())
    with pytest.raises(anthropic.APIStatusError, match="error while it processed") as caught:
        received.extend(event.type for event in stream)
    assert received == ["message_start", "content_block_start", "content_block_delta"]
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["error"]["type"] == "api_error"


def test_a_stream_that_waits_is_kept_awake_by_pings() -> None:
    engine = FakeEngine()
    settings = ServerSettings(keep_alive_interval=0.01)
    body = b'{"max_tokens":5,"stream":true,"messages":[{"role":"user","content":"hi"}]}'
    with LiveServer(served(engine), settings) as server, server.connect() as connection:
        connection.post("/v1/messages", body)
        generation = engine.next_stream()
        connection.read_head()
        chunks = connection.read_chunks()
        first = next(chunks)
        assert read_events(first) == [{"type": "ping"}]
        generation.push(token("a"), end())
        generation.finish()
        kinds = [event["type"] for event in read_events(b"".join(chunks))]
    kinds = [kind for kind in kinds if kind != "ping"]
    assert (kinds[0], kinds[-1]) == ("message_start", "message_stop")


def test_limits_hold_where_nothing_is_generated() -> None:
    settings = ServerSettings(limits=RequestLimits(messages=1))
    client = TestClient(create_app(served(FakeEngine()), settings), base_url="http://127.0.0.1")
    reply = client.post("/v1/messages/count_tokens", json={"messages": [HI, HI]})
    assert (reply.status_code, reply.json()["error"]["type"]) == (400, "invalid_request_error")
