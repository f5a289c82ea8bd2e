from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from starlette.types import Message

from mrs.server.interruption import Interruption, run_interruptible


class Client:
    """The receiving side of an ASGI channel."""

    def __init__(self) -> None:
        self._messages: asyncio.Queue[Message] = asyncio.Queue()

    def leave(self) -> None:
        self._messages.put_nowait({"type": "http.disconnect"})

    def say(self) -> None:
        self._messages.put_nowait({"type": "http.request", "body": b"", "more_body": False})

    async def receive(self) -> Message:
        return await self._messages.get()


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 10))


def future() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


def test_work_that_ends_is_not_interrupted() -> None:
    async def work() -> None: ...

    async def main() -> None:
        before = asyncio.all_tasks()
        assert await run_interruptible(work(), Client().receive, future()) is None
        assert asyncio.all_tasks() == before

    run(main())


def test_an_error_of_the_work_is_raised() -> None:
    async def work() -> None:
        raise KeyError("x")

    async def main() -> None:
        with pytest.raises(KeyError):
            await run_interruptible(work(), Client().receive, future())

    run(main())


@pytest.mark.parametrize("interruption", list(Interruption))
def test_interrupted_work_is_cancelled_and_has_ended(interruption: Interruption) -> None:
    log: list[str] = []

    async def main() -> None:
        client, shutdown = Client(), future()

        async def work() -> None:
            try:
                if interruption is Interruption.DISCONNECT:
                    client.leave()
                else:
                    shutdown.set_result(None)
                await future()
            finally:
                log.append("ended")

        assert await run_interruptible(work(), client.receive, shutdown) is interruption
        assert log == ["ended"]

    run(main())


def test_what_a_client_still_sends_is_not_a_disconnect() -> None:
    async def main() -> None:
        client = Client()

        async def work() -> None:
            for _ in range(3):
                client.say()
                await asyncio.sleep(0)

        assert await run_interruptible(work(), client.receive, future()) is None

    run(main())


def test_cancelling_the_caller_cancels_the_work() -> None:
    log: list[str] = []

    async def main() -> None:
        working = future()

        async def work() -> None:
            try:
                working.set_result(None)
                await future()
            except asyncio.CancelledError:
                log.append("cancelled")
                raise

        caller = asyncio.ensure_future(run_interruptible(work(), Client().receive, future()))
        await working
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert log == ["cancelled"]

    run(main())
