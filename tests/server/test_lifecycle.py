from __future__ import annotations

import asyncio

import pytest

from mrs.server.lifecycle import Lifecycle
from tests.server.fake_engine import FakeEngine


@pytest.mark.parametrize(
    ("ready", "alive", "status"),
    [
        (True, True, "ok"),
        (False, True, "loading"),
        (True, False, "failed"),
        (False, False, "failed"),
    ],
)
def test_the_status_is_the_engines(ready: bool, alive: bool, status: str) -> None:
    engine = FakeEngine()
    engine.ready, engine.alive = ready, alive
    lifecycle = Lifecycle(engine)
    assert lifecycle.status == status
    assert lifecycle.ready is (status == "ok")


def test_draining_drains_the_engine_and_is_for_good() -> None:
    engine = FakeEngine()
    lifecycle = Lifecycle(engine)
    lifecycle.drain()
    assert engine.drained.is_set()
    assert lifecycle.draining
    assert lifecycle.status == "draining"
    assert not lifecycle.ready


def test_idle_means_that_no_request_runs() -> None:
    async def main() -> None:
        lifecycle = Lifecycle(FakeEngine())
        await lifecycle.wait_idle()
        with lifecycle.request():
            with lifecycle.request():
                waiting = asyncio.ensure_future(lifecycle.wait_idle())
                await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not waiting.done()
        await asyncio.wait_for(waiting, 10)

    asyncio.run(main())


def test_a_shutdown_reaches_running_and_late_requests() -> None:
    async def main() -> None:
        lifecycle = Lifecycle(FakeEngine())
        with lifecycle.request() as running:
            assert not running.done()
            lifecycle.shut_down()
            lifecycle.shut_down()
            assert running.done()
        with lifecycle.request() as late:
            assert late.done()

    asyncio.run(main())
