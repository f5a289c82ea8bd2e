"""A response whose work ends when its client is gone or the server must stop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mrs.errors import ShuttingDownError
from mrs.server.interruption import Interruption, run_interruptible
from mrs.server.lifecycle import Lifecycle
from mrs.server.request_context import context_of


class InterruptibleResponse(Response):
    """Computes one JSON body, for as long as somebody waits for it.

    Args:
        lifecycle: of the server.
        compute: makes the body; may raise anything of the error tree.
    """

    def __init__(self, lifecycle: Lifecycle, compute: Callable[[], Awaitable[bytes]]) -> None:
        super().__init__()
        self._lifecycle = lifecycle
        self._compute = compute

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request whose body has been read."""

        async def work() -> None:
            body = await self._compute()
            await Response(body, media_type="application/json")(scope, receive, send)

        with self._lifecycle.request() as shutdown:
            interruption = await run_interruptible(work(), receive, shutdown)
        if interruption is Interruption.DISCONNECT:
            context_of(scope).disconnected = True
        elif interruption is Interruption.SHUTDOWN:
            raise ShuttingDownError("The server stopped before the answer was complete.")
