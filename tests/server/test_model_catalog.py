from __future__ import annotations

import asyncio

import pytest

from mrs.errors import UnknownModelError
from mrs.server.model_catalog import SingleModel
from mrs.server.served_model import ServedModel
from tests.server.fake_engine import FakeEngine, served


def lease(name: str | None) -> ServedModel:
    async def enter() -> ServedModel:
        async with SingleModel(served(FakeEngine())).lease(name) as model:
            return model

    return asyncio.run(enter())


@pytest.mark.parametrize("name", [None, "tiny/fake", "default"])
def test_the_model_answers_to_its_name_and_to_default(name: str | None) -> None:
    assert lease(name).name == "tiny/fake"


@pytest.mark.parametrize("name", ["gpt-4", "", "tiny", "Default", "tiny/fake "])
def test_other_models_are_unknown_and_the_served_one_is_named(name: str) -> None:
    with pytest.raises(UnknownModelError) as caught:
        lease(name)
    assert caught.value.param == "model"
    assert "'tiny/fake'" in caught.value.message
