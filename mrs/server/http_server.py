"""Runs an application on a socket, and ends it without cutting anyone off."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from mrs.errors import MrsError, UsageError
from mrs.server.http_protocol import bounded_head
from mrs.server.lifecycle import Lifecycle

logger = logging.getLogger(__name__)

# Supervisors commonly kill 30 s after they asked a process to end.
DRAIN_TIMEOUT = 25.0
_CLOSING_TIMEOUT = 5
_READY_POLL = 0.02
# Longer than clients keep idle connections, so that it is they who close them.
_IDLE_CONNECTION_TIMEOUT = 75
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def bind(host: str, port: int) -> socket.socket:
    """Reserve an address; port 0 takes any free one. Nothing listens on it yet.

    Raises:
        UsageError: the address is taken, not this machine's, or not allowed.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise UsageError(
            f"The host {host!r} is not an address of this machine.",
            hint="Use --host 127.0.0.1 for this machine alone, or 0.0.0.0 for its network.",
            param="host",
        ) from error
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise _address_error(error, host, port) from error
    return bound


@dataclass(frozen=True)
class HttpOptions:
    """How the server speaks HTTP.

    Attributes:
        drain_timeout: seconds that running requests get once it is to end.
        max_head_bytes: most bytes of a request's line and headers.
        read_timeout: seconds that they may take to arrive.
        certificate: paths of a certificate and its key, for HTTPS.
    """

    drain_timeout: float = DRAIN_TIMEOUT
    max_head_bytes: int = 64 * 1024
    read_timeout: float = 60.0
    certificate: tuple[Path, Path] | None = None


def url_of(bound: socket.socket, *, secure: bool = False) -> str:
    """Return the URL under which this machine reaches a bound socket."""
    host, port = bound.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    scheme = "https" if secure else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


class HttpServer(uvicorn.Server):
    """A uvicorn that drains.

    The first stop refuses new requests and waits for the running ones, up to a timeout; the
    listener stays open meanwhile, so that probes see that the server is not ready. The second
    stop ends them at once. SIGINT and SIGTERM stop.

    Args:
        app: the application.
        lifecycle: shared with the application.
        on_ready: called once, when the server listens and takes requests. What it raises ends the
            server and comes out of `run`.
        options: how it speaks HTTP.
    """

    def __init__(
        self,
        app: ASGIApp,
        lifecycle: Lifecycle,
        *,
        on_ready: Callable[[], None],
        options: HttpOptions | None = None,
    ) -> None:
        options = options or HttpOptions()
        certificate, key = options.certificate or (None, None)
        super().__init__(
            uvicorn.Config(
                app,
                http=bounded_head(options.max_head_bytes, options.read_timeout),
                ssl_certfile=certificate,
                ssl_keyfile=key,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=_IDLE_CONNECTION_TIMEOUT,
                timeout_graceful_shutdown=_CLOSING_TIMEOUT,
            )
        )
        self._lifecycle = lifecycle
        self._on_ready = on_ready
        self._drain_timeout = options.drain_timeout
        self._announcing: asyncio.Task[None] | None = None
        self._draining: asyncio.Task[None] | None = None

    @property
    def stopped_at_once(self) -> bool:
        """Whether running requests were cut off by a second stop."""
        return self.force_exit

    def stop(self) -> None:
        """Drain; when called again, stop at once. To be called on the event loop's thread."""
        if self._draining is None:
            logger.info("Draining: no new requests are taken, running ones are finished.")
            self._lifecycle.drain()
            self._draining = asyncio.ensure_future(self._drain())
            return
        logger.warning("Stopping at once.")
        self._lifecycle.shut_down()
        self.force_exit = self.should_exit = True

    async def _drain(self) -> None:
        try:
            await asyncio.wait_for(self._lifecycle.wait_idle(), self._drain_timeout)
        except TimeoutError:
            logger.warning("Requests still run after %g s: ending them.", self._drain_timeout)
            self._lifecycle.shut_down()
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and announce it."""
        for bound in sockets or []:
            # uvloop does not tell when its own listen fails.
            _listen(bound, self.config.backlog)
        await super().startup(sockets)
        self._announcing = asyncio.ensure_future(self._announce())
        self._announcing.add_done_callback(self._exit_unless_announced)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close all connections; raises what ``on_ready`` raised, if it did."""
        await super().shutdown(sockets)
        await self._lifecycle.close()
        if self._announcing is not None and self._announcing.done():
            self._announcing.result()

    async def _announce(self) -> None:
        while not self._lifecycle.ready:
            if self._lifecycle.draining:
                return
            await asyncio.sleep(_READY_POLL)
        self._on_ready()

    def _exit_unless_announced(self, announcing: asyncio.Task[None]) -> None:
        if not announcing.cancelled() and announcing.exception() is not None:
            self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on signals; uvicorn's own handlers would close the listener at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.stop)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)


def _listen(bound: socket.socket, backlog: int) -> None:
    try:
        bound.listen(backlog)
    except OSError as error:
        host, port = bound.getsockname()[:2]
        raise _address_error(error, host, port) from error


def _address_error(error: OSError, host: str, port: int) -> MrsError:
    if error.errno == errno.EADDRINUSE:
        return UsageError(
            f"Port {port} on {host} is in use.",
            hint="Choose another one with --port, or --port 0 for any free one.",
            param="port",
        )
    if error.errno == errno.EACCES:
        return UsageError(
            f"Port {port} on {host} is not allowed for this user.",
            hint="Choose one above 1023 with --port.",
            param="port",
        )
    return UsageError(
        f"{host!r} cannot be listened on: {error.strerror}.",
        hint="Use --host 127.0.0.1 for this machine alone, or 0.0.0.0 for its network.",
        param="host",
    )
