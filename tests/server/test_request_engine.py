from __future__ import annotations

import asyncio
import gc
import weakref
from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from mrs.runtime.generation import GenerationDelta, GenerationRequest
from mrs.server.app import create_app
from mrs.server.model_catalog import SingleModel
from mrs.server.model_names import ModelNames
from mrs.server.request_catalog import RequestCatalog
from mrs.server.request_engine import RequestEngine
from mrs.server.resident_models import ResidentModels
from mrs.server.settings import ServerSettings
from tests.server.fake_engine import FakeEngine, say, served, token
from tests.server.fake_models import FakeSource

REQUEST = GenerationRequest((1, 2))


class Observer:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def admitted(self, model: str, request: GenerationRequest) -> Observer:
        self.heard.append(model)
        return self

    def refused(self, model: str, error: Exception) -> None:
        self.heard.append(error)

    def step(self, deltas: tuple[GenerationDelta, ...]) -> None:
        self.heard.append(deltas)

    def ended(self) -> None:
        self.heard.append("ended")


def run(engine: RequestEngine, request: GenerationRequest = REQUEST, steps: int = 9) -> list[Any]:
    """The first steps of a stream, which is then left."""

    async def read() -> list[Any]:
        found: list[Any] = []
        iterator = engine.submit(request).__aiter__()
        async for deltas in iterator:
            found.append(deltas)
            if len(found) == steps:
                break
        await iterator.aclose()  # type: ignore[attr-defined]
        return found

    return asyncio.run(read())


def test_a_stream_is_told_step_by_step_and_once_at_its_end() -> None:
    observer = Observer()
    engine = FakeEngine(say("a"))
    found = run(RequestEngine(engine, "m", observer))
    assert observer.heard == ["m", *found, "ended"]


def test_a_stream_that_is_left_has_ended() -> None:
    observer = Observer()
    engine = FakeEngine(lambda request: [(token("a"),)])
    run(RequestEngine(engine, "m", observer), steps=1)
    assert observer.heard[-1] == "ended"


def test_a_refusal_is_told_and_raised() -> None:
    observer, engine = Observer(), FakeEngine()
    engine.refusal = ValueError("no")
    with pytest.raises(ValueError, match="no"):
        run(RequestEngine(engine, "m", observer))
    assert observer.heard == [engine.refusal]


def test_an_answer_without_a_bound_gets_that_of_the_server() -> None:
    engine = FakeEngine(say("a"))
    bounded = RequestEngine(engine, "m", timeout=7.0)
    run(bounded)
    run(bounded, replace(REQUEST, timeout=3.0))
    assert [request.timeout for request in engine.requests] == [7.0, 3.0]


def test_outside_of_a_request_nothing_is_salted() -> None:
    engine = FakeEngine(say("a"))
    run(RequestEngine(engine, "m"))
    assert engine.requests == [REQUEST]


def test_a_model_is_the_same_object_at_each_lease() -> None:
    catalog = RequestCatalog(SingleModel(served(FakeEngine())))

    async def lease() -> Any:
        async with catalog.lease(None) as model:
            return model

    assert asyncio.run(lease()) is asyncio.run(lease())


def test_an_unloaded_model_is_free_to_go() -> None:
    source = FakeSource("m")
    models = ResidentModels([source], ModelNames([source.description]))
    catalog = RequestCatalog(models)

    async def lease_and_unload() -> weakref.ref[FakeEngine]:
        async with catalog.lease(None):
            engine = weakref.ref(source.engine)
        source.engine = FakeEngine()  # The source itself forgets it.
        await models.unload("m")
        return engine

    gone = asyncio.run(lease_and_unload())
    gc.collect()
    assert gone() is None


def test_the_option_reaches_the_engine() -> None:
    engine = FakeEngine(say("a"))
    app = create_app(served(engine), ServerSettings(request_timeout=9.0))
    body = {"messages": [{"role": "user", "content": "x"}]}
    TestClient(app, base_url="http://127.0.0.1").post("/v1/chat/completions", json=body)
    assert engine.requests[0].timeout == 9.0
