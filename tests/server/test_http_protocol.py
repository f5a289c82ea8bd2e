from __future__ import annotations

import pytest

from mrs.server.http_server import HttpOptions
from tests.server.fake_engine import FakeEngine, say, served
from tests.server.live_server import Connection, LiveServer

LIMIT = 2000


@pytest.fixture(scope="module")
def server() -> LiveServer:  # type: ignore[misc]
    options = HttpOptions(max_head_bytes=LIMIT)
    with LiveServer(served(FakeEngine(say("x"))), options=options) as server:
        yield server


def status_after(connection: Connection) -> int:
    return connection.read_head()[0]


def test_a_head_within_the_limit_is_read(server: LiveServer) -> None:
    with server.connect() as connection:
        for _ in range(3):
            connection.get("/health/live", "X-Long: " + "a" * (LIMIT - 100))
            status, headers = connection.read_head()
            connection.file.read(int(headers["content-length"]))
            assert status == 200


@pytest.mark.parametrize(
    "header",
    ["X: " + "a" * LIMIT, "\r\n".join(f"X-{number}: {number}" for number in range(1000))],
)
def test_a_head_above_it_is_431(server: LiveServer, header: str) -> None:
    with server.connect() as connection:
        connection.get("/health/live", header)
        assert status_after(connection) == 431
        assert connection.at_end()


def test_a_target_above_it_is_431(server: LiveServer) -> None:
    with server.connect() as connection:
        connection.get("/" + "a" * LIMIT)
        assert status_after(connection) == 431


def test_a_head_that_never_ends_is_refused_before_it_does(server: LiveServer) -> None:
    with server.connect() as connection:
        connection.socket.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * LIMIT)
        assert status_after(connection) == 431


def test_a_body_does_not_count(server: LiveServer) -> None:
    with server.connect() as connection:
        connection.post_chat(user="a" * (10 * LIMIT))
        assert status_after(connection) == 200


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nHost: "])
def test_a_head_that_does_not_come_is_408(begun: bytes) -> None:
    options = HttpOptions(read_timeout=0.05)
    server = LiveServer(served(FakeEngine(say("x"))), options=options)
    with server, server.connect() as connection:
        connection.socket.sendall(begun)
        assert status_after(connection) == 408
        assert connection.at_end()


def test_no_time_runs_while_a_request_is_answered() -> None:
    engine = FakeEngine()
    options = HttpOptions(read_timeout=0.05)
    with LiveServer(served(engine), options=options) as server, server.connect() as connection:
        connection.post_chat()
        stream = engine.next_stream()
        with server.connect() as other:  # Refused by the clock, which therefore has run.
            assert status_after(other) == 408
        stream.finish()
        assert status_after(connection) == 500


def test_what_is_no_http_is_400(server: LiveServer) -> None:
    with server.connect() as connection:
        connection.socket.sendall(b"\x16\x03\x01 nonsense\r\n\r\n")
        assert status_after(connection) == 400
