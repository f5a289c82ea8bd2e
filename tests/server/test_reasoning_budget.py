"""Budgets of reasoning: what each dialect asks of the engine."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from mrs.runtime.generation import ReasoningBudget
from mrs.server.app import create_app
from mrs.server.settings import ServerSettings
from tests.server.fake_engine import FakeEngine, say, served

TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}<think> </think>{{ enable_thinking }}"
HARMONY = "<|channel|>analysis<|message|> <|start|> {{ messages }}"
HI = {"role": "user", "content": "hi"}
CLOSING = tuple(map(ord, "</think>"))
FIELDS: dict[str, Any] = {"thinking_token_budget": 7}
DIALECTS: list[Any] = [
    pytest.param("/v1/chat/completions", {"messages": [HI], **FIELDS}, id="chat"),
    pytest.param("/v1/responses", {"input": "hi", **FIELDS}, id="responses"),
    pytest.param(
        "/v1/messages",
        {
            "messages": [HI],
            "max_tokens": 20,
            "thinking": {"type": "enabled", "budget_tokens": 7},
        },
        id="messages",
    ),
]


def answer(path: str, body: dict[str, Any], template: str | None, engine: FakeEngine) -> Any:
    app = create_app(served(engine, chat_template=template), ServerSettings())
    return TestClient(app, base_url="http://127.0.0.1").post(path, json=body)


def asked(path: str, body: dict[str, Any], template: str | None) -> ReasoningBudget | None:
    """The budget that reaches the engine."""
    engine = FakeEngine(say("<think>a</think>b"))
    reply = answer(path, body, template, engine)
    assert reply.status_code == 200, reply.text
    return engine.requests[-1].sampling.reasoning_budget


@pytest.mark.parametrize(("path", "body"), DIALECTS)
def test_reaches_the_engine(path: str, body: dict[str, Any]) -> None:
    wanted = ReasoningBudget(7, False, "<think>", "</think>", CLOSING)
    assert asked(path, body, TEMPLATE) == wanted


@pytest.mark.parametrize(("path", "body"), DIALECTS)
def test_without_marks_there_is_nothing_to_close(path: str, body: dict[str, Any]) -> None:
    assert asked(path, body, None) is None


@pytest.mark.parametrize(("path", "body"), DIALECTS)
def test_reasoning_in_a_channel_cannot_be_closed(path: str, body: dict[str, Any]) -> None:
    """Anthropic's clients must send a budget with thinking: there it is a wish."""
    if "thinking_token_budget" not in body:
        assert asked(path, body, HARMONY) is None
        return
    reply = answer(path, body, HARMONY, FakeEngine(say("a")))
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == "thinking_token_budget"


def test_nobody_has_one_unasked() -> None:
    assert asked("/v1/chat/completions", {"messages": [HI]}, TEMPLATE) is None


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
@pytest.mark.parametrize("value", [-1, "many", 1.5])
def test_other_values_are_refused(path: str, value: Any) -> None:
    app = create_app(served(FakeEngine(say("a"))), ServerSettings())
    body = {"messages": [HI], "input": "hi", "thinking_token_budget": value}
    reply = TestClient(app, base_url="http://127.0.0.1").post(path, json=body)
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == "thinking_token_budget"
