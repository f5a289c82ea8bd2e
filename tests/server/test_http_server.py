from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mrs.errors import UsageError
from mrs.server.app import create_app
from mrs.server.http_server import HttpServer, bind, url_of
from mrs.server.lifecycle import Lifecycle
from mrs.server.settings import ServerSettings
from tests.server.fake_engine import TIMEOUT, FakeEngine, end, served, token
from tests.server.live_server import Connection, LiveServer, events


class TestBind:
    def test_port_0_takes_a_free_one(self) -> None:
        with bind("127.0.0.1", 0) as bound:
            assert url_of(bound) == f"http://127.0.0.1:{bound.getsockname()[1]}"
            assert bound.getsockname()[1] > 0

    def test_a_port_in_use_is_named(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            with pytest.raises(UsageError, match=f"Port {port} on 127.0.0.1 is in use") as caught:
                bind("127.0.0.1", port)
        assert "--port" in caught.value.hint

    @pytest.mark.parametrize("host", ["no such host", "256.1.1.1", "x" * 300, "203.0.113.1", "\0"])
    def test_a_host_that_is_not_ours_is_named(self, host: str) -> None:
        with pytest.raises(UsageError) as caught:
            bind(host, 0)
        assert repr(host) in caught.value.message

    def test_the_url_of_all_addresses_is_reachable(self) -> None:
        with bind("0.0.0.0", 0) as bound:
            assert url_of(bound).startswith("http://127.0.0.1:")

    def test_ipv6_urls_have_brackets(self) -> None:
        try:
            bound = bind("::1", 0)
        except UsageError:
            pytest.skip("no IPv6 here")
        with bound:
            assert url_of(bound).startswith("http://[::1]:")


def test_a_port_that_was_taken_meanwhile_is_named() -> None:
    # Both sockets are bound, as by two servers that load their models; one listens first.
    engine = FakeEngine()
    lifecycle = Lifecycle(engine)
    with bind("127.0.0.1", 0) as late:
        port = late.getsockname()[1]
        with bind("127.0.0.1", port) as early:
            early.listen()
            app = create_app(served(engine), ServerSettings(), lifecycle)
            server = HttpServer(app, lifecycle, on_ready=lambda: server.stop())
            with pytest.raises(UsageError, match=f"Port {port} on 127.0.0.1 is in use"):
                server.run([late])


def test_a_server_that_cannot_be_announced_ends_with_the_reason() -> None:
    engine = FakeEngine()
    lifecycle = Lifecycle(engine)

    def fail() -> None:
        raise OSError("nowhere to write to")

    with bind("127.0.0.1", 0) as bound:
        app = create_app(served(engine), ServerSettings(), lifecycle)
        with pytest.raises(OSError, match="nowhere to write to"):
            HttpServer(app, lifecycle, on_ready=fail).run([bound])


def test_ready_is_announced_when_the_engine_is_warm() -> None:
    engine = FakeEngine()
    engine.ready = False
    server = LiveServer(served(engine))
    server.start()
    try:
        with server.connect() as connection:
            connection.get("/health/ready")
            assert connection.read_json()[0] == 503
            assert not server.ready.is_set()
            engine.ready = True
            assert server.ready.wait(TIMEOUT)
            connection.get("/health/ready")
            assert connection.read_json()[0] == 200
    finally:
        server.close()


class TestDraining:
    """After the first stop."""

    def test_running_requests_finish_and_new_ones_are_refused(self) -> None:
        engine = FakeEngine()
        with LiveServer(served(engine)) as server:
            with server.connect() as running, server.connect() as probe:
                running.post_chat(stream=True)
                generation = engine.next_stream()
                generation.push(token("one"))
                running.read_head()
                chunks = running.read_chunks()
                first = next(chunks)
                server.stop()
                assert engine.drained.wait(TIMEOUT)

                probe.get("/health/ready")
                assert probe.read_json()[2] == {"status": "draining"}
                probe.get("/health/live")
                assert probe.read_json()[0] == 200
                with server.connect() as late:
                    late.post_chat()
                    status, headers, body = late.read_json()
                assert status == 503
                assert headers["connection"] == "close"
                assert body["error"]["code"] == "shutting_down"

                generation.push(token(" two"), end())
                generation.finish()
                assert events(first + b"".join(chunks))[-1] == "[DONE]"
                assert running.at_end()
            server.join()
        assert not server.server.stopped_at_once

    def test_a_request_that_outlasts_the_timeout_ends_with_an_error(self) -> None:
        engine = FakeEngine()
        with LiveServer(served(engine), drain_timeout=0.01) as server:
            with server.connect() as streaming, server.connect() as collecting:
                streaming.post_chat(stream=True)
                generation = engine.next_stream()
                generation.push(token("one"))
                streaming.read_head()
                chunks = streaming.read_chunks()
                first = next(chunks)
                collecting.post_chat()
                other = engine.next_stream()
                server.stop()
                *_, last = events(first + b"".join(chunks))
                assert json.loads(last)["error"]["code"] == "shutting_down"
                assert collecting.read_json()[0] == 503
            server.join()
        assert generation.cancelled.is_set()
        assert other.cancelled.is_set()

    def test_an_idle_server_stops_although_connections_are_open(self) -> None:
        with LiveServer(served(FakeEngine())) as server, server.connect() as idle:
            idle.get("/health/live")
            idle.read_json()
            server.stop()
            assert idle.at_end()
            server.join()

    def test_a_second_stop_ends_what_runs(self) -> None:
        engine = FakeEngine()
        with LiveServer(served(engine), drain_timeout=3600) as server:
            with server.connect() as running:
                running.post_chat(stream=True)
                generation = engine.next_stream()
                server.stop()
                server.stop()
                assert running.read_json()[0] == 503
            server.join()
        assert generation.cancelled.is_set()
        assert server.server.stopped_at_once


@contextmanager
def server_process(drain_timeout: float) -> Iterator[tuple[subprocess.Popen[str], Connection]]:
    """A server of its own, and a connection on which a stream has begun."""
    command = [sys.executable, "-m", "tests.server.serve_fake", str(drain_timeout)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            with Connection(int(process.stdout.readline())) as connection:
                connection.post_chat(stream=True)
                assert connection.read_head()[0] == 200
                yield process, connection
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_the_process_ends_well(number: signal.Signals) -> None:
    with server_process(3600) as (process, connection):
        chunks = connection.read_chunks()
        first = next(chunks)
        process.send_signal(number)
        with Connection(connection.socket.getpeername()[1]) as probe:
            # The signal and this connection race: ask until the signal has arrived.
            for _ in range(1000):
                probe.get("/health/ready")
                if probe.read_json()[0] == 503:
                    break
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert events(first + b"".join(chunks))[-1] == "[DONE]"
        assert process.wait(TIMEOUT) == 0


def test_a_second_signal_ends_the_process_at_once() -> None:
    with server_process(3600) as (process, connection):
        process.send_signal(signal.SIGTERM)
        with Connection(connection.socket.getpeername()[1]) as probe:
            for _ in range(1000):
                probe.get("/health/ready")
                if probe.read_json()[0] == 503:
                    break
        process.send_signal(signal.SIGTERM)
        assert json.loads(events(b"".join(connection.read_chunks()))[-1]).keys() == {"error"}
        assert process.wait(TIMEOUT) == 1
