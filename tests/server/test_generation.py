"""What every generating endpoint promises, seen through chat completions."""

from __future__ import annotations

import json

import pytest
from starlette.testclient import TestClient

from mrs.errors import InvalidValueError
from mrs.runtime.generation import FinishReason, GenerationDelta, GenerationRequest
from mrs.server.errors import GenerationFailedError
from mrs.server.generation import Tally
from mrs.server.settings import ServerSettings
from tests.server.fake_engine import (
    Deltas,
    FakeEncoder,
    FakeEngine,
    end,
    failure,
    say,
    served,
    token,
)
from tests.server.live_server import LiveServer, events

URL = "/v1/chat/completions"
BODY = {"messages": [{"role": "user", "content": "hi"}]}


class TestTally:
    def test_counts_every_drawn_token(self) -> None:
        tally = Tally(5, 2)
        tally.count((token("a", 0), GenerationDelta(1, "bc", (1, 2)), end(0)))
        assert (tally.prompt_tokens, tally.completion_tokens) == (5, 4)

    def test_is_complete_when_every_choice_has_ended(self) -> None:
        tally = Tally(1, 2)
        tally.count((end(0),))
        with pytest.raises(GenerationFailedError):
            tally.require_complete()
        tally.count((end(1),))
        tally.require_complete()

    def test_raises_for_a_failed_choice(self) -> None:
        with pytest.raises(GenerationFailedError):
            Tally(1, 1).count((failure(),))


class TestAFailureBeforeTheFirstToken:
    @pytest.mark.parametrize("stream", [True, False])
    def test_has_a_status(self, client: TestClient, engine: FakeEngine, stream: bool) -> None:
        engine.script = lambda request: [(failure(RuntimeError("secret")),)]
        reply = client.post(URL, json={**BODY, "stream": stream})
        assert reply.status_code == 500
        assert reply.json()["error"]["code"] == "internal_error"
        assert "secret" not in reply.text

    def test_shows_an_error_that_is_the_clients(
        self, client: TestClient, engine: FakeEngine
    ) -> None:
        engine.script = lambda request: [(failure(InvalidValueError("Bad.", param="stop")),)]
        reply = client.post(URL, json=BODY)
        assert reply.status_code == 400
        assert reply.json()["error"]["param"] == "stop"

    def test_of_a_stream_that_just_ends_is_noticed(
        self, client: TestClient, engine: FakeEngine
    ) -> None:
        engine.script = lambda request: [(token("half"),)]
        assert client.post(URL, json=BODY).status_code == 500

    def test_by_a_cancelled_engine_is_503(self, client: TestClient, engine: FakeEngine) -> None:
        engine.script = lambda request: [(end(finish=FinishReason.CANCELLED),)]
        assert client.post(URL, json=BODY).status_code == 503


class TestAFailureInTheMiddle:
    def test_is_an_event_and_the_stream_ends_without_done(
        self, live: LiveServer, played_engine: FakeEngine, caplog: pytest.LogCaptureFixture
    ) -> None:
        with live.connect() as connection:
            connection.post_chat(stream=True, stream_options={"include_usage": True})
            generation = played_engine.next_stream()
            generation.push(token("one"))
            connection.read_head()
            chunks = connection.read_chunks()
            first = next(chunks)
            generation.push(failure(RuntimeError("secret")))
            *data, last = events(first + b"".join(chunks))
            assert json.loads(last).keys() == {"error"}
            assert json.loads(last)["error"]["type"] == "server_error"
            assert "secret" not in last
            assert "[DONE]" not in data
            # The connection is whole: the next request on it is answered.
            connection.get("/health/live")
            assert connection.read_json()[0] == 200
        assert generation.cancelled.is_set()
        assert "RuntimeError: secret" in caplog.text

    def test_may_be_an_exception_of_the_stream(
        self, live: LiveServer, played_engine: FakeEngine
    ) -> None:
        with live.connect() as connection:
            connection.post_chat(stream=True)
            generation = played_engine.next_stream()
            generation.push(token("one"))
            connection.read_head()
            chunks = connection.read_chunks()
            first = next(chunks)
            generation.crash(RuntimeError("secret"))
            assert "error" in json.loads(events(first + b"".join(chunks))[-1])

    def test_may_be_a_stream_that_just_ends(self, client: TestClient, engine: FakeEngine) -> None:
        engine.script = lambda request: [(token("half"),)]
        *_, last = events(client.post(URL, json={**BODY, "stream": True}).content)
        assert json.loads(last).keys() == {"error"}

    def test_of_one_choice_ends_all(self, client: TestClient, engine: FakeEngine) -> None:
        def script(request: GenerationRequest) -> list[Deltas]:
            return [(token("a", 0), token("b", 1)), (failure(index=1),), (end(0),)]

        engine.script = script
        assert client.post(URL, json={**BODY, "n": 2}).status_code == 500

    def test_hurts_no_other_stream(self, live: LiveServer, played_engine: FakeEngine) -> None:
        with live.connect() as bad, live.connect() as good:
            bad.post_chat(stream=True)
            failing = played_engine.next_stream()
            good.post_chat(stream=True)
            going_on = played_engine.next_stream()
            failing.push(failure())
            assert bad.read_head()[0] == 500
            going_on.push(token("fine"), end())
            going_on.finish()
            good.read_head()
            assert events(b"".join(good.read_chunks()))[-1] == "[DONE]"


class TestKeepAlive:
    def test_a_queued_stream_gets_headers_and_comments(self) -> None:
        engine = FakeEngine()
        settings = ServerSettings(keep_alive_interval=0.01)
        with LiveServer(served(engine), settings) as server, server.connect() as connection:
            connection.post_chat(stream=True)
            generation = engine.next_stream()
            status, headers = connection.read_head()
            assert status == 200
            assert headers["content-type"] == "text/event-stream; charset=utf-8"
            chunks = connection.read_chunks()
            assert next(chunks) == b": keep-alive\n\n"
            generation.push(token("late"), end())
            generation.finish()
            assert events(b"".join(chunks))[-1] == "[DONE]"

    def test_a_failure_after_a_comment_is_an_event(self) -> None:
        engine = FakeEngine()
        settings = ServerSettings(keep_alive_interval=0.01)
        with LiveServer(served(engine), settings) as server, server.connect() as connection:
            connection.post_chat(stream=True)
            generation = engine.next_stream()
            connection.read_head()
            chunks = connection.read_chunks()
            next(chunks)
            generation.push(failure())
            assert "error" in json.loads(events(b"".join(chunks))[-1])


@pytest.mark.parametrize(("length", "inline"), [(10, True), (10_000, False)])
def test_only_long_prompts_are_encoded_in_a_thread(
    encoder: FakeEncoder, length: int, inline: bool
) -> None:
    engine = FakeEngine(say("a"))
    with LiveServer(served(engine, encoder)) as server, server.connect() as connection:
        connection.post_chat(messages=[{"role": "user", "content": "x" * length}])
        assert connection.read_json()[0] == 200
        assert (encoder.threads == [server.thread_id]) is inline


def test_a_long_prompt_that_is_refused_is_refused_the_same_way(client: TestClient) -> None:
    reply = client.post(URL, json={"messages": [{"role": "x", "content": "y" * 10_000}]})
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == "messages[0].role"
