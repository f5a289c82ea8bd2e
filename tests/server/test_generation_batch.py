from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from mrs.errors import InvalidValueError, QueueFullError
from mrs.runtime.generation import EngineStats, FinishReason, GenerationDelta, GenerationRequest
from mrs.server.generation import BatchTally
from mrs.server.generation_batch import GenerationBatch
from tests.server.fake_engine import TIMEOUT, Deltas, FakeEngine, FakeStream, end, say, token


class NarrowEngine(FakeEngine):
    """One slot, so that a batch has two choices with it at once."""

    def __init__(self) -> None:
        super().__init__()
        self.streams: list[FakeStream] = []
        self.most_open: int | None = None

    def stats(self) -> EngineStats:
        return EngineStats(0, 0, 1, 0, 0, 0)

    def submit(self, request: GenerationRequest) -> FakeStream:
        if self.most_open is not None and len(self.streams) >= self.most_open:
            raise QueueFullError("Full.")
        stream = super().submit(request)
        self.streams.append(stream)
        return stream


def requests(*counts: int) -> tuple[GenerationRequest, ...]:
    return tuple(GenerationRequest((place,), n=n) for place, n in enumerate(counts))


async def collect(batch: GenerationBatch) -> list[GenerationDelta]:
    return [delta async for deltas in batch for delta in deltas]


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(main(), TIMEOUT))


def test_choices_are_counted_through() -> None:
    async def main() -> None:
        deltas = await collect(GenerationBatch(FakeEngine(say("a")), requests(2, 1, 2)))
        ended = [delta.index for delta in deltas if delta.finish_reason]
        assert sorted(ended) == [0, 1, 2, 3, 4]
        assert sorted(delta.index for delta in deltas if delta.text) == [0, 1, 2, 3, 4]

    run(main)


def test_the_engine_has_twice_its_slots_at_once_and_the_rest_later() -> None:
    async def main() -> None:
        engine = NarrowEngine()
        collecting = asyncio.ensure_future(collect(GenerationBatch(engine, requests(1, 1, 1))))
        await asyncio.sleep(0)
        assert [request.prompt_ids for request in engine.requests] == [(0,), (1,)]
        engine.streams[1].push(end())
        engine.streams[1].finish()
        while len(engine.streams) < 3:
            await asyncio.sleep(0)
        for stream in engine.streams:
            stream.push(token("x"), end())
            stream.finish()
        assert {delta.index for delta in await collecting} == {0, 1, 2}

    run(main)


def test_a_request_wider_than_that_is_taken_alone() -> None:
    async def main() -> None:
        engine = NarrowEngine()
        engine.script = say("x")
        deltas = await collect(GenerationBatch(engine, requests(5, 1)))
        assert {delta.index for delta in deltas} == set(range(6))

    run(main)


def test_a_full_queue_refuses_the_first_and_defers_the_others() -> None:
    async def main() -> None:
        engine = NarrowEngine()
        engine.most_open = 0
        with pytest.raises(QueueFullError):
            GenerationBatch(engine, requests(1, 1))
        engine.most_open = 1
        collecting = asyncio.ensure_future(collect(GenerationBatch(engine, requests(1, 1))))
        await asyncio.sleep(0)
        assert len(engine.streams) == 1
        engine.most_open, engine.script = None, say("x")
        engine.streams[0].push(end())
        engine.streams[0].finish()
        assert {delta.index for delta in await collecting} == {0, 1}

    run(main)


def test_a_refused_request_gives_up_those_that_were_taken() -> None:
    class Picky(NarrowEngine):
        def submit(self, request: GenerationRequest) -> FakeStream:
            if request.prompt_ids == (1,):
                raise InvalidValueError("Bad.")
            return super().submit(request)

    async def main() -> None:
        engine = Picky()
        with pytest.raises(InvalidValueError):
            GenerationBatch(engine, requests(1, 1))
        assert engine.streams[0].cancelled.is_set()

    run(main)


def test_a_crash_of_one_is_a_crash_of_all() -> None:
    async def main() -> None:
        engine = NarrowEngine()
        collecting = asyncio.ensure_future(collect(GenerationBatch(engine, requests(1, 1, 1))))
        await asyncio.sleep(0)
        engine.streams[0].crash(RuntimeError("secret"))
        with pytest.raises(RuntimeError, match="secret"):
            await collecting
        assert engine.streams[1].cancelled.is_set()

    run(main)


def test_cancelled_it_asks_for_no_more() -> None:
    async def main() -> None:
        engine = NarrowEngine()
        batch = GenerationBatch(engine, requests(1, 1, 1))
        batch.cancel()
        assert all(stream.cancelled.is_set() for stream in engine.streams)
        await collect(batch)
        assert len(engine.streams) == 2

    run(main)


def test_the_tally_knows_what_each_prompt_lost() -> None:
    tally = BatchTally((GenerationRequest((1, 2, 3), n=2), GenerationRequest((4, 5))))
    for index, dropped in enumerate((2, 2, 1)):
        tally.count((GenerationDelta(index, "", (7,), dropped_tokens=dropped),))
    assert tally.prompt_tokens == 5 - 2 - 1


def test_the_tally_adds_up_what_each_prompt_had_cached() -> None:
    asked = (GenerationRequest((1, 2, 3), n=2), GenerationRequest((4, 5)))
    tally = BatchTally(asked)
    assert tally.prompt_tokens == 5

    def delta(index: int, cached: int) -> GenerationDelta:
        return GenerationDelta(index, "x", (7,), FinishReason.STOP, cached_tokens=cached)

    deltas: Deltas = (delta(0, 2), delta(1, 2), delta(2, 1))
    tally.count(deltas)
    assert tally.cached_tokens == 3
    assert tally.completion_tokens == 3
    tally.require_complete()
