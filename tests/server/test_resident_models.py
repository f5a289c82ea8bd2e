from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from mrs.errors import ModelLoadError, ShuttingDownError, UnknownModelError
from mrs.server.model_catalog import ModelBusyError, ModelStatus, ModelUnavailableError
from mrs.server.model_names import ModelNames, WrongModelKindError
from mrs.server.resident_models import ResidentModels
from mrs.server.served_model import ModelKind, ServedEmbedder, ServedReranker
from tests.server.fake_models import FakeSource


class Memory:
    """So many bytes, less what the loaded sources take."""

    def __init__(self, total: int, sources: Sequence[FakeSource]) -> None:
        self._total = total
        self._sources = sources

    def __call__(self) -> int:
        return self._total - sum(each.open_now * each.memory for each in self._sources)


def catalog(*sources: FakeSource, total: int = 1000, **options: Any) -> ResidentModels:
    names = ModelNames([source.description for source in sources])
    return ResidentModels(sources, names, free_memory=Memory(total, sources), **options)


async def use(models: ResidentModels, name: str | None) -> str:
    async with models.lease(name) as model:
        return model.name


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until something is so."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)


def run(work: Awaitable[None]) -> None:
    async def main() -> None:
        await work

    asyncio.run(main())


def test_a_model_is_loaded_when_it_is_first_used() -> None:
    async def work() -> None:
        one, other = FakeSource("one"), FakeSource("other")
        models = catalog(one, other)
        assert await use(models, "other") == "other"
        assert (one.loads, other.loads) == (0, 1)
        assert [state.status for state in models.states()] == ["unloaded", "loaded"]

    run(work())


def test_requests_that_come_while_it_loads_share_the_load() -> None:
    async def work() -> None:
        one = FakeSource("one")
        one.gate.clear()
        models = catalog(one)
        users = [asyncio.ensure_future(use(models, None)) for _ in range(5)]
        await until(lambda: one.loads == 1)
        assert models.state("one").status is ModelStatus.RELOADING
        one.gate.set()
        assert await asyncio.gather(*users) == ["one"] * 5
        assert one.loads == 1

    run(work())


def test_the_loop_runs_while_a_model_loads() -> None:
    async def work() -> None:
        slow, quick = FakeSource("slow"), FakeSource("quick")
        models = catalog(slow, quick)
        models.load_now("quick")
        slow.gate.clear()
        waiting = asyncio.ensure_future(use(models, "slow"))
        await until(lambda: slow.loads == 1)
        assert await use(models, "quick") == "quick"
        assert not waiting.done()
        slow.gate.set()
        await waiting

    run(work())


def test_a_client_that_leaves_does_not_end_the_load() -> None:
    async def work() -> None:
        one = FakeSource("one")
        one.gate.clear()
        models = catalog(one)
        leaving, staying = (asyncio.ensure_future(use(models, None)) for _ in range(2))
        await until(lambda: one.loads == 1)
        leaving.cancel()
        await asyncio.wait([leaving])
        one.gate.set()
        assert await staying == "one"
        assert one.loads == 1

    run(work())


def test_all_who_wait_hear_why_a_load_failed() -> None:
    async def work() -> None:
        one = FakeSource("one")
        one.error = ModelLoadError("/secret/path is broken.")
        one.gate.clear()
        models = catalog(one)
        users = [asyncio.ensure_future(use(models, None)) for _ in range(3)]
        await until(lambda: one.loads == 1)
        one.gate.set()
        errors = await asyncio.gather(*users, return_exceptions=True)
        assert [type(error) for error in errors] == [ModelUnavailableError] * 3
        assert isinstance(errors[0], ModelUnavailableError)
        assert errors[0].status == 503
        assert "model_load_failed" in errors[0].message
        assert "secret" not in errors[0].message
        state = models.state("one")
        assert (state.status, state.error) == ("internal_error", errors[0].message)

    run(work())


