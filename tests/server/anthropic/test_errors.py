"""Every failure below /v1/messages has Anthropic's shape."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from mrs.server.anthropic.error_body import anthropic_error, anthropic_status
from mrs.server.app import create_app
from mrs.server.errors import ErrorReply
from mrs.server.settings import ServerSettings
from tests.server.fake_engine import FakeEngine, served


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (405, "invalid_request_error"),
        (413, "request_too_large"),
        (422, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (503, "overloaded_error"),
    ],
)
def test_each_status_has_its_type(status: int, kind: str) -> None:
    assert anthropic_error(status, "Sad.", "req") == {
        "type": "error",
        "error": {"type": kind, "message": "Sad."},
        "request_id": "req",
    }


def test_a_server_that_takes_no_requests_is_overloaded() -> None:
    assert anthropic_status(503) == 529
    assert anthropic_status(429) == 429
    assert ErrorReply(503, "No.", "server_error").response().status_code == 503


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_of_an_unknown_url(client: TestClient, method: str) -> None:
    reply = client.request(method, "/v1/messages/nowhere")
    assert reply.status_code == 404
    assert reply.json()["error"]["type"] == "not_found_error"
    assert reply.json()["request_id"] == reply.headers["request-id"]


def test_of_a_host_that_is_not_answered_for(client: TestClient) -> None:
    reply = client.post("/v1/messages", headers={"host": "evil.example"})
    assert reply.status_code == 403
    assert reply.json()["type"] == "error"
    assert reply.json()["error"]["type"] == "permission_error"


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        (b"x" * 101, 413, "request_too_large"),
        (b"{", 400, "invalid_request_error"),
        (b"[]", 400, "invalid_request_error"),
    ],
)
def test_of_a_body_that_cannot_be_read(body: bytes, status: int, kind: str) -> None:
    app = create_app(served(FakeEngine()), ServerSettings(max_body_bytes=100))
    client = TestClient(app, base_url="http://127.0.0.1")
    for url in ("/v1/messages", "/v1/messages/count_tokens"):
        reply = client.post(url, content=body, headers={"content-type": "application/json"})
        assert (reply.status_code, reply.json()["error"]["type"]) == (status, kind)
