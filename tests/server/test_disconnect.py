"""A client that goes away frees its slots: with real sockets, whatever the request was doing."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.server.fake_engine import (
    TIMEOUT,
    FakeEncoder,
    FakeEngine,
    end,
    served,
    token,
)
from tests.server.live_server import LiveServer, events


@pytest.fixture(params=[True, False], ids=["ends", "never_ends"])
def obeys_cancel(request: pytest.FixtureRequest, played_engine: FakeEngine) -> bool:
    """Whether the engine's stream ends when it is cancelled: the server must not rely on it."""
    played_engine.obeys_cancel = request.param
    return bool(request.param)


@pytest.mark.usefixtures("obeys_cancel")
class TestADisconnectCancels:
    @pytest.mark.parametrize("stream", [True, False])
    def test_while_queued_or_in_prefill(
        self, live: LiveServer, played_engine: FakeEngine, stream: bool
    ) -> None:
        with live.connect() as connection:
            connection.post_chat(stream=stream)
            generation = played_engine.next_stream()
        assert generation.cancelled.wait(TIMEOUT)

    def test_while_streaming(self, live: LiveServer, played_engine: FakeEngine) -> None:
        with live.connect() as connection:
            connection.post_chat(stream=True)
            generation = played_engine.next_stream()
            generation.push(token("a"))
            connection.read_head()
            assert b"assistant" in next(connection.read_chunks())
            assert not generation.cancelled.is_set()
        assert generation.cancelled.wait(TIMEOUT)

    def test_while_collecting(self, live: LiveServer, played_engine: FakeEngine) -> None:
        with live.connect() as connection:
            connection.post_chat()
            generation = played_engine.next_stream()
            generation.push(token("a"))
        assert generation.cancelled.wait(TIMEOUT)

    def test_of_one_choice_of_several(self, live: LiveServer, played_engine: FakeEngine) -> None:
        with live.connect() as connection:
            connection.post_chat(stream=True, n=2)
            generation = played_engine.next_stream()
            generation.push(token("a", 0), end(0), token("b", 1))
            connection.read_head()
            next(connection.read_chunks())
        assert generation.cancelled.wait(TIMEOUT)


def test_a_disconnect_while_the_prompt_is_encoded_submits_nothing() -> None:
    class SlowEncoder(FakeEncoder):
        def __init__(self) -> None:
            super().__init__()
            self.entered, self.go_on = threading.Event(), threading.Event()

        def encode_chat(
            self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = True
        ) -> tuple[int, ...]:
            self.entered.set()
            assert self.go_on.wait(TIMEOUT)
            return (1,)

    engine, encoder = FakeEngine(), SlowEncoder()
    with LiveServer(served(engine, encoder)) as server:
        with server.connect() as connection:
            connection.post_chat(messages=[{"role": "user", "content": "x" * 10_000}])
            assert encoder.entered.wait(TIMEOUT)
        server.stop()
        # The server drains, so the request whose client is gone must have ended by itself.
        server.join()
        encoder.go_on.set()
    assert not engine.requests


def test_others_go_on(live: LiveServer, played_engine: FakeEngine) -> None:
    with live.connect() as stays:
        stays.post_chat(stream=True)
        kept = played_engine.next_stream()
        with live.connect() as leaves:
            leaves.post_chat(stream=True)
            left = played_engine.next_stream()
        assert left.cancelled.wait(TIMEOUT)
        kept.push(token("still here"), end())
        kept.finish()
        stays.read_head()
        assert events(b"".join(stays.read_chunks()))[-1] == "[DONE]"
    assert not kept.cancelled.is_set()


def test_a_complete_answer_cancels_nothing(live: LiveServer, played_engine: FakeEngine) -> None:
    for stream in (True, False):
        with live.connect() as connection:
            connection.post_chat(stream=stream)
            generation = played_engine.next_stream()
            generation.push(token("a"), end())
            generation.finish()
            connection.read_head()
            connection.get("/health/live")
        assert not generation.cancelled.is_set()


def test_a_reader_that_reads_nothing_delays_no_other(
    live: LiveServer, played_engine: FakeEngine
) -> None:
    with live.connect() as lazy, live.connect() as brisk:
        lazy.post_chat(stream=True)
        unread = played_engine.next_stream()
        for _ in range(200):
            unread.push(token("x" * 50_000))
        brisk.post_chat(stream=True)
        read = played_engine.next_stream()
        read.push(token("a"), end())
        read.finish()
        brisk.read_head()
        assert events(b"".join(brisk.read_chunks()))[-1] == "[DONE]"
    assert unread.cancelled.wait(TIMEOUT)
