from __future__ import annotations

import logging

import pytest
from starlette.testclient import TestClient

from mrs.errors import (
    ChatTemplateError,
    ContextLengthExceededError,
    EngineError,
    InvalidValueError,
    MrsError,
    QueueFullError,
    ShuttingDownError,
)
from mrs.server.errors import reply_to
from tests.server.fake_engine import FakeEncoder, FakeEngine

BODY = {"messages": [{"role": "user", "content": "a secret prompt"}]}
URL = "/v1/chat/completions"


@pytest.mark.parametrize(
    ("error", "status", "kind", "param", "code"),
    [
        (
            ContextLengthExceededError("The prompt has 200 tokens, the model takes 128."),
            400,
            "invalid_request_error",
            None,
            "context_length_exceeded",
        ),
        (
            InvalidValueError("Bad.", param="seed"),
            400,
            "invalid_request_error",
            "seed",
            "invalid_value",
        ),
        (QueueFullError("Full."), 429, "rate_limit_error", None, "queue_full"),
        (ShuttingDownError("Bye."), 503, "server_error", None, "shutting_down"),
        (EngineError("internal"), 500, "server_error", None, "internal_error"),
        (RuntimeError("internal"), 500, "server_error", None, "internal_error"),
    ],
)
def test_what_the_engine_refuses_has_its_reply(
    client: TestClient,
    engine: FakeEngine,
    error: Exception,
    status: int,
    kind: str,
    param: str | None,
    code: str,
) -> None:
    engine.refusal = error
    for stream in (False, True):
        reply = client.post(URL, json={**BODY, "stream": stream})
        assert reply.status_code == status
        assert reply.headers["content-type"] == "application/json"
        assert reply.json().keys() == {"error"}
        detail = reply.json()["error"]
        assert detail.keys() == {"message", "type", "param", "code"}
        assert (detail["type"], detail["param"], detail["code"]) == (kind, param, code)


def test_a_context_error_keeps_its_numbers(client: TestClient, engine: FakeEngine) -> None:
    engine.refusal = ContextLengthExceededError("The prompt has 200 tokens, the model takes 128.")
    message = client.post(URL, json=BODY).json()["error"]["message"]
    assert "200" in message
    assert "128" in message


def test_a_full_queue_says_when_to_retry(client: TestClient, engine: FakeEngine) -> None:
    engine.refusal = QueueFullError("Full.", retry_after=7)
    assert client.post(URL, json=BODY).headers["retry-after"] == "7"


def test_a_server_that_stops_closes_the_connection(client: TestClient, engine: FakeEngine) -> None:
    engine.refusal = ShuttingDownError("Bye.")
    assert client.post(URL, json=BODY).headers["connection"] == "close"


def test_a_template_error_is_the_clients(client: TestClient, encoder: FakeEncoder) -> None:
    encoder.error = ChatTemplateError("Roles must alternate.", hint="Merge them.")
    reply = client.post(URL, json=BODY)
    assert reply.status_code == 400
    assert reply.json()["error"] == {
        "message": "Roles must alternate. Merge them.",
        "type": "invalid_request_error",
        "param": "messages",
        "code": "chat_template_error",
    }


def test_a_failure_tells_the_client_an_id_and_the_log_the_rest(
    client: TestClient, encoder: FakeEncoder, caplog: pytest.LogCaptureFixture
) -> None:
    encoder.error = ValueError("address 0x7f00")
    reply = client.post(URL, json=BODY, headers={"x-request-id": "trace-1"})
    assert reply.status_code == 500
    assert "trace-1" in reply.json()["error"]["message"]
    assert "0x7f00" not in reply.text
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "trace-1" in record.getMessage()
    assert record.exc_info is not None
    assert "0x7f00" in str(record.exc_info[1])


def test_other_errors_of_ours_are_not_the_clients_to_see() -> None:
    class DiskError(MrsError):
        code = "disk"

    assert "/secret/path" not in reply_to(DiskError("/secret/path"), "id").message


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize("path", ["/v1/nothing", "/v1/chat/completions/", "/v2", "/health/"])
def test_unknown_urls_are_404(client: TestClient, method: str, path: str) -> None:
    reply = client.request(method, path)
    assert reply.status_code == 404
    assert reply.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/chat/completions", "/v1/chat/completions"),
        ("/v1/v1/chat/completions", "/v1/chat/completions"),
        ("/v1/v1/v1/messages", "/v1/messages"),
        ("/v1/chat/completions/", "/v1/chat/completions"),
        ("//v1/responses", "/v1/responses"),
        ("/responses/resp_1/input_items", "/v1/responses/resp_1/input_items"),
        ("/v1/health/live", "/health/live"),
    ],
)
def test_a_wrong_base_url_is_told_the_right_path(client: TestClient, path: str, meant: str) -> None:
    reply = client.post(f"http://127.0.0.1{path}")
    assert reply.status_code == 404
    assert f"nothing at this URL; {meant} is served" in reply.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/v1", "/v1/", "/v1/nothing", "/nothing", "/" + "x" * 5000])
def test_nothing_is_guessed_about_other_urls(client: TestClient, path: str) -> None:
    assert "/docs lists what there is" in client.post(path).json()["error"]["message"]


def test_wrong_methods_are_405_and_told_the_right_one(client: TestClient) -> None:
    reply = client.get(URL)
    assert reply.status_code == 405
    assert reply.headers["allow"] == "POST"
    assert reply.json()["error"]["code"] == "invalid_method"


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/v1/responses/resp_1", "DELETE, GET"),
        ("/v1/models/status", "POST"),
        ("/v1/models/a", "GET"),
    ],
)
def test_all_methods_of_a_url_are_told(client: TestClient, path: str, methods: str) -> None:
    assert client.put(path).headers["allow"] == methods
