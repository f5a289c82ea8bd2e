from __future__ import annotations

import json
import logging
import queue
import re
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from mrs.server.app import create_app
from mrs.server.json_log import JsonFormatter
from mrs.server.settings import ServerSettings
from tests.server.fake_engine import TIMEOUT, FakeEngine, say, served
from tests.server.live_server import LiveServer

URL = "/v1/chat/completions"
BODY = {"messages": [{"role": "user", "content": "secret"}]}


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "mrs.server")
    return caplog


@pytest.mark.parametrize("stream", [False, True])
def test_a_line_tells_method_path_status_time_tokens_and_id(
    client: TestClient, log: pytest.LogCaptureFixture, stream: bool
) -> None:
    client.post(URL, json={**BODY, "stream": stream}, headers={"x-request-id": "abc"})
    line = r"POST /v1/chat/completions 200 \d+\.\d ms prompt=6 completion=3 model=tiny/fake id=abc"
    (message,) = [record.message for record in log.records if record.name.startswith("mrs")]
    assert re.fullmatch(line, message)


def test_neither_prompt_nor_answer_is_logged(
    client: TestClient, log: pytest.LogCaptureFixture
) -> None:
    client.post(URL, json=BODY)
    client.post(URL, json={**BODY, "temperature": 9})
    assert len([record for record in log.records if record.name.startswith("mrs")]) == 2
    assert "secret" not in log.text
    assert "Hel" not in log.text


def test_housekeeping_is_quiet(client: TestClient, log: pytest.LogCaptureFixture) -> None:
    for path in ("/", "/health", "/health/live", "/health/ready", "/v1/models", "/docs"):
        assert client.get(path).status_code == 200
    assert not [record for record in log.records if record.name.startswith("mrs")]


def test_a_path_cannot_forge_a_line(client: TestClient, log: pytest.LogCaptureFixture) -> None:
    client.get("/x%0d%0aGET%20/admin%20200%1b[31m")
    (record,) = [record for record in log.records if record.name.startswith("mrs")]
    assert record.getMessage().isascii()
    assert record.getMessage().isprintable()


def test_a_long_path_is_cut(client: TestClient, log: pytest.LogCaptureFixture) -> None:
    client.get("/" + "a" * 5000)
    (record,) = [record for record in log.records if record.name.startswith("mrs")]
    assert len(record.getMessage()) < 300


@pytest.mark.parametrize("given", ["a", "A-b_c.9", "x" * 128])
def test_a_request_id_is_echoed(client: TestClient, given: str) -> None:
    assert client.get("/health", headers={"x-request-id": given}).headers["x-request-id"] == given


@pytest.mark.parametrize("given", ["", "x" * 129, "a b", "a;b", "\x1b[31m", "ü", 'a"b', "a\n"])
def test_other_request_ids_are_replaced(client: TestClient, given: str) -> None:
    reply = client.get("/health", headers={b"x-request-id": given.encode("latin-1")})
    assert re.fullmatch(r"[0-9a-f]{32}", reply.headers["x-request-id"])


def test_each_request_has_its_own_id(client: TestClient) -> None:
    ids = {client.get("/nowhere").headers["x-request-id"] for _ in range(3)}
    assert len(ids) == 3


def test_a_streams_headers_hold_the_id() -> None:
    body = b'{"messages":[{"role":"user","content":"x"}],"stream":true}'
    with LiveServer(served(FakeEngine(say("a")))) as server, server.connect() as connection:
        connection.post(URL, body, "X-Request-Id: mine")
        assert connection.read_head()[1]["x-request-id"] == "mine"


@pytest.fixture
def lines() -> Iterator[queue.Queue[str]]:
    """The lines of the log, to be waited for."""
    lines: queue.Queue[str] = queue.Queue()

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.put(record.getMessage())

    logger, collector = logging.getLogger("mrs.server.access_log"), Collector()
    logger.addHandler(collector)
    logger.setLevel(logging.INFO)
    yield lines
    logger.removeHandler(collector)
    logger.setLevel(logging.NOTSET)


def test_a_client_that_leaves_before_its_answer_is_a_499(
    live: LiveServer, played_engine: FakeEngine, lines: queue.Queue[str]
) -> None:
    with live.connect() as connection:
        connection.post_chat(stream=True)
        played_engine.next_stream()
    assert lines.get(timeout=TIMEOUT).startswith("POST /v1/chat/completions 499 ")


def test_a_client_that_leaves_within_its_request_is_a_499(
    live: LiveServer, lines: queue.Queue[str]
) -> None:
    with live.connect() as connection:
        connection.send(
            f"POST {URL} HTTP/1.1",
            "Host: 127.0.0.1",
            "Content-Type: application/json",
            "Content-Length: 100",
            body=b"{",
        )
    assert lines.get(timeout=TIMEOUT).startswith("POST /v1/chat/completions 499 ")


def test_a_trace_of_the_clients_is_named(client: TestClient, log: pytest.LogCaptureFixture) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    client.post(URL, json=BODY, headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"})
    (record,) = [record for record in log.records if record.name.startswith("mrs")]
    assert record.getMessage().endswith(f" trace={trace}")


def test_a_json_line_holds_the_facts(client: TestClient, log: pytest.LogCaptureFixture) -> None:
    client.post(URL, json=BODY, headers={"x-request-id": "abc"})
    (record,) = [record for record in log.records if record.name.startswith("mrs")]
    line = json.loads(JsonFormatter().format(record))
    assert (line["method"], line["path"], line["status"]) == ("POST", URL, 200)
    assert (line["prompt"], line["completion"], line["id"]) == (6, 3, "abc")
    assert line["level"] == "info"


def test_the_log_can_be_off(log: pytest.LogCaptureFixture) -> None:
    app = create_app(served(FakeEngine(say("a"))), ServerSettings(access_log=False))
    TestClient(app, base_url="http://127.0.0.1").post(URL, json=BODY)
    assert not [record for record in log.records if record.name.startswith("mrs")]
