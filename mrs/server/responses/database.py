"""The stored responses: what is asked of SQLite. Blocking; `ResponseStore` is its async face."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mrs.server.responses.database_file import open_database
from mrs.server.responses.event_log import pack_events
from mrs.server.responses.json_bytes import from_json, to_json
from mrs.server.responses.server_lease import ServerLease

MIB = 1024**2
GIB = 1024**3
DAY = 24 * 3600
_PRUNE_INTERVAL = 60.0
_PRUNED_AT_ONCE = 16
_OUTPUT = ("output", "output_text")

Item = dict[str, Any]
Resource = dict[str, Any]


@dataclass(frozen=True)
class StoreLimits:
    """How much is kept, the newest first.

    Attributes:
        max_age: seconds.
        max_bytes: of the database, without what is free inside it.
        max_memory: the same for a database in memory.
    """

    max_age: float = 30 * DAY
    max_bytes: int = GIB
    max_memory: int = 128 * MIB


@dataclass(frozen=True)
class KnownItem:
    """An item that is stored already.

    Attributes:
        key: the store's own name for it.
        item: itself.
    """

    key: int
    item: Item


@dataclass(frozen=True)
class ResponseRecord:
    """A response to be stored.

    Attributes:
        resource: the response as clients see it, with its output.
        owner: whose it is; empty where there is no authentication.
        context: items of the conversation before this turn.
        inputs: items of this turn.
        running: it is still being generated, by this server.
        events: what was or would be streamed; None if that is not kept.
    """

    resource: Resource
    owner: str = ""
    context: Sequence[KnownItem] = ()
    inputs: Sequence[Item] = ()
    running: bool = False
    events: Sequence[bytes] | None = None


@dataclass(frozen=True)
class StoredResponse:
    """A response that was stored.

    Attributes:
        resource: as in `ResponseRecord`.
        context: its input and what came before, in order.
        outputs: its output.
        server: who generates it; None if it is over.
        events: what was or would be streamed, packed.
    """

    resource: Resource
    context: list[KnownItem] = field(default_factory=list)
    outputs: list[KnownItem] = field(default_factory=list)
    server: str | None = None
    events: bytes | None = None


class ResponseDatabase:
    """Responses by id and owner. To be used from one thread at a time.

    Args:
        path: the file; None for memory.
        limits: how much is kept.
        now: seconds since the epoch.

    Raises:
        StorageError: see `open_database`.
    """

    def __init__(
        self,
        path: Path | None = None,
        limits: StoreLimits | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        limits = limits or StoreLimits()
        self._max_age = limits.max_age
        self._max_bytes = limits.max_bytes
        if path is None:
            self._max_bytes = min(limits.max_bytes, limits.max_memory)
        self._now = now
        self._next_prune = 0.0
        self._connection = open_database(path)
        self._lease = ServerLease(path and path.with_name(path.name + ".servers"))
        self._lease.sweep()
        self.fail_abandoned()

    @property
    def server(self) -> str:
        """What this server calls itself in ``StoredResponse.server``."""
        return self._lease.name

    def put(self, record: ResponseRecord) -> None:
        """Store a response, in place of what was stored under its id."""
        resource = record.resource
        body = to_json({k: v for k, v in resource.items() if k not in ("output", "output_text")})
        server = self._lease.name if record.running else None
        events = None if record.events is None else pack_events(record.events)
        # What is old goes first: where the disk is full, there may be room then.
        self._prune()
        with self._transaction():
            self._connection.execute("DELETE FROM response WHERE id = ?", (resource["id"],))
            values = (resource["id"], record.owner, int(self._now()), server, body, events)
            key = self._connection.execute(
                "INSERT INTO response (id, owner, created_at, server, body, events)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                values,
            ).lastrowid
            assert key is not None
            self._put_items(key, record)

    def _put_items(self, response: int, record: ResponseRecord) -> None:
        rows = [(self._ensure_item(known, record.owner), False) for known in record.context]
        rows += [(self._insert_item(item, record.owner), False) for item in record.inputs]
        outputs = record.resource["output"]
        rows += [(self._insert_item(item, record.owner), True) for item in outputs]
        self._connection.executemany(
            "INSERT INTO response_item (response, position, item, is_output) VALUES (?, ?, ?, ?)",
            [(response, position, *row) for position, row in enumerate(rows)],
        )

    def _insert_item(self, item: Item, owner: str) -> int:
        key = self._connection.execute(
            "INSERT INTO item (id, owner, body) VALUES (?, ?, ?)",
            (item["id"], owner, to_json(item)),
        ).lastrowid
        assert key is not None
        return key

    def _ensure_item(self, known: KnownItem, owner: str) -> int:
        """The response before may have been deleted meanwhile, and its items with it."""
        self._connection.execute(
            "INSERT OR IGNORE INTO item (key, id, owner, body) VALUES (?, ?, ?, ?)",
            (known.key, known.item["id"], owner, to_json(known.item)),
        )
        return known.key

    def get(self, response_id: str, owner: str) -> StoredResponse | None:
        """A response with all its items, or None."""
        row = self._connection.execute(
            "SELECT key, server, body, events FROM response WHERE id = ? AND owner = ?",
            (response_id, owner),
        ).fetchone()
        if row is None:
            return None
        key, server, body, events = row
        context, outputs = self._items_of(key)
        resource = with_output(from_json(body), [known.item for known in outputs])
        return StoredResponse(resource, context, outputs, server, events)

    def _items_of(self, response: int) -> tuple[list[KnownItem], list[KnownItem]]:
        context: list[KnownItem] = []
        outputs: list[KnownItem] = []
        for key, body, is_output in self._connection.execute(
            "SELECT item.key, item.body, is_output FROM response_item"
            " JOIN item ON item.key = response_item.item WHERE response = ? ORDER BY position",
            (response,),
        ):
            (outputs if is_output else context).append(KnownItem(key, from_json(body)))
        return context, outputs

    def items(self, item_ids: Sequence[str], owner: str) -> dict[str, Item]:
        """Items by id; those that are not stored are left out."""
        found = {}
        for item_id in set(item_ids):
            row = self._connection.execute(
                "SELECT body FROM item WHERE id = ? AND owner = ? ORDER BY key DESC LIMIT 1",
                (item_id, owner),
            ).fetchone()
            if row is not None:
                found[item_id] = from_json(row[0])
        return found

    def delete(self, response_id: str, owner: str) -> bool:
        """Forget a response; whether there was one."""
        with self._transaction():
            done = self._connection.execute(
                "DELETE FROM response WHERE id = ? AND owner = ?", (response_id, owner)
            )
        return done.rowcount > 0

    def fail_abandoned(self) -> None:
        """Mark what servers that have died were generating as failed."""
        servers = self._connection.execute(
            "SELECT DISTINCT server FROM response WHERE server IS NOT NULL"
        ).fetchall()
        dead = [name for (name,) in servers if not self._lease.lives(name)]
        for name in dead:
            with self._transaction():
                rows = self._connection.execute(
                    "SELECT key, body FROM response WHERE server = ?", (name,)
                ).fetchall()
                for key, body in rows:
                    failed = to_json(_abandoned(from_json(body)))
                    self._connection.execute(
                        "UPDATE response SET server = NULL, body = ? WHERE key = ?", (failed, key)
                    )

    def live_bytes(self) -> int:
        """Size of the database, without what is free inside it."""
        pages, free, size = (
            self._connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)

    def close(self) -> None:
        """Close the file; responses that still run are failed when somebody looks."""
        self._connection.close()
        self._lease.release()

    def _prune(self) -> None:
        if self._now() >= self._next_prune:
            self._next_prune = self._now() + _PRUNE_INTERVAL
            with self._transaction():
                self._connection.execute(
                    "DELETE FROM response WHERE created_at < ? AND server IS NULL",
                    (self._now() - self._max_age,),
                )
        while self.live_bytes() > self._max_bytes and self._delete_oldest():
            pass

    def _delete_oldest(self) -> bool:
        with self._transaction():
            done = self._connection.execute(
                "DELETE FROM response WHERE key IN (SELECT key FROM response"
                " WHERE server IS NULL ORDER BY created_at, key LIMIT ?)",
                (_PRUNED_AT_ONCE,),
            )
        self._connection.execute("PRAGMA incremental_vacuum(1024)").fetchall()
        return done.rowcount > 0

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            # SQLite itself may have rolled back, where the disk was full.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise


def with_output(resource: Resource, output: list[Item]) -> Resource:
    """The resource with its output and the text of it, each at its place."""
    return {**resource, "output": output, "output_text": output_text(output)}


def output_text(output: Sequence[Item]) -> str:
    """What the model said, without reasoning and calls."""
    parts = (part for item in output if item["type"] == "message" for part in item["content"])
    return "".join(part["text"] for part in parts if part["type"] == "output_text")


def _abandoned(resource: Resource) -> Resource:
    error = {
        "type": "server_error",
        "code": "server_error",
        "message": "The server stopped before the response was complete.",
        "param": None,
    }
    return {**resource, "status": "failed", "error": error}
