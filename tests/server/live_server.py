"""The real server in a thread, and a raw HTTP client that sees every byte."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from mrs.server.app import create_app
from mrs.server.http_server import HttpOptions, HttpServer, bind, url_of
from mrs.server.lifecycle import Lifecycle
from mrs.server.served_model import ServedModel
from mrs.server.settings import ServerSettings
from tests.server.fake_engine import TIMEOUT


class _ObservedServer(HttpServer):
    """Tells when it listens, and on which loop."""

    loop: asyncio.AbstractEventLoop

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.listening = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.loop = asyncio.get_running_loop()
        self.listening.set()


class LiveServer:
    """A context in which the server listens on a free port of the loopback."""

    def __init__(
        self,
        model: ServedModel,
        settings: ServerSettings | None = None,
        drain_timeout: float = TIMEOUT,
        options: HttpOptions | None = None,
    ) -> None:
        lifecycle = Lifecycle(model.engine)
        self._socket = bind("127.0.0.1", 0)
        self.url = url_of(self._socket)
        self.port: int = self._socket.getsockname()[1]
        self.ready = threading.Event()
        app = create_app(model, settings or ServerSettings(), lifecycle)
        self.server = _ObservedServer(
            app,
            lifecycle,
            on_ready=self.ready.set,
            options=options or HttpOptions(drain_timeout=drain_timeout),
        )
        self._thread = threading.Thread(target=self.server.run, args=([self._socket],))

    @property
    def thread_id(self) -> int | None:
        """The thread of the server's event loop."""
        return self._thread.ident

    def stop(self) -> None:
        """What SIGTERM does."""
        self.server.loop.call_soon_threadsafe(self.server.stop)

    def join(self) -> None:
        self._thread.join(TIMEOUT)
        assert not self._thread.is_alive()

    def start(self) -> None:
        """Listen; does not wait until the server is ready."""
        self._thread.start()
        assert self.server.listening.wait(TIMEOUT)

    def close(self) -> None:
        """Stop at once."""
        if self._thread.is_alive():
            self.stop()
            self.stop()
        self.join()

    def __enter__(self) -> LiveServer:
        self.start()
        assert self.ready.wait(TIMEOUT)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def connect(self) -> Connection:
        return Connection(self.port)


class Connection:
    """One TCP connection, spoken to in bytes."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT)
        self.file = self.socket.makefile("rb")

    def post_chat(self, **fields: Any) -> None:
        """Send a chat completion request, and read nothing."""
        body = {"messages": [{"role": "user", "content": "hi"}], **fields}
        self.post("/v1/chat/completions", json.dumps(body).encode())

    def post(self, path: str, body: bytes, *headers: str) -> None:
        self.send(
            f"POST {path} HTTP/1.1",
            "Host: 127.0.0.1",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            *headers,
            body=body,
        )

    def get(self, path: str, *headers: str) -> None:
        self.send(f"GET {path} HTTP/1.1", "Host: 127.0.0.1", *headers)

    def send(self, *lines: str, body: bytes = b"") -> None:
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + body)

    def read_head(self) -> tuple[int, dict[str, str]]:
        """Status and headers of the next response."""
        status = int(self.file.readline().split()[1])
        headers = {}
        while line := self.file.readline().strip().decode("latin-1"):
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        return status, headers

    def read_chunks(self) -> Iterator[bytes]:
        """The chunks of a chunked body, one by one."""
        while size := int(self.file.readline(), 16):
            yield self.file.read(size)
            assert self.file.read(2) == b"\r\n"
        assert self.file.readline() == b"\r\n"

    def read_json(self) -> tuple[int, dict[str, str], Any]:
        """A whole response with a JSON body of known length."""
        status, headers = self.read_head()
        return status, headers, json.loads(self.file.read(int(headers["content-length"])))

    def at_end(self) -> bool:
        """Wait for the server to close the connection."""
        return self.file.read(1) == b""

    def close(self) -> None:
        self.file.close()
        self.socket.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def events(body: bytes) -> list[str]:
    """The data of each event; comments are left out."""
    blocks = body.split(b"\n\n")
    assert blocks.pop() == b"", "the body ends inside an event"
    return [
        block.removeprefix(b"data: ").decode() for block in blocks if not block.startswith(b":")
    ]
