from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from mrs.server.app import create_app
from mrs.server.host_check import host_name
from mrs.server.settings import ServerSettings
from tests.server.fake_engine import FakeEngine, served
from tests.server.live_server import LiveServer


@pytest.mark.parametrize(
    ("header", "host"),
    [
        ("localhost", "localhost"),
        ("LOCALHOST:80", "localhost"),
        ("127.0.0.1:65535", "127.0.0.1"),
        ("[::1]:1234", "[::1]"),
        ("[::1]", "[::1]"),
        ("::1", "::1"),
        ("evil.example:80:80", "evil.example:80:80"),
        ("localhost:evil", "localhost:evil"),
        ("", ""),
    ],
)
def test_the_port_is_not_part_of_the_name(header: str, host: str) -> None:
    assert host_name(header) == host


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1234", "[::1]:9", "LocalHost:1234"])
def test_loopback_names_pass(client: TestClient, host: str) -> None:
    assert client.get("/health/live", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example:1234", "127.0.0.1.evil.example", "0.0.0.0"]
)
def test_other_names_are_forbidden(client: TestClient, host: str) -> None:
    reply = client.get("/health/live", headers={"host": host})
    assert reply.status_code == 403
    assert reply.json()["error"]["type"] == "permission_error"
    assert reply.json()["error"]["code"] == "host_not_allowed"


def test_a_foreign_host_reaches_no_engine(client: TestClient, engine: FakeEngine) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}]}
    client.post("/v1/chat/completions", json=body, headers={"host": "evil.example"})
    assert not engine.requests


def test_no_or_two_host_headers_are_forbidden(live: LiveServer) -> None:
    for hosts in ([], ["Host: 127.0.0.1", "Host: evil.example"]):
        with live.connect() as connection:
            connection.send("GET /health/live HTTP/1.0", *hosts)
            assert connection.read_head()[0] == 403


def test_more_names_can_be_allowed() -> None:
    settings = ServerSettings(allowed_hosts=frozenset({"models.example"}))
    client = TestClient(create_app(served(FakeEngine()), settings))
    assert client.get("/health/live", headers={"host": "models.example:8"}).status_code == 200
    assert client.get("/health/live", headers={"host": "localhost"}).status_code == 403


def test_the_check_can_be_left_to_a_proxy() -> None:
    client = TestClient(create_app(served(FakeEngine()), ServerSettings(allowed_hosts=None)))
    assert client.get("/health/live", headers={"host": "any.example"}).status_code == 200


def test_other_origins_get_no_permission(client: TestClient) -> None:
    preflight = client.options(
        "/v1/chat/completions",
        headers={"origin": "https://evil.example", "access-control-request-method": "POST"},
    )
    reply = client.get("/v1/models", headers={"origin": "https://evil.example"})
    assert preflight.status_code == 405
    for headers in (preflight.headers, reply.headers):
        assert not [name for name in headers if name.startswith("access-control-")]
