from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from starlette.types import Message

from mrs.server.errors import ErrorReply
from mrs.server.streaming import KEEP_ALIVE_COMMENT, EventStream, error_event, event

LONG = 3600.0


class Channel:
    """An ASGI channel that keeps what was sent and can wait for more."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._news = asyncio.Event()

    async def send(self, message: Message) -> None:
        self.messages.append(message)
        self._news.set()

    async def wait_for(self, count: int) -> None:
        while len(self.messages) < count:
            self._news.clear()
            await asyncio.wait_for(self._news.wait(), 10)

    @property
    def bodies(self) -> list[bytes]:
        return [message["body"] for message in self.messages[1:]]


def run(scenario: Callable[[Channel], Awaitable[None]]) -> Channel:
    async def main() -> Channel:
        channel = Channel()
        await scenario(channel)
        return channel

    return asyncio.run(main())


def test_events_are_framed_and_errors_are_events() -> None:
    assert event(b"{}") == b"data: {}\n\n"
    reply = ErrorReply(500, "Oh", "server_error")
    assert error_event(reply) == (
        b'data: {"error":{"message":"Oh","type":"server_error","param":null,"code":null}}\n\n'
    )


def test_the_headers_leave_with_the_first_events() -> None:
    async def scenario(channel: Channel) -> None:
        async with EventStream(channel.send, LONG) as stream:
            assert not stream.started
            await stream.send(b"one")
            assert stream.started
            await stream.send(b"two")
            await stream.finish(b"end")

    channel = run(scenario)
    start, *bodies = channel.messages
    assert start["status"] == 200
    assert dict(start["headers"]) == {
        b"content-type": b"text/event-stream; charset=utf-8",
        b"cache-control": b"no-cache",
        b"x-accel-buffering": b"no",
    }
    assert [(body["body"], body["more_body"]) for body in bodies] == [
        (b"one", True),
        (b"two", True),
        (b"end", False),
    ]


def test_a_second_finish_does_nothing() -> None:
    async def scenario(channel: Channel) -> None:
        async with EventStream(channel.send, LONG) as stream:
            await stream.finish(b"end")
            await stream.finish(b"error")

    assert run(scenario).bodies == [b"end"]


def test_silence_is_filled_with_comments_that_are_no_events() -> None:
    async def scenario(channel: Channel) -> None:
        async with EventStream(channel.send, 0.001) as stream:
            await channel.wait_for(4)
            await stream.finish(b"end")

    channel = run(scenario)
    assert channel.messages[0]["type"] == "http.response.start"
    assert channel.bodies[0] == KEEP_ALIVE_COMMENT
    assert channel.bodies[0].startswith(b":")
    assert channel.bodies[0].endswith(b"\n\n")


def test_the_end_of_the_events_is_the_end_of_the_comments() -> None:
    async def scenario(channel: Channel) -> None:
        before = asyncio.all_tasks()
        async with EventStream(channel.send, 0.001) as stream:
            await stream.finish(b"end")
            await asyncio.sleep(0)
            assert asyncio.all_tasks() == before

    assert run(scenario).bodies == [b"end"]


def test_tokens_make_neither_tasks_nor_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(channel: Channel) -> None:
        async with EventStream(channel.send, LONG) as stream:
            await stream.send(b"first")
            await asyncio.sleep(0)
            loop = asyncio.get_running_loop()
            made: list[Any] = []
            monkeypatch.setattr(loop, "call_at", lambda *args, **named: made.append(args))
            monkeypatch.setattr(loop, "call_later", lambda *args, **named: made.append(args))
            monkeypatch.setattr(loop, "create_task", lambda *args, **named: made.append(args))
            for _ in range(100):
                await stream.send(b"token")
            monkeypatch.undo()
            assert not made
            await stream.finish(b"end")

    assert len(run(scenario).bodies) == 102


def test_leaving_early_stops_the_comments() -> None:
    async def scenario(channel: Channel) -> None:
        before = asyncio.all_tasks()
        with pytest.raises(RuntimeError):
            async with EventStream(channel.send, LONG):
                raise RuntimeError
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == before

    run(scenario)
