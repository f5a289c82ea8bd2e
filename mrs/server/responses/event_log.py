"""The events of one response, for those who come later."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Sequence

_END = b"\n\n"


class EventLog:
    """Events in order, each at its sequence number; grows until it is closed.

    All methods belong to the event loop's thread.
    """

    def __init__(self) -> None:
        self._frames: list[bytes] = []
        self._closed = False
        self._news = asyncio.Event()

    @property
    def frames(self) -> Sequence[bytes]:
        """All events so far."""
        return self._frames

    def append(self, frames: Sequence[bytes]) -> None:
        """Add events, and wake those who follow."""
        self._frames += frames
        self._tell()

    def close(self) -> None:
        """There will be no more."""
        self._closed = True
        self._tell()

    async def follow(self, after: int = -1) -> AsyncIterator[Sequence[bytes]]:
        """All events after the one with this number, several at a time, until the log is closed."""
        position = after + 1
        while True:
            news = self._news
            if position < len(self._frames):
                arrived = self._frames[position:]
                position += len(arrived)
                yield arrived
            elif self._closed:
                return
            else:
                await news.wait()

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()


def pack_events(frames: Sequence[bytes]) -> bytes:
    """Events as they are stored: a tenth of their size or less."""
    return zlib.compress(b"".join(frames), 1)


def unpack_events(packed: bytes) -> list[bytes]:
    """The opposite of `pack_events`. The data of an event is one line: blank lines end events."""
    return [frame + _END for frame in zlib.decompress(packed).split(_END)[:-1]]
