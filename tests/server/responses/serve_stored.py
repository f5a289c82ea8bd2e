"""A server process with a file of responses.

Run it by ``python -m tests.server.responses.serve_stored FILE``.

It prints its port when it is ready. What is asked "for ever" gets one token and no end; all else is
answered with "Hello".
"""

from __future__ import annotations

import sys
from pathlib import Path

from mrs.runtime.generation import GenerationRequest
from mrs.server.app import create_app
from mrs.server.http_server import HttpServer, bind
from mrs.server.lifecycle import Lifecycle
from mrs.server.settings import ServerSettings
from tests.server.fake_engine import FakeEngine, FakeStream, end, served, token


class HelloEngine(FakeEngine):
    def submit(self, request: GenerationRequest) -> FakeStream:
        stream = super().submit(request)
        stream.push(token("Hello"))
        if not "".join(map(chr, request.prompt_ids)).endswith("for ever"):
            stream.push(end())
            stream.finish()
        return stream


def main() -> None:
    engine = HelloEngine()
    lifecycle = Lifecycle(engine)
    bound = bind("127.0.0.1", 0)
    app = create_app(served(engine), ServerSettings(responses_db=Path(sys.argv[1])), lifecycle)
    port = bound.getsockname()[1]
    HttpServer(app, lifecycle, on_ready=lambda: print(port, flush=True)).run([bound])


if __name__ == "__main__":
    main()