def test_a_model_that_failed_is_not_tried_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        one = FakeSource("one")
        one.error = ModelLoadError("Broken.")
        models = catalog(one)
        for _ in range(3):
            with pytest.raises(ModelUnavailableError):
                await use(models, None)
        assert one.loads == 1
        monkeypatch.setattr("mrs.server.resident_models.RETRY_INTERVAL", 0.0)
        one.error = None
        assert await use(models, None) == "one"

    run(work())


def test_a_failed_load_leaves_no_complaint_behind(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        one = FakeSource("one")
        one.error = ModelLoadError("Broken.")
        one.gate.clear()
        user = asyncio.ensure_future(use(catalog(one), None))
        await until(lambda: one.loads == 1)
        user.cancel()
        one.gate.set()
        await until(lambda: one.loads == 1)
        await asyncio.wait([user])
        gc.collect()

    run(work())
    assert not [record for record in caplog.records if record.name == "asyncio"]


def test_the_least_recently_used_makes_room() -> None:
    async def work() -> None:
        sources = [FakeSource(name) for name in "abc"]
        models = catalog(*sources, total=20)
        for name in ("a", "b", "a", "c"):
            await use(models, name)
        assert [source.open_now for source in sources] == [1, 0, 1]

    run(work())


def test_an_idle_model_goes_before_a_busy_one() -> None:
    async def work() -> None:
        sources = [FakeSource(name) for name in "abc"]
        models = catalog(*sources, total=20)
        async with models.lease("a"):
            await use(models, "b")
            await use(models, "c")
            assert [source.open_now for source in sources] == [1, 0, 1]

    run(work())


def test_room_is_not_made_of_what_still_answers() -> None:
    async def work() -> None:
        one, other = FakeSource("one"), FakeSource("other")
        models = catalog(one, other, total=10, unload_timeout=0.0)
        async with models.lease("one"):
            with pytest.raises(ModelUnavailableError, match="insufficient_memory"):
                await use(models, "other")
            assert one.open_now == 1
            assert await use(models, "one") == "one"

    run(work())


def test_a_lone_model_is_loaded_whatever_the_estimate_says() -> None:
    async def work() -> None:
        assert await use(catalog(FakeSource("one", memory=99), total=10), None) == "one"

    run(work())


def test_unloading_waits_for_the_last_answer() -> None:
    async def work() -> None:
        one = FakeSource("one")
        models = catalog(one)
        async with models.lease(None):
            unloading = asyncio.ensure_future(models.unload("one"))
            await asyncio.sleep(0)
            assert one.open_now == 1
        assert (await unloading).status is ModelStatus.UNLOADED
        assert one.open_now == 0

    run(work())


def test_a_request_that_comes_while_a_model_goes_has_it_loaded_again() -> None:
    async def work() -> None:
        one = FakeSource("one")
        models = catalog(one)
        async with models.lease(None):
            unloading = asyncio.ensure_future(models.unload("one"))
            await asyncio.sleep(0)
            user = asyncio.ensure_future(use(models, None))
            await asyncio.sleep(0)
            assert not user.done()
        await unloading
        assert await user == "one"
        assert one.loads == 2

    run(work())


def test_a_model_that_answers_for_too_long_stays() -> None:
    async def work() -> None:
        models = catalog(FakeSource("one"), unload_timeout=0.0)
        async with models.lease(None):
            with pytest.raises(ModelBusyError, match="1 request"):
                await models.unload("one")
        assert models.state("one").status is ModelStatus.LOADED
        assert await use(models, None) == "one"

    run(work())


def test_reloading_loads_again() -> None:
    async def work() -> None:
        one = FakeSource("one")
        models = catalog(one)
        models.load_now()
        assert (await models.reload("one")).status is ModelStatus.LOADED
        assert (one.loads, one.open_now) == (2, 1)

    run(work())


def test_a_reload_tries_at_once_what_failed() -> None:
    async def work() -> None:
        one = FakeSource("one")
        one.error = ModelLoadError("Broken.")
        models = catalog(one)
        with pytest.raises(ModelUnavailableError):
            await use(models, None)
        one.error = None
        assert (await models.reload("one")).status is ModelStatus.LOADED

    run(work())


def test_a_model_that_nobody_asks_for_is_unloaded() -> None:
    async def work() -> None:
        one = FakeSource("one")
        models = catalog(one, idle_unload=0.0)
        await use(models, None)
        await until(lambda: one.open_now == 0)
        assert await use(models, None) == "one"

    run(work())


def test_a_model_in_use_is_not_idle() -> None:
    async def work() -> None:
        one = FakeSource("one")
        models = catalog(one, idle_unload=0.0)
        models.load_now()
        async with models.lease(None):
            models.start()
            for _ in range(10):
                await asyncio.sleep(0)
            assert one.open_now == 1

    run(work())


def test_what_was_loaded_before_the_loop_can_become_idle() -> None:
    async def work() -> None:
        one = FakeSource("one")
        models = catalog(one, idle_unload=0.0)
        models.load_now()
        models.start()
        await until(lambda: one.open_now == 0)

    run(work())


def test_a_draining_server_loads_nothing() -> None:
    async def work() -> None:
        one, other = FakeSource("one"), FakeSource("other")
        models = catalog(one, other)
        models.load_now()
        models.drain()
        assert one.engine.drained.is_set()
        assert not models.ready
        with pytest.raises(ShuttingDownError):
            await use(models, "other")
        assert other.loads == 0

    run(work())


def test_closing_lets_all_go() -> None:
    one, other = FakeSource("one"), FakeSource("other")
    models = catalog(one, other)
    models.load_now("one")
    models.load_now("other")
    models.close()
    assert (one.open_now, other.open_now) == (0, 0)


def test_a_load_that_outlives_the_loop_is_closed() -> None:
    one = FakeSource("one")
    models = catalog(one)

    async def work() -> None:
        one.gate.clear()
        user = asyncio.ensure_future(use(models, None))
        await until(lambda: one.loads == 1)
        user.cancel()
        one.gate.set()

    asyncio.run(work())
    models.close()
    assert (one.loads, one.open_now) == (1, 0)


def test_kinds_do_not_mix() -> None:
    async def work() -> None:
        text, vectors = FakeSource("text"), FakeSource("vectors", ModelKind.EMBEDDING)
        models = catalog(text, vectors)
        with pytest.raises(WrongModelKindError, match="generates no text"):
            await use(models, "vectors")
        with pytest.raises(WrongModelKindError, match="makes no embeddings"):
            async with models.lease_embedder("text"):
                pass
        async with models.lease_embedder(None) as found:
            assert found.name == "vectors"
            assert found.embedder.embed(["ab"]).vectors.tolist() == [[2.0, 1.0]]
        with pytest.raises(UnknownModelError):
            await use(models, "none")

    run(work())


def test_rerankers_rank_and_so_do_embedding_models() -> None:
    async def work() -> None:
        vectors = FakeSource("vectors", ModelKind.EMBEDDING)
        ranks = FakeSource("ranks", ModelKind.RERANKER)
        models = catalog(FakeSource("text"), vectors, ranks)
        async with models.lease_ranker(None) as found:
            assert isinstance(found, ServedReranker)
            assert found.reranker.score("q", ["ab"]).values.tolist() == [2.0]
        async with models.lease_ranker("vectors") as other:
            assert isinstance(other, ServedEmbedder)
        with pytest.raises(WrongModelKindError, match="ranks no documents"):
            async with models.lease_ranker("text"):
                pass
        with pytest.raises(WrongModelKindError, match="is a reranker"):
            async with models.lease_embedder("ranks"):
                pass

    run(work())


def test_readiness_is_that_of_the_loaded_engines() -> None:
    one, other = FakeSource("one"), FakeSource("other")
    models = catalog(one, other)
    assert (models.ready, models.alive) == (True, True)
    models.load_now()
    one.engine.ready = one.engine.alive = False
    assert (models.ready, models.alive) == (False, False)
    assert set(models.engines()) == {"one"}
