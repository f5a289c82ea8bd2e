"""One response from its first token to its place in the store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from mrs.runtime.generation import GenerationDelta, GenerationStream
from mrs.server.errors import reply_to
from mrs.server.generation import Tally
from mrs.server.responses.answer import Frames, ResponseAnswer
from mrs.server.responses.database import Item, KnownItem, ResponseRecord
from mrs.server.responses.errors import ResponseStoreError
from mrs.server.responses.event_log import EventLog
from mrs.server.responses.resource import Resource, response_error
from mrs.server.responses.store import ResponseStore

Publish = Callable[[Frames], Awaitable[None]]


@dataclass(frozen=True)
class Keeping:
    """Where a response is kept.

    Attributes:
        store: where.
        owner: whose it is; empty where there is no authentication.
        context: items of the conversation before this turn.
        inputs: items of this turn.
    """

    store: ResponseStore
    owner: str
    context: Sequence[KnownItem]
    inputs: Sequence[Item]


@dataclass
class ResponseRun:
    """A response while it is generated.

    It is stored before its last event is sent, so that whoever hears that it is complete can go on
    from it.

    Attributes:
        answer: what it has become.
        stream: what the engine makes.
        tally: counts it.
        keeping: where it is kept; None for nowhere.
        request_id: of the request that asked for it.
        log: its events, where somebody may want them later.
    """

    answer: ResponseAnswer
    stream: GenerationStream
    tally: Tally
    keeping: Keeping | None
    request_id: str
    log: EventLog | None = None
    _forgotten: bool = field(default=False, init=False)
    _lost: bool = field(default=False, init=False)
    _last: bytes | None = field(default=None, init=False)

    @property
    def resource(self) -> Resource:
        """The response as it is now."""
        return self.answer.resource

    @property
    def owner(self) -> str:
        """Whose it is; empty where it is nobody's."""
        return "" if self.keeping is None else self.keeping.owner

    @property
    def lost(self) -> bool:
        """Whether it should have been stored and could not be."""
        return self._lost

    async def generate(self, publish: Publish) -> None:
        """Generate and keep the whole answer; cancelled, it gives its slot back.

        Raises:
            Exception: what went wrong before or while it was generated; `fail` tells of it.
        """
        try:
            await self._publish(self.answer.begin(), publish)
            async for deltas in self.stream:
                await self._take(deltas, publish)
            self.tally.require_complete()
        except BaseException:
            self.stream.cancel()
            raise
        await self._end(self.answer.complete(), publish)

    async def fail(self, error: Exception, publish: Publish) -> None:
        """End the answer with an error, and keep what there is of it.

        An answer that was complete before stays so, unless it is the store that failed.
        """
        if self._last is None or isinstance(error, ResponseStoreError):
            reply = reply_to(error, self.request_id)
            await self._end(self.answer.fail(response_error(reply)), publish)
        else:
            await self._conclude(publish)

    async def cancel(self, publish: Publish) -> None:
        """End the answer because nobody wants it, and keep what there is of it.

        An answer that was complete before stays so.
        """
        if self._last is None:
            await self._end(self.answer.cancel(), publish)
        else:
            await self._conclude(publish)

    async def keep(self, *, running: bool = False) -> None:
        """Store the response as it is now.

        Raises:
            ResponseStoreError: it cannot be stored; it is not tried again.
        """
        keeping = self.keeping
        if keeping is None or self._forgotten:
            return
        last = () if self._last is None else (self._last,)
        events = None if self.log is None else (*self.log.frames, *last)
        record = ResponseRecord(
            self.resource, keeping.owner, keeping.context, keeping.inputs, running, events
        )
        try:
            await keeping.store.put(record)
        except ResponseStoreError:
            self._forgotten = self._lost = True
            raise

    def forget(self) -> None:
        """Do not store it any more."""
        self._forgotten = True

    async def _take(self, deltas: tuple[GenerationDelta, ...], publish: Publish) -> None:
        frames: Frames = []
        try:
            for delta in deltas:
                self.tally.count((delta,))
                frames += self.answer.add((delta,))
        finally:
            # What came before a failure is part of the answer.
            if frames:
                await self._publish(frames, publish)

    async def _end(self, frames: Frames, publish: Publish) -> None:
        *frames, self._last = frames
        await self._publish(frames, publish)
        await self._conclude(publish)

    async def _conclude(self, publish: Publish) -> None:
        assert self._last is not None
        await self.keep()
        await self._publish([self._last], publish)

    async def _publish(self, frames: Frames, publish: Publish) -> None:
        if self.log is not None:
            self.log.append(frames)
        await publish(frames)


async def nowhere(_: Frames) -> None:
    """Publish to nobody."""
