from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from mrs.server.app import create_app
from mrs.server.settings import ServerSettings
from tests.server.fake_engine import FakeEngine, say, served
from tests.server.live_server import LiveServer

URL = "/v1/chat/completions"
LIMIT = 200
JSON = {"content-type": "application/json"}


def body_of(size: int) -> bytes:
    """A valid request of exactly ``size`` bytes."""
    empty = json.dumps({"messages": [{"role": "user", "content": ""}]}).encode()
    return empty.replace(b'""', b'"' + b"a" * (size - len(empty)) + b'"')


@pytest.fixture
def limited() -> TestClient:
    app = create_app(served(FakeEngine(say("ok"))), ServerSettings(max_body_bytes=LIMIT))
    return TestClient(app, base_url="http://127.0.0.1")


def test_a_body_at_the_limit_is_taken(limited: TestClient) -> None:
    assert limited.post(URL, content=body_of(LIMIT), headers=JSON).status_code == 200


def test_an_announced_body_above_the_limit_is_413(limited: TestClient) -> None:
    reply = limited.post(URL, content=body_of(LIMIT + 1), headers=JSON)
    assert reply.status_code == 413
    assert reply.json()["error"]["code"] == "request_too_large"
    assert "200 bytes" in reply.json()["error"]["message"]


def test_an_unannounced_body_is_counted_while_it_is_read() -> None:
    settings = ServerSettings(max_body_bytes=LIMIT)
    server = LiveServer(served(FakeEngine(say("ok"))), settings)
    with server, server.connect() as connection:
        connection.send(
            f"POST {URL} HTTP/1.1",
            "Host: 127.0.0.1",
            "Content-Type: application/json",
            "Transfer-Encoding: chunked",
        )
        # The body never ends: only a server that counts can answer.
        connection.socket.sendall(b"c8\r\n" + b" " * 200 + b"\r\n" + b"1\r\n \r\n")
        assert connection.read_json()[0] == 413


def test_an_absurd_length_is_refused(live: LiveServer) -> None:
    with live.connect() as connection:
        connection.send(
            f"POST {URL} HTTP/1.1",
            "Host: 127.0.0.1",
            "Content-Type: application/json",
            f"Content-Length: {2**63}",
        )
        assert connection.read_head()[0] == 413


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON",
        "application/x+json",
    ],
)
def test_json_content_types_pass(client: TestClient, content_type: str) -> None:
    reply = client.post(URL, content=body_of(100), headers={"content-type": content_type})
    assert reply.status_code == 200


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_types_that_a_browser_sends_unasked_are_refused(
    client: TestClient, content_type: str
) -> None:
    def unsized() -> Iterator[bytes]:
        yield body_of(100)

    reply = client.post(URL, content=unsized(), headers={"content-type": content_type})
    assert reply.status_code == 400
    assert reply.json()["error"]["code"] == "invalid_content_type"
    assert "Content-Type: application/json" in reply.json()["error"]["message"]
