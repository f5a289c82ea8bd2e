"""Opens the file of the stored responses: new, of today's form, damaged or too new."""

from __future__ import annotations

import logging
import sqlite3
import time
from pathlib import Path

from mrs.errors import StorageError

logger = logging.getLogger(__name__)

SCHEMA_VERSION = 1
_BUSY_TIMEOUT = 10.0
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

# Items are shared: a response refers to those of the conversation before it, so that deleting or
# forgetting an earlier response takes nothing from a later one. An item goes with the last
# response that refers to it. AUTOINCREMENT keeps a deleted item's key from meaning another one.
_SCHEMA = """
CREATE TABLE response (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    server TEXT,
    body BLOB NOT NULL,
    events BLOB
);
CREATE INDEX response_by_age ON response (created_at);
CREATE INDEX response_by_server ON response (server) WHERE server IS NOT NULL;
CREATE TABLE item (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL,
    owner TEXT NOT NULL,
    body BLOB NOT NULL
);
CREATE INDEX item_by_id ON item (id);
CREATE TABLE response_item (
    response INTEGER NOT NULL REFERENCES response (key) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    is_output INTEGER NOT NULL,
    item INTEGER NOT NULL REFERENCES item (key),
    PRIMARY KEY (response, position)
) WITHOUT ROWID;
CREATE INDEX response_item_by_item ON response_item (item);
CREATE TRIGGER forget_item AFTER DELETE ON response_item BEGIN
    DELETE FROM item WHERE key = OLD.item
        AND NOT EXISTS (SELECT 1 FROM response_item WHERE item = OLD.item);
END;
"""


def open_database(path: Path | None) -> sqlite3.Connection:
    """Open the database of responses, and make it if there is none.

    A file that SQLite cannot read is moved aside, never overwritten.

    Args:
        path: the file; None for a database in memory.

    Raises:
        StorageError: the file cannot be opened, or a newer mrs wrote it.
    """
    if path is None:
        return _connect(":memory:")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # What clients said is nobody else's business on this machine.
        path.touch(mode=0o600, exist_ok=True)
        return _connect(str(path))
    except OSError as error:
        raise _cannot_open(path, error.strerror or str(error)) from error
    except sqlite3.DatabaseError as error:
        if primary_code(error) not in _DAMAGED:
            raise _cannot_open(path, str(error)) from error
    _move_aside(path)
    return open_database(path)


def primary_code(error: sqlite3.Error) -> int | None:
    """SQLite's code for an error, without what it adds in the upper bits."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _connect(name: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        name, timeout=_BUSY_TIMEOUT, isolation_level=None, check_same_thread=False
    )
    try:
        # Before the first table, or it has no effect.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA secure_delete = ON")
        _require_schema(connection, name)
    except BaseException:
        connection.close()
        raise
    return connection


def _require_schema(connection: sqlite3.Connection, name: str) -> None:
    if _version(connection) == 0:
        connection.execute("BEGIN IMMEDIATE")
        # Another server may have been faster.
        if _version(connection) == 0:
            for statement in _statements():
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
    version = _version(connection)
    if version > SCHEMA_VERSION:
        raise StorageError(
            f"The stored responses in {name} were written by a newer mrs (version {version} of "
            f"the file; this one knows {SCHEMA_VERSION}).",
            hint="Update mrs, or name another file with --responses-db.",
        )


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _statements() -> list[str]:
    statements, statement = [], ""
    for line in _SCHEMA.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            statements.append(statement)
            statement = ""
    return statements


def _move_aside(path: Path) -> None:
    aside = path.with_name(f"{path.name}.damaged-{int(time.time())}")
    path.replace(aside)
    for suffix in ("-wal", "-shm"):
        companion = path.with_name(path.name + suffix)
        if companion.exists():
            companion.replace(aside.with_name(aside.name + suffix))
    logger.error("The stored responses in %s are damaged; moved to %s.", path, aside)


def _cannot_open(path: Path, reason: str) -> StorageError:
    return StorageError(
        f"The stored responses in {path} cannot be opened: {reason}.",
        hint="Name another file with --responses-db, or ':memory:' to keep them in memory alone.",
    )
