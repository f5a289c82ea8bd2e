"""Runs the work of a request until it is done, its client is gone, or the server must stop.

Starlette never cancels a handler whose client went away, so that the loss has to be looked for:
one task per request waits for ``http.disconnect``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from enum import Enum, auto
from typing import Any

from starlette.types import Receive


class Interruption(Enum):
    """Why work ended before it was done: nobody wants it any more, or the server must stop."""

    DISCONNECT = auto()
    SHUTDOWN = auto()


async def run_interruptible(
    work: Coroutine[Any, Any, None], receive: Receive, shutdown: asyncio.Future[None]
) -> Interruption | None:
    """Run ``work`` and return what interrupted it, or None.

    The request's body must have been read. Interrupted work has been cancelled, and has ended,
    when this returns; an exception of ``work`` is raised here.
    """
    return await run_unless(work, _wait_for_disconnect(receive), shutdown)


async def run_unless(
    work: Coroutine[Any, Any, None],
    unwanted: Coroutine[Any, Any, Any],
    shutdown: asyncio.Future[None],
) -> Interruption | None:
    """The same for work without a client: ``unwanted`` ends when nobody wants it any more."""
    job = asyncio.ensure_future(work)
    client_gone = asyncio.ensure_future(unwanted)
    try:
        await asyncio.wait({job, client_gone, shutdown}, return_when=asyncio.FIRST_COMPLETED)
        if job.done():
            job.result()
            return None
        return Interruption.DISCONNECT if client_gone.done() else Interruption.SHUTDOWN
    finally:
        job.cancel()
        client_gone.cancel()
        await asyncio.gather(job, client_gone, return_exceptions=True)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
