"""What others were hurt by, one test each; each names its case."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from mrs.server.access_keys import AccessPolicy, KeyRing, access_key
from mrs.server.app import create_app
from mrs.server.model_names import ModelNames
from mrs.server.resident_models import ResidentModels
from mrs.server.settings import ServerSettings
from tests.server.fake_engine import FakeEngine, failure, say, served
from tests.server.fake_models import FakeSource
from tests.server.live_server import LiveServer

CHAT = "/v1/chat/completions"
BODY: dict[str, Any] = {"messages": [{"role": "user", "content": "x"}]}


@pytest.mark.parametrize("operation", ["status", "unload", "reload"])
@pytest.mark.parametrize("kind", ["path", "parent", "url"])
def test_administration_takes_names_and_neither_paths_nor_urls(
    tmp_path: Path, operation: str, kind: str
) -> None:
    """Triton's model API (CVE-2026-24208), TorchServe's management API (CVE-2023-43654)."""
    source = FakeSource("chat")
    models = ResidentModels([source], ModelNames([source.description]))
    client = TestClient(create_app(models, ServerSettings()), base_url="http://127.0.0.1")
    name = {"path": str(tmp_path), "parent": "../chat", "url": "http://169.254.169.254/"}[kind]
    reply = client.post(f"/v1/models/{operation}", json={"model_id": name})
    assert (reply.status_code, reply.json()["status"]) == (404, "not_found")
    assert source.loads == 0


def test_a_failure_tells_nothing_of_the_inside(engine: FakeEngine, client: TestClient) -> None:
    """vLLM's heap address in an error (CVE-2026-22778), Triton's memory names (CVE-2025-23320)."""
    error = RuntimeError("0x7f0000 in /opt/secret/model.onnx, shared memory triton_python_1")
    engine.script = lambda request: [(failure(error),)]
    text = client.post(CHAT, json=BODY).text
    for secret in ("0x7f", "/opt", "triton", "RuntimeError", "Traceback"):
        assert secret not in text


@pytest.mark.parametrize(
    ("path", "content"),
    [
        (CHAT, {"type": "image_url", "image_url": {"url": "URL"}}),
        ("/v1/responses", {"type": "input_image", "image_url": "URL"}),
        ("/v1/messages", {"type": "image", "source": {"type": "url", "url": "URL"}}),
    ],
    ids=["chat", "responses", "messages"],
)
def test_no_url_of_a_request_is_fetched(
    client: TestClient, path: str, content: dict[str, Any]
) -> None:
    """vLLM's media URLs (CVE-2025-6242), LiteLLM's ``api_base`` (CVE-2024-6587)."""
    with socket.create_server(("127.0.0.1", 0)) as inside:
        inside.setblocking(False)
        url = f"http://127.0.0.1:{inside.getsockname()[1]}/"
        text = json.dumps([{"role": "user", "content": [content]}]).replace("URL", url)
        body = {"messages": json.loads(text), "input": json.loads(text), "max_tokens": 16}
        del body["messages" if path == "/v1/responses" else "input"]
        if path == "/v1/responses":
            del body["max_tokens"]
        reply = client.post(path, json={"api_base": url, **body})
        assert reply.status_code == 400
        with pytest.raises(BlockingIOError):
            inside.accept()


def test_deeply_nested_json_is_400(client: TestClient) -> None:
    """Recursion in a parser ends a process."""
    depth = 100_000
    body = b'{"messages": ' + b"[" * depth + b"]" * depth + b"}"
    reply = client.post(CHAT, content=body, headers={"content-type": "application/json"})
    assert reply.status_code == 400


def test_huge_numbers_are_400(client: TestClient) -> None:
    """Converting millions of digits takes quadratic time."""
    body = b'{"messages": [{"role": "user", "content": "x"}], "seed": ' + b"9" * 1_000_000 + b"}"
    reply = client.post(CHAT, content=body, headers={"content-type": "application/json"})
    assert reply.status_code == 400
    assert len(reply.text) < 1000


def test_a_body_of_tiny_chunks_is_bounded() -> None:
    """Triton's chunked encoding (CVE-2025-23310): a body counts while it is read, in any pieces."""
    settings = ServerSettings(max_body_bytes=1000)
    with LiveServer(served(FakeEngine(say("x"))), settings) as server, server.connect() as one:
        one.send(
            f"POST {CHAT} HTTP/1.1",
            "Host: 127.0.0.1",
            "Content-Type: application/json",
            "Transfer-Encoding: chunked",
        )
        one.socket.sendall(b"1\r\n \r\n" * 1001)
        assert one.read_json()[0] == 413


def test_a_body_that_does_not_come_is_408() -> None:
    """A client that never ends holds a connection for ever (slow loris)."""
    settings = ServerSettings(read_timeout=0.05)
    with LiveServer(served(FakeEngine(say("x"))), settings) as server, server.connect() as one:
        one.send(
            f"POST {CHAT} HTTP/1.1",
            "Host: 127.0.0.1",
            "Content-Type: application/json",
            "Content-Length: 10",
        )
        status, headers, body = one.read_json()
        assert (status, body["error"]["code"]) == (408, "request_timeout")
        assert headers["connection"] == "close"


@pytest.mark.parametrize(
    "header",
    ["x-request-id: a\x1b[31mb", "x-request-id: " + "a" * 200, "traceparent: 00-\x1b]0;x-1-1"],
)
def test_what_a_client_sends_cannot_forge_a_line(
    caplog: pytest.LogCaptureFixture, header: str
) -> None:
    """llama.cpp's log injection."""
    caplog.set_level("DEBUG", "mrs")
    with LiveServer(served(FakeEngine(say("x")))) as server, server.connect() as one:
        body = json.dumps({**BODY, "model": "a\r\n2026 INFO forged \x1b[31m"}).encode()
        one.post(CHAT, body, header)
        one.read_head()
    for record in caplog.records:
        assert record.getMessage().isascii()
        assert record.getMessage().isprintable()


def test_docs_and_description_tell_no_keys_and_no_paths(tmp_path: Path) -> None:
    """What is public without a key must be harmless."""
    settings = ServerSettings(
        access=AccessPolicy(KeyRing([access_key("the-key")])), repository=tmp_path
    )
    client = TestClient(create_app(served(FakeEngine()), settings), base_url="http://127.0.0.1")
    for path in ("/", "/health", "/health/ready", "/docs", "/openapi.json"):
        text = client.get(path).text
        assert "the-key" not in text
        assert str(tmp_path) not in text
