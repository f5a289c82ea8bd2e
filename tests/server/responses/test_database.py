from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from mrs.errors import StorageError
from mrs.server.responses.database import ResponseDatabase, ResponseRecord, StoreLimits
from mrs.server.responses.event_log import unpack_events

Item = dict[str, Any]


def message(item_id: str, text: str, role: str = "assistant") -> Item:
    kind = "output_text" if role == "assistant" else "input_text"
    content = [{"type": kind, "text": text}]
    return {"type": "message", "id": item_id, "role": role, "content": content}


def record(
    response_id: str, asked: str = "ask", said: str = "say", **fields: Any
) -> ResponseRecord:
    resource = {
        "id": response_id,
        "status": "completed",
        "error": None,
        "output": [message(f"out_{response_id}", said)],
        "output_text": said,
        "model": "m",
    }
    return ResponseRecord(resource, inputs=[message(f"in_{response_id}", asked, "user")], **fields)


def following(
    database: ResponseDatabase, before: str, response_id: str, owner: str = ""
) -> ResponseRecord:
    found = database.get(before, owner)
    assert found is not None
    return record(response_id, owner=owner, context=[*found.context, *found.outputs])


class Clock:
    def __init__(self) -> None:
        self.time = 1_000_000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sub" / "responses.db"


def ids(items: list[Any]) -> list[str]:
    return [known.item["id"] for known in items]


@pytest.mark.parametrize("in_memory", [True, False])
def test_what_is_stored_comes_back_whole(path: Path, in_memory: bool) -> None:
    database = ResponseDatabase(None if in_memory else path)
    stored = record("resp_1", events=[b"event: a\ndata: 1\n\n", b"event: b\ndata: 2\n\n"])
    database.put(stored)
    found = database.get("resp_1", "")
    assert found is not None
    assert found.resource == stored.resource
    assert ids(found.context) == ["in_resp_1"]
    assert ids(found.outputs) == ["out_resp_1"]
    assert unpack_events(found.events or b"") == stored.events
    assert found.server is None
    assert database.get("resp_2", "") is None


def test_it_survives_a_restart(path: Path) -> None:
    first = ResponseDatabase(path)
    first.put(record("resp_1", asked="é\u2028\U0001f600"))
    first.close()
    found = ResponseDatabase(path).get("resp_1", "")
    assert found is not None
    assert found.context[0].item["content"][0]["text"] == "é\u2028\U0001f600"


def test_a_response_replaces_the_one_with_its_id() -> None:
    database = ResponseDatabase()
    database.put(record("resp_1", running=True))
    running = database.get("resp_1", "")
    assert running is not None
    assert running.server == database.server
    database.put(record("resp_1", said="at last"))
    found = database.get("resp_1", "")
    assert found is not None
    assert found.server is None
    assert found.resource["output_text"] == "at last"


def test_responses_belong_to_their_owner() -> None:
    database = ResponseDatabase()
    database.put(record("resp_1", owner="alice"))
    assert database.get("resp_1", "bob") is None
    assert database.get("resp_1", "") is None
    assert database.items(["in_resp_1"], "bob") == {}
    assert not database.delete("resp_1", "bob")
    assert database.get("resp_1", "alice") is not None


def test_deleting_a_response_takes_nothing_from_those_that_went_on_from_it() -> None:
    database = ResponseDatabase()
    database.put(record("resp_1"))
    database.put(following(database, "resp_1", "resp_2"))
    assert database.delete("resp_1", "")
    assert not database.delete("resp_1", "")
    found = database.get("resp_2", "")
    assert found is not None
    assert ids(found.context) == ["in_resp_1", "out_resp_1", "in_resp_2"]


def test_items_go_with_the_last_response_that_holds_them() -> None:
    database = ResponseDatabase()
    database.put(record("resp_1"))
    database.put(following(database, "resp_1", "resp_2"))
    database.delete("resp_1", "")
    assert set(database.items(["in_resp_1", "in_resp_2"], "")) == {"in_resp_1", "in_resp_2"}
    database.delete("resp_2", "")
    assert database.items(["in_resp_1", "in_resp_2", "out_resp_2"], "") == {}


def test_a_conversation_goes_on_though_its_beginning_was_deleted_meanwhile() -> None:
    database = ResponseDatabase()
    database.put(record("resp_1"))
    next_turn = following(database, "resp_1", "resp_2")
    database.delete("resp_1", "")
    database.put(record("resp_3"))
    database.put(next_turn)
    found = database.get("resp_2", "")
    assert found is not None
    assert ids(found.context) == ["in_resp_1", "out_resp_1", "in_resp_2"]


def test_items_are_stored_once_for_a_whole_conversation() -> None:
    database = ResponseDatabase()
    database.put(record("resp_0", asked="x" * 100_000))
    before = database.live_bytes()
    for turn in range(20):
        database.put(following(database, f"resp_{turn}", f"resp_{turn + 1}"))
    assert database.live_bytes() - before < 100_000


