"""Responses that outlive the connection that asked for them, over a real server."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from mrs.server.responses.database import ResponseDatabase
from mrs.server.settings import ServerSettings
from tests.server.fake_engine import TIMEOUT, FakeEngine, end, failure, served, token
from tests.server.live_server import Connection, LiveServer
from tests.server.responses.events import check_grammar, kinds, parse_events


def post(server: LiveServer, path: str = "", **fields: Any) -> tuple[int, Any]:
    with server.connect() as connection:
        body = json.dumps(fields).encode()
        connection.post(f"/v1/responses{path}", body)
        status, _, reply = connection.read_json()
    return status, reply


def get(server: LiveServer, response_id: str) -> tuple[int, Any]:
    with server.connect() as connection:
        connection.get(f"/v1/responses/{response_id}")
        status, _, reply = connection.read_json()
    return status, reply


def poll(server: LiveServer, response_id: str, *statuses: str) -> Any:
    deadline = time.monotonic() + TIMEOUT
    while True:
        _, reply = get(server, response_id)
        if reply["status"] in statuses:
            return reply
        assert time.monotonic() < deadline, reply["status"]


def begin(server: LiveServer, **fields: Any) -> Any:
    status, reply = post(server, input="Hi", background=True, **fields)
    assert status == 200, reply
    return reply


def follow(server: LiveServer, response_id: str, after: int | None = None) -> Connection:
    connection = server.connect()
    more = "" if after is None else f"&starting_after={after}"
    connection.get(f"/v1/responses/{response_id}?stream=true{more}")
    assert connection.read_head()[0] == 200
    return connection


def rest(connection: Connection) -> list[dict[str, Any]]:
    return parse_events(b"".join(connection.read_chunks()))


class TestPolling:
    def test_queued_then_in_progress_then_completed(
        self, live: LiveServer, played_engine: FakeEngine
    ) -> None:
        begun = begin(live, metadata={"a": "b"})
        assert begun["status"] == "queued"
        assert begun["background"] is True
        assert get(live, begun["id"])[1] == begun
        generation = played_engine.next_stream()
        generation.push(token("Hel"))
        running = poll(live, begun["id"], "in_progress")
        generation.push(token("lo"), end())
        generation.finish()
        done = poll(live, begun["id"], "completed")
        assert done["output_text"] == "Hello"
        assert done["metadata"] == {"a": "b"}
        assert done["id"] == running["id"]

    def test_a_failure_of_the_engine_is_a_failed_response(
        self, live: LiveServer, played_engine: FakeEngine
    ) -> None:
        begun = begin(live)
        generation = played_engine.next_stream()
        generation.push(token("a"))
        generation.push(failure(RuntimeError("secret")))
        failed = poll(live, begun["id"], "failed")
        assert failed["error"]["code"] == "server_error"
        assert "secret" not in str(failed)
        assert failed["output"][0]["status"] == "incomplete"

    def test_what_the_engine_refuses_is_told_at_once(
        self, live: LiveServer, played_engine: FakeEngine
    ) -> None:
        status, _ = post(live, input="Hi", background=True, model="unknown")
        assert status == 404

    def test_it_cannot_be_gone_on_from_before_its_end(
        self, live: LiveServer, played_engine: FakeEngine
    ) -> None:
        begun = begin(live)
        status, reply = post(live, input="Two", previous_response_id=begun["id"])
        assert status == 400
        assert reply["error"]["code"] == "previous_response_unfinished"
        post(live, f"/{begun['id']}/cancel")


class TestCancelling:
    def test_it_stops_the_engine(self, live: LiveServer, played_engine: FakeEngine) -> None:
        begun = begin(live)
        generation = played_engine.next_stream()
        generation.push(token("a"))
        poll(live, begun["id"], "in_progress")
        status, cancelled = post(live, f"/{begun['id']}/cancel")
        assert status == 200
        assert generation.cancelled.is_set()
        assert cancelled["status"] == "cancelled"
        assert cancelled["output_text"] == "a"
        assert get(live, begun["id"])[1] == cancelled

    def test_again_changes_nothing(self, live: LiveServer, played_engine: FakeEngine) -> None:
        begun = begin(live)
        first = post(live, f"/{begun['id']}/cancel")
        assert post(live, f"/{begun['id']}/cancel") == first

    def test_after_the_end_changes_nothing(
        self, live: LiveServer, played_engine: FakeEngine
    ) -> None:
        begun = begin(live)
        generation = played_engine.next_stream()
        generation.push(token("a"), end())
        generation.finish()
        done = poll(live, begun["id"], "completed")
        assert post(live, f"/{begun['id']}/cancel") == (200, done)

    def test_followers_hear_of_it(self, live: LiveServer, played_engine: FakeEngine) -> None:
        begun = begin(live)
        with follow(live, begun["id"]) as follower:
            post(live, f"/{begun['id']}/cancel")
            final = check_grammar(rest(follower))
        assert final["status"] == "cancelled"

    def test_deleting_it_stops_the_engine_too(
        self, live: LiveServer, played_engine: FakeEngine
    ) -> None:
        begun = begin(live)
        generation = played_engine.next_stream()
        with live.connect() as connection:
            connection.send(f"DELETE /v1/responses/{begun['id']} HTTP/1.1", "Host: 127.0.0.1")
            assert connection.read_json()[0] == 200
        assert generation.cancelled.is_set()
        assert get(live, begun["id"])[0] == 404


class TestFollowing:
    def test_a_stream_in_the_background(self, live: LiveServer, played_engine: FakeEngine) -> None:
        with live.connect() as connection:
            body = json.dumps({"input": "Hi", "background": True, "stream": True}).encode()
            connection.post("/v1/responses", body)
            generation = played_engine.next_stream()
            generation.push(token("a"), end())
            generation.finish()
            assert connection.read_head()[0] == 200
            events = rest(connection)
        assert kinds(events)[:3] == ["created", "queued", "in_progress"]
        final = check_grammar(events)
        assert get(live, final["id"])[1] == final

    def test_who_leaves_can_come_back(self, live: LiveServer, played_engine: FakeEngine) -> None:
        with live.connect() as connection:
            body = json.dumps({"input": "Hi", "background": True, "stream": True}).encode()
            connection.post("/v1/responses", body)
            generation = played_engine.next_stream()
            generation.push(token("a"))
            connection.read_head()
            seen = b""
            for chunk in connection.read_chunks():
                seen += chunk
                if b"text.delta" in chunk:
                    break
        before = parse_events(seen)
        assert not generation.cancelled.is_set()
        with follow(live, before[0]["response"]["id"], len(before) - 1) as connection:
            generation.push(token("b"), end())
            generation.finish()
            after = rest(connection)
        assert not generation.cancelled.is_set()
        final = check_grammar(before + after)
        assert final["output_text"] == "ab"
        # And when it is over, all of it comes from the store.
        with follow(live, final["id"]) as connection:
            assert rest(connection) == before + after

    def test_any_response_in_the_background_can_be_followed(
        self, live: LiveServer, played_engine: FakeEngine
    ) -> None:
        begun = begin(live)
        with follow(live, begun["id"]) as one, follow(live, begun["id"]) as other:
            generation = played_engine.next_stream()
            generation.push(token("a"), end())
            generation.finish()
            assert rest(one) == rest(other)


class TestAClientThatLeaves:
    def test_a_stream_is_cancelled_and_kept(
        self, live: LiveServer, played_engine: FakeEngine
    ) -> None:
        with live.connect() as connection:
            connection.post("/v1/responses", b'{"input": "Hi", "stream": true}')
            generation = played_engine.next_stream()
            generation.push(token("a"))
            connection.read_head()
            seen = b""
            for chunk in connection.read_chunks():
                seen += chunk
                if b"text.delta" in chunk:
                    break
        response_id = parse_events(seen)[0]["response"]["id"]
        assert generation.cancelled.wait(TIMEOUT)
        deadline = time.monotonic() + TIMEOUT
        while (found := get(live, response_id)[1]).get("status") != "cancelled":
            assert time.monotonic() < deadline, found
        assert found["output_text"] == "a"

    def test_a_stream_can_be_looked_at_while_it_runs(
        self, live: LiveServer, played_engine: FakeEngine
    ) -> None:
        with live.connect() as connection:
            connection.post("/v1/responses", b'{"input": "Hi", "stream": true}')
            generation = played_engine.next_stream()
            connection.read_head()
            (created, _) = parse_events(next(connection.read_chunks()))
            status, running = get(live, created["response"]["id"])
            assert (status, running["status"]) == (200, "in_progress")
            assert post(live, f"/{running['id']}/cancel")[0] == 400
            generation.push(end())
            generation.finish()

    def test_a_whole_response_is_cancelled(
        self, live: LiveServer, played_engine: FakeEngine
    ) -> None:
        with live.connect() as connection:
            connection.post("/v1/responses", b'{"input": "Hi"}')
            generation = played_engine.next_stream()
        assert generation.cancelled.wait(TIMEOUT)


def test_who_leaves_before_hearing_of_it_leaves_nothing_running(
    live: LiveServer, played_engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    storing, go_on, stored = threading.Event(), threading.Event(), []
    put = ResponseDatabase.put

    def slow_put(database: ResponseDatabase, record: Any) -> None:
        storing.set()
        assert go_on.wait(TIMEOUT)
        put(database, record)
        stored.append(record.resource["id"])

    monkeypatch.setattr(ResponseDatabase, "put", slow_put)
    with live.connect() as connection:
        connection.post("/v1/responses", b'{"input": "Hi", "background": true}')
        generation = played_engine.next_stream()
        assert storing.wait(TIMEOUT)
    assert generation.cancelled.wait(TIMEOUT)
    go_on.set()
    # Waits for its turn at the store.
    get(live, "resp_other")
    assert len(stored) == 1
    assert get(live, stored[0])[0] == 404


@pytest.fixture
def own_engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def own_server(own_engine: FakeEngine, tmp_path: Any) -> Iterator[LiveServer]:
    settings = ServerSettings(responses_db=tmp_path / "responses.db")
    server = LiveServer(served(own_engine), settings)
    server.start()
    assert server.ready.wait(TIMEOUT)
    yield server
    server.close()


class TestStopping:
    def test_the_server_finishes_what_runs_in_the_background(
        self, own_server: LiveServer, own_engine: FakeEngine, tmp_path: Any
    ) -> None:
        begun = begin(own_server)
        generation = own_engine.next_stream()
        own_server.stop()
        assert own_engine.drained.wait(TIMEOUT)
        generation.push(token("a"), end())
        generation.finish()
        own_server.join()
        found = ResponseDatabase(tmp_path / "responses.db").get(begun["id"], "")
        assert found is not None
        assert found.resource["status"] == "completed"

    def test_a_second_stop_fails_it(
        self, own_server: LiveServer, own_engine: FakeEngine, tmp_path: Any
    ) -> None:
        begun = begin(own_server)
        generation = own_engine.next_stream()
        generation.push(token("a"))
        poll(own_server, begun["id"], "in_progress")
        own_server.stop()
        own_server.stop()
        own_server.join()
        assert generation.cancelled.is_set()
        found = ResponseDatabase(tmp_path / "responses.db").get(begun["id"], "")
        assert found is not None
        assert found.resource["status"] == "failed"
        assert "stopped" in found.resource["error"]["message"]
        assert found.resource["output_text"] == "a"


def test_a_full_disk_is_an_error_and_not_a_silent_loss(
    live: LiveServer, played_engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sqlite3

    def full(*_: Any) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    monkeypatch.setattr(ResponseDatabase, "put", full)
    with live.connect() as connection:
        connection.post("/v1/responses", b'{"input": "Hi", "stream": true}')
        generation = played_engine.next_stream()
        generation.push(token("a"), end())
        generation.finish()
        connection.read_head()
        final = check_grammar(rest(connection))
    assert final["status"] == "failed"
    assert "disk is full" in final["error"]["message"]
    assert final["output_text"] == "a"
    status, reply = post(live, input="Hi", background=True)
    assert status == 500
    assert reply["error"]["code"] == "response_store_failed"
    assert played_engine.next_stream().cancelled.wait(TIMEOUT)
