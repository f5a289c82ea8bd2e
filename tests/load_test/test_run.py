from __future__ import annotations

import asyncio

import pytest

from mrs.errors import EngineError
from mrs.load_test.completion import Endpoint, Target
from mrs.load_test.http_stream import ServerAddress
from mrs.load_test.load import Streams
from mrs.load_test.prompts import prompt
from mrs.load_test.report import Objective
from mrs.load_test.run import first_model, run_load, warm_up
from tests.load_test.scripted_server import answer, scripted_server


def target(url: str) -> Target:
    return Target(ServerAddress.from_url(url), "m", Endpoint.CHAT, 3)


def test_every_request_has_a_prompt_of_its_own() -> None:
    with scripted_server(lambda body: answer("a", "b")) as server:
        found = asyncio.run(
            run_load(
                target(server.url),
                Streams(3),
                requests=9,
                prompt_tokens=20,
                objective=Objective(),
            )
        )
    prompts = {body["messages"][0]["content"] for body in server.requests}
    assert len(prompts) == 9
    assert {len(text.split()) for text in prompts} == {20}
    assert (found.requests, found.failed, found.output_tokens) == (9, 0, 3)
    assert server.most_at_once <= 3


def test_a_number_has_always_the_same_prompt() -> None:
    assert prompt(30, 5) == prompt(30, 5) != prompt(30, 6)


def test_a_server_that_refuses_the_first_request_is_told_of_at_once() -> None:
    with (
        scripted_server(lambda body: b"HTTP/1.1 401 No\r\n\r\nno key") as server,
        pytest.raises(EngineError, match="status 401: no key"),
    ):
        asyncio.run(warm_up(target(server.url), 5))


def test_the_first_listed_model_is_the_default() -> None:
    with scripted_server(lambda body: b"") as server:
        assert asyncio.run(first_model(ServerAddress.from_url(server.url))) == "scripted"
