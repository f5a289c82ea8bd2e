from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient

from mrs.server.app import create_app
from mrs.server.request_limits import TooManyError, check_limits
from mrs.server.settings import RequestLimits, ServerSettings
from tests.server.fake_engine import FakeEngine, say, served

LIMITS = RequestLimits(messages=2, tools=2, choices=2, stops=2, prompts=2, schema_bytes=20)


def request(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


@pytest.mark.parametrize(
    "name", ["messages", "input", "tools", "functions", "stop", "stop_sequences"]
)
def test_lists_are_counted(name: str) -> None:
    check_limits(request(**{name: ["a"] * 2}), LIMITS)
    with pytest.raises(TooManyError) as caught:
        check_limits(request(**{name: ["a"] * 3}), LIMITS)
    assert caught.value.param == name
    assert "3" in caught.value.message


@pytest.mark.parametrize("name", ["n", "best_of"])
def test_choices_are_bounded(name: str) -> None:
    check_limits(request(**{name: 2}), LIMITS)
    with pytest.raises(TooManyError, match=f"'{name}' is 3"):
        check_limits(request(**{name: 3}), LIMITS)


def test_prompts_are_counted_but_not_their_tokens() -> None:
    check_limits(request(prompt=["a", "b"]), LIMITS)
    check_limits(request(prompt=[1, 2, 3]), LIMITS)
    check_limits(request(prompt="abc"), LIMITS)
    with pytest.raises(TooManyError):
        check_limits(request(prompt=["a", "b", "c"]), LIMITS)


def test_token_ids_are_one_text() -> None:
    check_limits(request(input=[1, 2, 3]), LIMITS)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/responses", {"input": [{"role": "user", "content": "x"}] * 2}),
        (
            "/v1/messages",
            {
                "max_tokens": 1,
                "model": "default",
                "messages": [{"role": "user", "content": "x"}] * 2,
            },
        ),
    ],
)
def test_every_dialect_is_bounded(path: str, body: dict[str, Any]) -> None:
    settings = ServerSettings(limits=RequestLimits(messages=1))
    app = create_app(served(FakeEngine(say("x"))), settings)
    reply = TestClient(app, base_url="http://127.0.0.1").post(path, json=body)
    assert reply.status_code == 400
    assert "this server takes 1" in reply.text


def test_schemas_are_measured() -> None:
    check_limits(request(response_format={"a": "b" * 5}), LIMITS)
    with pytest.raises(TooManyError, match="bytes as JSON"):
        check_limits(request(response_format={"a": "b" * 50}), LIMITS)


def test_numbers_of_any_size_are_measured() -> None:
    check_limits(request(tools=[{"a": 10**9}]), LIMITS)
    with pytest.raises(TooManyError):
        check_limits(request(tools=[{"a": 10**30}]), LIMITS)


def test_absent_fields_are_within_all_limits() -> None:
    check_limits(request(messages=None, tools=None, n=None, stop=None, input="text"), LIMITS)


def test_a_request_above_a_limit_is_400_and_names_the_field() -> None:
    settings = ServerSettings(limits=RequestLimits(messages=1))
    app = create_app(served(FakeEngine(say("x"))), settings)
    client = TestClient(app, base_url="http://127.0.0.1")
    message = {"role": "user", "content": "x"}
    assert client.post("/v1/chat/completions", json={"messages": [message]}).status_code == 200
    reply = client.post("/v1/chat/completions", json={"messages": [message] * 2})
    assert reply.status_code == 400
    assert (reply.json()["error"]["param"], reply.json()["error"]["code"]) == (
        "messages",
        "limit_exceeded",
    )
