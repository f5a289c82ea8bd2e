"""A server process around a fake engine: ``python -m tests.server.serve_fake DRAIN_TIMEOUT``.

It prints its port when it is ready. Every request draws one token at once; each line on standard
input ends all that run.
"""

from __future__ import annotations

import sys
import threading

from mrs.runtime.generation import GenerationRequest
from mrs.server.app import create_app
from mrs.server.http_server import HttpOptions, HttpServer, bind
from mrs.server.lifecycle import Lifecycle
from mrs.server.settings import ServerSettings
from tests.server.fake_engine import FakeEngine, FakeStream, end, served, token


class OneTokenEngine(FakeEngine):
    def __init__(self) -> None:
        super().__init__()
        self.running: list[FakeStream] = []

    def submit(self, request: GenerationRequest) -> FakeStream:
        stream = super().submit(request)
        stream.push(token("one"))
        self.running.append(stream)
        return stream

    def finish_all(self) -> None:
        for stream in self.running:
            stream.push(end())
            stream.finish()


def main() -> int:
    engine = OneTokenEngine()
    lifecycle = Lifecycle(engine)
    bound = bind("127.0.0.1", 0)

    def read_lines() -> None:
        for _ in sys.stdin:
            engine.finish_all()

    def ready() -> None:
        threading.Thread(target=read_lines, daemon=True).start()
        print(bound.getsockname()[1], flush=True)

    app = create_app(served(engine), ServerSettings(), lifecycle)
    server = HttpServer(app, lifecycle, on_ready=ready, options=HttpOptions(float(sys.argv[1])))
    server.run([bound])
    return 1 if server.stopped_at_once else 0


if __name__ == "__main__":
    sys.exit(main())
