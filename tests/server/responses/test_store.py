from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mrs.server.responses.database import ResponseDatabase
from mrs.server.responses.errors import ResponseStoreError
from mrs.server.responses.store import ResponseStore
from tests.server.responses.test_database import record


def test_a_full_disk_is_told_as_such() -> None:
    database = ResponseDatabase()
    pages = database._connection.execute("PRAGMA page_count").fetchone()[0]
    database._connection.execute(f"PRAGMA max_page_count = {pages}")
    store = ResponseStore(database)
    with pytest.raises(ResponseStoreError, match="disk is full") as caught:
        asyncio.run(store.put(record("resp_1", said="x" * 10_000)))
    assert "'store': false" in caught.value.hint
    assert asyncio.run(store.get("resp_1", "")) is None


def test_a_file_damaged_later_is_told_as_such(tmp_path: Path) -> None:
    path = tmp_path / "responses.db"
    ResponseDatabase(path).close()
    store = ResponseStore(ResponseDatabase(path))
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    with pytest.raises(ResponseStoreError, match="damaged"):
        asyncio.run(store.put(record("resp_1")))


def test_a_response_of_a_server_that_died_meanwhile_has_failed(tmp_path: Path) -> None:
    other = ResponseDatabase(tmp_path / "responses.db")
    store = ResponseStore(ResponseDatabase(tmp_path / "responses.db"))
    other.put(record("resp_1", running=True))
    alive = asyncio.run(store.get("resp_1", ""))
    assert alive is not None
    assert alive.server == other.server
    other._lease.release()
    dead = asyncio.run(store.get("resp_1", ""))
    assert dead is not None
    assert dead.resource["status"] == "failed"
    store.close()


def test_what_was_begun_is_finished_before_it_closes(tmp_path: Path) -> None:
    store = ResponseStore(ResponseDatabase(tmp_path / "responses.db"))

    async def begin() -> None:
        put = asyncio.ensure_future(store.put(record("resp_1")))
        await asyncio.sleep(0)
        put.cancel()

    asyncio.run(begin())
    store.close()
    assert ResponseDatabase(tmp_path / "responses.db").get("resp_1", "") is not None
