"""Answers on event loops: whole, in order, on their own loop, and given up when nobody listens."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mrs.errors import EngineError, InvalidValueError, ShuttingDownError
from mrs.runtime.async_engine import AsyncEngine, AsyncStream
from mrs.runtime.generation import (
    FinishReason,
    GenerationDelta,
    GenerationRequest,
    SamplingParams,
)
from tests.runtime.fake_runner import TIMEOUT, Driver, Gate, expected, running, text_of

Deltas = list[tuple[GenerationDelta, ...]]


@pytest.fixture
def driver() -> Iterator[Driver]:
    with running(Driver()) as driver:
        yield driver


@pytest.fixture
def engine(driver: Driver) -> AsyncEngine:
    engine = AsyncEngine()
    engine.attach(driver.engine)
    driver.on_publish = engine.publish
    return engine


def request(prompt: tuple[int, ...] = (1,), max_tokens: int = 6, n: int = 1) -> GenerationRequest:
    return GenerationRequest(prompt, SamplingParams(temperature=0.0, max_tokens=max_tokens), n)


async def read(stream: AsyncStream) -> Deltas:
    return [deltas async for deltas in stream]


def run(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return asyncio.run(asyncio.wait_for(main(), TIMEOUT))


def tokens(deltas: Deltas, index: int = 0) -> list[int]:
    each = (delta for batch in deltas for delta in batch)
    return [token for delta in each if delta.index == index for token in delta.token_ids]


def test_a_stream_holds_the_whole_answer_and_ends(engine: AsyncEngine) -> None:
    async def main() -> Deltas:
        return await read(engine.submit(request()))

    deltas = run(main)
    assert tokens(deltas) == expected((1,), 6)
    assert "".join(d.text for batch in deltas for d in batch) == text_of(expected((1,), 6))
    assert deltas[-1][-1].finish_reason is FinishReason.LENGTH


def test_a_stream_ends_with_the_last_of_its_choices(engine: AsyncEngine, driver: Driver) -> None:
    async def main() -> Deltas:
        return await read(engine.submit(request((1, 2), n=5)))

    deltas = run(main)
    assert [tokens(deltas, index) for index in range(5)] == [expected((1, 2), 6)] * 5


def test_a_slow_reader_gets_all_that_has_arrived_at_once(
    engine: AsyncEngine, driver: Driver
) -> None:
    async def main() -> Deltas:
        stream = engine.submit(request())
        assert stream.ticket is not None
        driver.finish(stream.ticket)  # The loop stands still, the engine does not.
        return await read(stream)

    (batch,) = run(main)
    assert tokens([batch]) == expected((1,), 6)


def test_a_step_is_one_hop_to_the_loop(engine: AsyncEngine, driver: Driver) -> None:
    hops: list[object] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        hop = loop.call_soon_threadsafe

        def counted(*args: Any, **options: Any) -> asyncio.Handle:
            hops.append(args)
            return hop(*args, **options)

        loop.call_soon_threadsafe = counted  # type: ignore[method-assign]
        gate = Gate(driver)
        streams = [engine.submit(request((token,))) for token in (1, 2, 3)]
        gate.open()
        await asyncio.gather(*map(read, streams))

    run(main)
    assert len(hops) == len(driver.published)
    assert max(map(len, driver.published)) == 3


def test_a_cancelled_stream_ends_and_says_so(engine: AsyncEngine, driver: Driver) -> None:
    async def main() -> Deltas:
        gate = Gate(driver)
        stream = engine.submit(request(max_tokens=60))
        gate.step()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(stream.cancel).result(TIMEOUT)
        stream.cancel()
        gate.open()
        return await read(stream)

    assert run(main)[-1][-1].finish_reason is FinishReason.CANCELLED
    driver.assert_idle()


def assert_given_up(driver: Driver, stream: AsyncStream) -> None:
    assert not stream.loop.is_closed()  # That would give it up, too.
    assert stream.ticket is not None
    assert driver.finish(stream.ticket)[-1].finish_reason is FinishReason.CANCELLED


def test_leaving_the_iteration_gives_the_request_up(engine: AsyncEngine, driver: Driver) -> None:
    async def main() -> None:
        gate = Gate(driver)
        stream = engine.submit(request(max_tokens=60))
        gate.step()
        gate.release()
        async for _ in stream:
            break
        for _ in range(3):
            await asyncio.sleep(0)  # Turns of the loop: it closes generators in a task.
        gate.open()
        assert_given_up(driver, stream)

    run(main)


def test_a_cancelled_reader_gives_the_request_up(engine: AsyncEngine, driver: Driver) -> None:
    async def main() -> None:
        gate = Gate(driver)
        stream = engine.submit(request(max_tokens=60))
        reader = asyncio.ensure_future(read(stream))
        await asyncio.sleep(0)
        gate.step()
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        gate.open()
        assert_given_up(driver, stream)

    run(main)


def test_a_stream_read_to_its_end_gives_nothing_up(
    engine: AsyncEngine, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(ticket: object) -> None:
        raise AssertionError("cancelled")

    async def main() -> Deltas:
        return await read(engine.submit(request()))

    monkeypatch.setattr(driver.engine, "cancel", fail)
    assert tokens(run(main)) == expected((1,), 6)


def test_a_closed_loop_gives_its_requests_up_and_hurts_no_other(
    engine: AsyncEngine, driver: Driver
) -> None:
    gate = Gate(driver)

    async def leave() -> AsyncStream:
        return engine.submit(request(max_tokens=60))

    async def stay() -> Deltas:
        stream = engine.submit(request((2,)))
        gate.open()
        return await read(stream)

    left = asyncio.run(leave())
    gate.step()
    assert left.loop.is_closed()
    assert tokens(run(stay)) == expected((2,), 6)
    assert left.ticket is not None
    assert driver.finish(left.ticket)[-1].finish_reason is FinishReason.CANCELLED
    assert driver.engine.ready


def test_one_loop_after_the_other(engine: AsyncEngine) -> None:
    async def turn() -> Deltas:
        return await read(engine.submit(request()))

    assert [tokens(run(turn)) for _ in range(3)] == [expected((1,), 6)] * 3


def test_loops_at_once_hear_of_their_own_requests(engine: AsyncEngine) -> None:
    start = threading.Barrier(3)

    def talk(token: int) -> list[int]:
        async def main() -> Deltas:
            start.wait(TIMEOUT)
            return await read(engine.submit(request((token,), max_tokens=40)))

        return tokens(run(main))

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(talk, (1, 2, 3))) == [expected((token,), 40) for token in (1, 2, 3)]


def test_streams_end_when_the_engine_stops(engine: AsyncEngine, driver: Driver) -> None:
    async def main() -> Deltas:
        gate = Gate(driver)
        stream = engine.submit(request(max_tokens=60))
        gate.step()
        driver.engine.stop(timeout=0)
        gate.open()
        return await read(stream)

    assert run(main)[-1][-1].finish_reason is FinishReason.CANCELLED


def test_streams_end_with_an_error_when_the_engine_dies(
    engine: AsyncEngine, driver: Driver
) -> None:
    def fail(slot: int) -> None:
        raise OSError("gone")

    driver.cache.release = fail  # type: ignore[method-assign]

    async def main() -> tuple[Deltas, Deltas]:
        gate = Gate(driver)
        one, other = engine.submit(request(max_tokens=1)), engine.submit(request(max_tokens=60))
        gate.open()
        deltas = await asyncio.gather(read(one), read(other))
        with pytest.raises(ShuttingDownError):
            engine.submit(request())
        return deltas

    for deltas in run(main):
        assert isinstance(deltas[-1][-1].error, EngineError)
    driver.engine._thread.join(TIMEOUT)
    assert (engine.ready, engine.alive) == (False, False)


def test_a_request_from_elsewhere_disturbs_no_stream(engine: AsyncEngine, driver: Driver) -> None:
    async def main() -> Deltas:
        gate = Gate(driver)
        driver.submit((2,), max_tokens=6)
        stream = engine.submit(request())
        gate.open()
        return await read(stream)

    assert tokens(run(main)) == expected((1,), 6)


def test_a_refused_request_leaves_nothing_behind(engine: AsyncEngine, driver: Driver) -> None:
    async def main() -> None:
        with pytest.raises(InvalidValueError):
            engine.submit(request(()))

    run(main)
    driver.assert_idle()


def test_what_the_engine_says_of_itself(engine: AsyncEngine, driver: Driver) -> None:
    assert engine.ready
    assert engine.alive
    assert engine.stats() == driver.engine.stats()
    engine.drain()
    assert not engine.ready
    assert engine.alive
