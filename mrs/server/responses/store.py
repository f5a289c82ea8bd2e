"""The stored responses as the endpoints see them: off the event loop, with errors for clients."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from mrs.server.responses.database import (
    Item,
    ResponseDatabase,
    ResponseRecord,
    StoredResponse,
)
from mrs.server.responses.database_file import primary_code
from mrs.server.responses.errors import ResponseStoreError

logger = logging.getLogger(__name__)
P = ParamSpec("P")
Result = TypeVar("Result")


class ResponseStore:
    """Responses by id and owner; each call is one transaction, in the order of the calls.

    Args:
        database: where they are kept; this owns it.
    """

    def __init__(self, database: ResponseDatabase) -> None:
        self._database = database
        self._worker = ThreadPoolExecutor(1, "mrs-responses")

    @property
    def server(self) -> str:
        """See `ResponseDatabase.server`."""
        return self._database.server

    async def put(self, record: ResponseRecord) -> None:
        """Store a response, in place of what was stored under its id.

        Raises:
            ResponseStoreError: it cannot be stored.
        """
        await self._run(self._database.put, record)

    async def get(self, response_id: str, owner: str) -> StoredResponse | None:
        """A response with all its items, or None.

        Raises:
            ResponseStoreError: the store cannot be read.
        """
        found = await self._run(self._database.get, response_id, owner)
        if found is None or found.server in (None, self.server):
            return found
        await self._run(self._database.fail_abandoned)
        return await self._run(self._database.get, response_id, owner)

    async def items(self, item_ids: Sequence[str], owner: str) -> dict[str, Item]:
        """Items by id; those that are not stored are left out.

        Raises:
            ResponseStoreError: the store cannot be read.
        """
        return await self._run(self._database.items, item_ids, owner)

    async def delete(self, response_id: str, owner: str) -> bool:
        """Forget a response; whether there was one.

        Raises:
            ResponseStoreError: it cannot be deleted.
        """
        return await self._run(self._database.delete, response_id, owner)

    def delete_soon(self, response_id: str, owner: str) -> None:
        """Forget a response after all that was asked for before; nobody hears how that goes."""
        self._worker.submit(self._database.delete, response_id, owner)

    def close(self) -> None:
        """Finish what was begun, and close the database."""
        self._worker.shutdown()
        self._database.close()

    async def _run(self, function: Callable[P, Result], *args: P.args, **named: P.kwargs) -> Result:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._worker, partial(function, *args, **named))
        except sqlite3.Error as error:
            logger.error("The stored responses cannot be used.", exc_info=error)
            raise _store_error(error) from error


def _store_error(error: sqlite3.Error) -> ResponseStoreError:
    reasons = {
        sqlite3.SQLITE_FULL: "the disk is full",
        sqlite3.SQLITE_CORRUPT: "their file is damaged",
        sqlite3.SQLITE_READONLY: "their file is read-only",
        sqlite3.SQLITE_BUSY: "another server holds their file for too long",
    }
    reason = reasons.get(primary_code(error) or 0, "their file cannot be read or written")
    return ResponseStoreError(
        f"The stored responses cannot be used: {reason}.",
        hint="Send 'store': false for an answer that is not kept.",
    )
