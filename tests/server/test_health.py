from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from mrs import __version__
from tests.server.fake_engine import FakeEngine


@pytest.mark.parametrize("path", ["/", "/health"])
def test_health_tells_the_model_and_the_load(client: TestClient, path: str) -> None:
    reply = client.get(path)
    assert reply.status_code == 200
    assert reply.json() == {
        "status": "ok",
        "version": __version__,
        "model": "tiny/fake",
        "max_model_len": 128,
        "running": 1,
        "waiting": 2,
        "slots": 16,
        "kv_bytes": 4096,
        "generated_tokens": 30,
        "prefilled_tokens": 40,
    }


@pytest.mark.parametrize(
    ("ready", "alive", "status"), [(False, True, "loading"), (True, False, "failed")]
)
def test_probes_see_that_requests_are_not_taken(
    client: TestClient, engine: FakeEngine, ready: bool, alive: bool, status: str
) -> None:
    engine.ready, engine.alive = ready, alive
    for path in ("/health", "/health/ready"):
        reply = client.get(path)
        assert reply.status_code == 503
        assert reply.json()["status"] == status


def test_a_process_that_answers_is_live(client: TestClient, engine: FakeEngine) -> None:
    engine.ready = False
    assert client.get("/health/live").status_code == 200


def test_an_engine_that_died_asks_for_a_restart(client: TestClient, engine: FakeEngine) -> None:
    engine.ready = engine.alive = False
    reply = client.get("/health/live")
    assert (reply.status_code, reply.json()) == (503, {"status": "failed"})


def test_a_step_that_does_not_end_is_told(client: TestClient, engine: FakeEngine) -> None:
    engine.ready, engine.stalled = False, True
    reply = client.get("/health/ready")
    assert (reply.status_code, reply.json()["status"]) == (503, "stalled")
    assert client.get("/health/live").status_code == 200