def test_what_is_too_old_is_forgotten() -> None:
    clock = Clock()
    database = ResponseDatabase(limits=StoreLimits(max_age=1000), now=clock)
    database.put(record("resp_1"))
    clock.time += 999
    database.put(record("resp_2"))
    assert database.get("resp_1", "") is not None
    clock.time += 61
    database.put(record("resp_3"))
    assert database.get("resp_1", "") is None
    assert database.get("resp_2", "") is not None


def test_where_there_is_too_much_the_oldest_goes(path: Path) -> None:
    clock = Clock()
    database = ResponseDatabase(path, StoreLimits(max_bytes=2_000_000), clock)
    for number in range(100):
        clock.time += 1
        database.put(record(f"resp_{number}", said="x" * 50_000))
    assert database.live_bytes() < 2_100_000
    assert database.get("resp_0", "") is None
    kept = [number for number in range(100) if database.get(f"resp_{number}", "") is not None]
    assert kept == list(range(kept[0], 100))
    assert len(kept) >= 16
    database.close()
    assert path.stat().st_size < 4_000_000


def test_in_memory_there_is_less_room() -> None:
    database = ResponseDatabase(limits=StoreLimits(max_memory=500_000))
    for number in range(40):
        database.put(record(f"resp_{number}", said="x" * 50_000))
    assert database.get("resp_0", "") is None
    assert database.get("resp_39", "") is not None
    assert database.live_bytes() < 600_000


def test_what_runs_is_neither_too_old_nor_too_much() -> None:
    clock = Clock()
    database = ResponseDatabase(limits=StoreLimits(max_age=10, max_bytes=1), now=clock)
    database.put(record("resp_1", running=True))
    clock.time += 1000
    database.put(record("resp_2"))
    database.put(record("resp_3"))
    assert database.get("resp_1", "") is not None
    assert database.get("resp_2", "") is None


def test_what_a_dead_server_was_generating_has_failed(path: Path) -> None:
    dead = ResponseDatabase(path)
    dead.put(record("resp_1", running=True))
    # Its process ends without a word: the system gives the lock back.
    dead._lease.release()
    found = ResponseDatabase(path).get("resp_1", "")
    assert found is not None
    assert found.server is None
    assert found.resource["status"] == "failed"
    assert "stopped" in found.resource["error"]["message"]


def test_what_another_server_generates_is_let_be(path: Path) -> None:
    one = ResponseDatabase(path)
    one.put(record("resp_1", running=True))
    other = ResponseDatabase(path)
    found = other.get("resp_1", "")
    assert found is not None
    assert found.server == one.server
    assert found.resource["status"] == "completed"
    other.put(record("resp_2"))
    assert one.get("resp_2", "") is not None


@pytest.mark.parametrize(
    "content", [b"not a database" * 100, b"SQLite format 3\0" + b"\xff" * 5000]
)
def test_a_damaged_file_is_moved_aside(
    path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    database = ResponseDatabase(path)
    database.put(record("resp_1"))
    (aside,) = path.parent.glob("responses.db.damaged-*")
    assert aside.read_bytes() == content
    assert str(aside) in caplog.text


def test_a_file_of_a_newer_mrs_is_left_alone(path: Path) -> None:
    database = ResponseDatabase(path)
    database.put(record("resp_1"))
    database.close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 999")
    with pytest.raises(StorageError, match="newer mrs"):
        ResponseDatabase(path)
    assert connection.execute("SELECT id FROM response").fetchall() == [("resp_1",)]
    assert connection.execute("PRAGMA user_version").fetchone() == (999,)
    assert list(path.parent.glob("*damaged*")) == []
    connection.close()


def test_a_path_that_cannot_be_a_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=str(tmp_path)):
        ResponseDatabase(tmp_path)


def test_others_on_the_machine_cannot_read_it(path: Path) -> None:
    database = ResponseDatabase(path)
    database.put(record("resp_1"))
    for file in (path, path.with_name(path.name + "-wal")):
        assert file.stat().st_mode & 0o077 == 0


def test_a_full_disk_loses_nothing_that_was_stored(path: Path) -> None:
    database = ResponseDatabase(path)
    database.put(record("resp_1"))
    pages = database._connection.execute("PRAGMA page_count").fetchone()[0]
    database._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(sqlite3.OperationalError, match="full"):
        database.put(record("resp_2", said="x" * 100_000))
    assert database.get("resp_1", "") is not None
    assert database.get("resp_2", "") is None
    assert database.items(["in_resp_2"], "") == {}
    database._connection.execute(f"PRAGMA max_page_count = {pages + 1000}")
    database.put(record("resp_2", said="x" * 100_000))
    assert database.get("resp_2", "") is not None
