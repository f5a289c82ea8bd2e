from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.server.fake_engine import FakeEncoder, FakeEngine, served
from tests.server.live_server import LiveServer

# As much of a template as shows which marks the model knows.
TOOLS_AND_THOUGHTS = "<tool_call> </tool_call> <think> </think> {{ tools }} {{ messages }}"

Create = Callable[..., dict[str, Any]]


@pytest.fixture
def create(client: TestClient) -> Create:
    """Create a response that is to succeed."""

    def create(said: Any = "Hi", **fields: Any) -> dict[str, Any]:
        body = fields if said is None else {"input": said, **fields}
        reply = client.post("/v1/responses", json=body)
        assert reply.status_code == 200, reply.text
        resource: dict[str, Any] = reply.json()
        return resource

    return create


@pytest.fixture
def tool_server() -> Any:
    """A real server whose model calls tools and thinks; the test plays its engine."""
    engine = FakeEngine()
    with LiveServer(served(engine, FakeEncoder(), TOOLS_AND_THOUGHTS)) as server:
        yield server, engine
