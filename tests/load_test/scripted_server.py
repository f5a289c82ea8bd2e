"""A server that answers every request with the bytes that a test wrote."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Reply = Callable[[dict[str, Any]], bytes]
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
MODELS = b'{"object": "list", "data": [{"id": "scripted", "object": "model"}]}'


def event(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def chunk(text: str) -> bytes:
    return event({"choices": [{"index": 0, "delta": {"content": text}}]})


def answer(*texts: str, prompt_tokens: int = 5) -> bytes:
    """A whole streamed answer, a token for each text and one that ends it."""
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": len(texts) + 1}
    first = event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
    last = event({"choices": [], "usage": usage})
    return OK + first + b"".join(map(chunk, texts)) + last + b"data: [DONE]\n\n"


class Scripted:
    """What happened.

    Attributes:
        url: of the server.
        requests: bodies, in the order in which they came.
        headers: of each request, as they were sent.
        most_at_once: requests that were being answered at the same time.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[dict[str, Any]] = []
        self.headers: list[bytes] = []
        self.most_at_once = 0


@contextmanager
def scripted_server(reply: Reply) -> Iterator[Scripted]:
    """Answer with what ``reply`` makes of each body."""
    lock = threading.Lock()
    at_once = 0

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            nonlocal at_once
            head = b"".join(iter(self.rfile.readline, b"\r\n"))
            if head.startswith(b"GET /v1/models"):
                self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n" + MODELS)
                return
            length = int(head.lower().partition(b"content-length:")[2].split()[0])
            body = json.loads(self.rfile.read(length))
            with lock:
                at_once += 1
                scripted.most_at_once = max(scripted.most_at_once, at_once)
                scripted.requests.append(body)
                scripted.headers.append(head)
            try:
                self.wfile.write(reply(body))
            finally:
                with lock:
                    at_once -= 1

    class Server(socketserver.ThreadingTCPServer):
        request_queue_size = 64
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        scripted = Scripted(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield scripted
        finally:
            server.shutdown()
            thread.join()
