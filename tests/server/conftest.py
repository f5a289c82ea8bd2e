from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from mrs.server.app import create_app
from mrs.server.settings import ServerSettings
from tests.server.fake_engine import FakeEncoder, FakeEngine, say, served
from tests.server.live_server import LiveServer


@pytest.fixture
def engine() -> FakeEngine:
    """An engine that answers every request with "Hello"."""
    return FakeEngine(say("Hel", "lo"))


@pytest.fixture
def encoder() -> FakeEncoder:
    return FakeEncoder()


@pytest.fixture
def client(engine: FakeEngine, encoder: FakeEncoder) -> TestClient:
    """A client of the application, without a network."""
    app = create_app(served(engine, encoder), ServerSettings())
    return TestClient(app, base_url="http://127.0.0.1")


@pytest.fixture(scope="session")
def _shared_server() -> Iterator[tuple[LiveServer, FakeEngine]]:
    # A server takes a fifth of a second to stop: tests that only talk to it share one.
    engine = FakeEngine()
    with LiveServer(served(engine)) as server:
        yield server, engine


@pytest.fixture
def live(_shared_server: tuple[LiveServer, FakeEngine]) -> LiveServer:
    """The real server around `played_engine`."""
    return _shared_server[0]


@pytest.fixture
def played_engine(_shared_server: tuple[LiveServer, FakeEngine]) -> FakeEngine:
    """An engine whose part the test plays."""
    engine = _shared_server[1]
    engine.reset()
    return engine
