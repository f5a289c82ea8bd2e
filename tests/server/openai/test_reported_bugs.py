"""What users of other servers have reported of chat completions, by its symptom.

Those that need a real model are in ``tests/e2e/test_reported_bugs.py``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from starlette.testclient import TestClient

from mrs.chat_template import ChatTemplate
from mrs.errors import ChatTemplateError
from mrs.runtime.generation import FinishReason, GenerationRequest, Grammar
from mrs.runtime.grammar import (
    choice_grammar,
    json_object_grammar,
    json_schema_grammar,
    regex_grammar,
)
from mrs.server.app import create_app
from mrs.server.settings import ServerSettings
from tests.server.fake_engine import Deltas, FakeEncoder, FakeEngine, end, say, served, token
from tests.server.live_server import events

HI = {"role": "user", "content": "hi"}
ADD = {
    "type": "function",
    "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {}}}},
}
CALL = '<tool_call>{"name": "add", "arguments": {"a": {"b": [1, 2]}}}</tool_call>'


def ask(client: TestClient, **fields: Any) -> Any:
    return client.post("/v1/chat/completions", json={"messages": [HI], **fields})


def chunks(client: TestClient, **fields: Any) -> list[dict[str, Any]]:
    *data, done = events(ask(client, stream=True, **fields).content)
    assert done == "[DONE]"
    return [json.loads(item) for item in data]


def streamed_calls(parts: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    calls: dict[int, list[str]] = {}
    for part in parts:
        for delta in part["choices"][0]["delta"].get("tool_calls", ()):
            name_and_arguments = calls.setdefault(delta["index"], ["", ""])
            name_and_arguments[0] += delta["function"].get("name", "")
            name_and_arguments[1] += delta["function"].get("arguments", "")
    return [(name, arguments) for name, arguments in calls.values()]


def test_finish_reason_is_an_empty_string_in_chunks(client: TestClient) -> None:
    """ollama#4357."""
    reasons = [part["choices"][0]["finish_reason"] for part in chunks(client)]
    assert reasons == [None] * (len(reasons) - 1) + ["stop"]


@pytest.mark.parametrize("n", [1, 3])
def test_done_is_sent_once_per_choice_or_not_at_all(client: TestClient, n: int) -> None:
    """vllm-mlx#101, vllm#378."""
    sent = events(ask(client, stream=True, n=n).content)
    assert sent.count("[DONE]") == 1
    assert sent[-1] == "[DONE]"


def test_arguments_are_missing_from_the_stream(client: TestClient, engine: FakeEngine) -> None:
    """vllm#9693."""
    engine.script = say(*CALL)
    [call] = ask(client, tools=[ADD]).json()["choices"][0]["message"]["tool_calls"]
    function = (call["function"]["name"], call["function"]["arguments"])
    assert streamed_calls(chunks(client, tools=[ADD])) == [function]
    assert json.loads(function[1]) == {"a": {"b": [1, 2]}}


CHOICES: list[Any] = ["auto", "required", {"type": "function", "function": {"name": "add"}}]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("choice", CHOICES, ids=["auto", "required", "named"])
@pytest.mark.parametrize(("text", "reason"), [(CALL, "tool_calls"), ("No.", "stop")])
def test_the_finish_reason_does_not_fit_the_calls(
    client: TestClient, engine: FakeEngine, stream: bool, choice: Any, text: str, reason: str
) -> None:
    """vllm#53255, #9209, sglang#2877: ``stop`` with calls, or ``tool_calls`` without."""
    engine.script = say(*text)
    fields = {"tools": [ADD], "tool_choice": choice}
    if stream:
        found = chunks(client, **fields)[-1]["choices"][0]["finish_reason"]
    else:
        found = ask(client, **fields).json()["choices"][0]["finish_reason"]
    assert found == reason


def test_a_call_that_is_cut_off_looks_complete(client: TestClient, engine: FakeEngine) -> None:
    """The same: ``length`` if the limit cut it."""

    def script(request: GenerationRequest) -> Sequence[Deltas]:
        return [(token(CALL[:50]),), (end(0, FinishReason.LENGTH),)]

    engine.script = script
    [choice] = ask(client, tools=[ADD]).json()["choices"]
    assert choice["finish_reason"] == "length"
    assert chunks(client, tools=[ADD])[-1]["choices"][0]["finish_reason"] == "length"


SENTENCE = "Conversation roles must alternate user/assistant"
REFUSING = (
    "{% for m in messages %}{% if m.role != ['user', 'assistant'][loop.index0 % 2] %}"
    "{{ raise_exception('" + SENTENCE + "') }}{% endif %}{{ m.content }}{% endfor %}"
)


class TemplateEncoder(FakeEncoder):
    """Renders a template, as the real one does."""

    def encode_chat(self, messages: Any, **variables: Any) -> tuple[int, ...]:
        variables.pop("continue_final", None)
        return tuple(map(ord, ChatTemplate(REFUSING).render(messages, **variables)))


@pytest.mark.parametrize(
    "roles", [("system", "user"), ("user", "user"), ("system",), ("user", "assistant", "assistant")]
)
def test_a_template_that_refuses_roles_gives_a_500_or_nothing(roles: tuple[str, ...]) -> None:
    """mistral.rs#506, #45, sglang#892, jan#6254."""
    app = create_app(served(FakeEngine(), TemplateEncoder(), REFUSING), ServerSettings())
    client = TestClient(app, base_url="http://127.0.0.1")
    reply = ask(client, messages=[{"role": role, "content": "x"} for role in roles])
    assert reply.status_code == 400
    assert reply.json()["error"]["type"] == "invalid_request_error"
    assert SENTENCE in reply.json()["error"]["message"]
    with pytest.raises(ChatTemplateError):
        ChatTemplate(REFUSING).render([{"role": role, "content": ""} for role in roles])


@pytest.mark.parametrize(
    "fields",
    [
        {"logit_bias": {"AI": -100}},
        {"logit_bias": {"-5": 1}},
        {"stop_token_ids": [-1]},
        {"stop_token_ids": list(range(2000))},
        {"logit_bias": {str(i): 1 for i in range(5000)}},
        {"stop": ["x"] * 10_000},
        {"tools": [ADD] * 1000},
        {"n": 0},
        {"n": 10**9},
        {"max_tokens": 0},
        {"top_logprobs": 10**6, "logprobs": True},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_values_beyond_all_bounds_kill_the_server(
    client: TestClient, fields: dict[str, Any]
) -> None:
    """vllm#5963, #16529, #54195, #55164; mistral.rs#1874."""
    assert ask(client, **fields).status_code == 400
    assert ask(client).status_code == 200


@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant", "tool"])
def test_content_parts_are_refused_for_all_roles_but_the_user(
    client: TestClient, encoder: FakeEncoder, role: str
) -> None:
    """mistral.rs: ``Role for an image message must be `user```."""
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    message = {"role": role, "content": parts, "tool_call_id": "call_1"}
    assert ask(client, messages=[HI, message]).status_code == 200
    assert "a\nb" in encoder.conversations[-1][1]["content"]


def test_parts_without_a_type_are_refused(client: TestClient) -> None:
    """mistral.rs, of the clients rig and Cherry Studio."""
    assert ask(client, messages=[{"role": "user", "content": [{"text": "a"}]}]).status_code == 200


def test_the_space_that_an_answer_begins_with_is_lost(
    client: TestClient, engine: FakeEngine
) -> None:
    """mistral.rs trims it, also with tools."""
    engine.script = say("   if x:", "\n", "        y\n")
    for fields in ({}, {"tools": [ADD]}):
        [choice] = ask(client, **fields).json()["choices"]
        assert choice["message"]["content"] == "   if x:\n        y\n"


def test_one_choice_that_has_ended_stops_the_others(client: TestClient, engine: FakeEngine) -> None:
    """mistral.rs: a chunk was sent only when every choice had one."""

    def script(request: GenerationRequest) -> Sequence[Deltas]:
        return [(token("a", 0),), (end(0),), (token("b", 1),), (token("c", 1),), (end(1),)]

    engine.script = script
    told = [
        part["choices"][0]["delta"]["content"]
        for part in chunks(client, n=2)
        if part["choices"][0]["delta"].get("content")
    ]
    assert told == ["a", "b", "c"]


def test_usage_of_a_stream_cannot_be_asked_for(client: TestClient) -> None:
    """mistral.rs ignores ``stream_options``."""
    [*_, last] = chunks(client, stream_options={"include_usage": True})
    assert (last["choices"], last["usage"]["completion_tokens"]) == ([], 3)


def test_template_variables_override_the_servers_own(client: TestClient) -> None:
    """vllm, CVE-2025-62426."""
    for name in ("tokenize", "messages", "add_generation_prompt", "tools", "chat_template"):
        reply = ask(client, chat_template_kwargs={name: True})
        assert reply.status_code == 400
        assert reply.json()["error"]["param"] == f"chat_template_kwargs.{name}"


def test_a_request_brings_its_own_template(client: TestClient) -> None:
    """vllm, CVE-2025-61620; SGLang, CVE-2026-5760: one that never ends, or runs code."""
    template = "{% for a in range(10**9) %}{% endfor %}{{ ''.__class__ }}"
    for path in ("/v1/chat/completions", "/apply-template", "/tokenize"):
        reply = client.post(path, json={"messages": [HI], "chat_template": template})
        assert reply.status_code == 400
        assert reply.json()["error"]["param"] == "chat_template"


def test_tensors_of_a_client_are_loaded(client: TestClient) -> None:
    """vllm, CVE-2025-62164: ``prompt_embeds`` went to ``torch.load``."""
    for path, prompt in (("chat/completions", {"messages": [HI]}), ("completions", {"prompt": ""})):
        reply = client.post(f"/v1/{path}", json={**prompt, "prompt_embeds": "gASVAAAA"})
        assert reply.status_code == 400
        assert reply.json()["error"]["param"] == "prompt_embeds"


@pytest.mark.parametrize(
    "fields",
    [
        {"guided_grammar": 'root ::= "a"'},
        {"structured_outputs": {"grammar": 'root ::= "a"'}},
        {"structured_outputs": {"structural_tag": "{}"}},
        {"structured_outputs": {"regex": "a+", "whitespace_pattern": " "}},
        {"allowed_token_ids": [1]},
    ],
    ids=str,
)
def test_a_constraint_of_another_server_is_dropped(
    client: TestClient, fields: dict[str, Any]
) -> None:
    """llama.cpp#19051: the answer came, without the constraint."""
    for path, prompt in (
        ("chat/completions", {"messages": [HI]}),
        ("completions", {"prompt": "a"}),
    ):
        error = client.post(f"/v1/{path}", json={**prompt, **fields}).json()["error"]
        assert error["param"] == next(iter(fields))


@pytest.mark.parametrize(
    ("fields", "grammar"),
    [
        ({"guided_choice": ["a", "b"]}, choice_grammar(["a", "b"])),
        ({"guided_regex": "a+"}, regex_grammar("a+")),
        ({"guided_json": {"const": 1}}, json_schema_grammar({"const": 1})),
        ({"guided_json": '{"const": 1}'}, json_schema_grammar('{"const": 1}')),
        ({"json_schema": {"const": 1}}, json_schema_grammar({"const": 1})),
        ({"structured_outputs": {"json": {"const": 1}}}, json_schema_grammar({"const": 1})),
        ({"structured_outputs": {"choice": ["a"], "regex": None}}, choice_grammar(["a"])),
        ({"structured_outputs": {"regex": "a", "json_object": False}}, regex_grammar("a")),
        ({"structured_outputs": {"json": False}}, json_schema_grammar(False)),
        ({"structured_outputs": {"json_object": True}}, json_object_grammar()),
        ({"guided_choice": [], "guided_regex": ""}, None),
    ],
    ids=str,
)
def test_a_constraint_of_another_server_holds(
    client: TestClient, engine: FakeEngine, fields: dict[str, Any], grammar: Grammar | None
) -> None:
    """vLLM's and llama.cpp's names of it."""
    for path, prompt in (
        ("chat/completions", {"messages": [HI]}),
        ("completions", {"prompt": "a"}),
    ):
        reply = client.post(f"/v1/{path}", json={**prompt, **fields})
        assert reply.status_code == 200, reply.text
        assert engine.requests[-1].sampling.grammar == grammar


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"structured_outputs": {}}, "structured_outputs"),
        ({"structured_outputs": {"regex": "a", "choice": ["a"]}}, "structured_outputs"),
        ({"structured_outputs": {"json_object": 1}}, "structured_outputs.json_object"),
        ({"structured_outputs": {"choice": []}}, "choice"),
        ({"guided_json": 3}, "guided_json"),
        ({"guided_regex": "a", "grammar": {"type": "regex", "value": "b"}}, "guided_regex"),
        ({"guided_regex": "a", "response_format": {"type": "json_object"}}, "guided_regex"),
    ],
    ids=str,
)
def test_a_constraint_that_says_too_little_or_too_much_is_refused(
    client: TestClient, fields: dict[str, Any], param: str
) -> None:
    for path, prompt in (
        ("chat/completions", {"messages": [HI]}),
        ("completions", {"prompt": "a"}),
    ):
        reply = client.post(f"/v1/{path}", json={**prompt, **fields})
        assert reply.status_code == 400
        assert reply.json()["error"]["param"].startswith(param)


def test_the_schema_of_a_json_object_is_dropped(client: TestClient, engine: FakeEngine) -> None:
    """llama.cpp and Together take one beside ``json_object``."""
    ask(client, response_format={"type": "json_object", "schema": {"const": "42"}})
    assert engine.requests[-1].sampling.grammar == json_schema_grammar({"const": "42"})
    reply = ask(client, response_format={"type": "json_object", "schema": 123})
    assert reply.status_code == 400
    assert reply.json()["error"]["param"].startswith("response_format.schema")


def test_a_parser_of_calls_takes_exponential_time(client: TestClient, engine: FakeEngine) -> None:
    """vllm, CVE-2025-48887: a model's text of this kind took minutes."""
    engine.script = say("[add(" + "a=" * 20_000, "(" * 20_000, "{[" * 20_000)
    assert ask(client, tools=[ADD]).json()["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("schema", [{"type": "hiccup"}, {"properties": {"a": {"type": "int"}}}])
def test_a_schema_that_is_none_is_accepted(client: TestClient, schema: dict[str, Any]) -> None:
    """vllm#12201, llama.cpp."""
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    error = ask(client, tools=[tool]).json()["error"]
    assert error["param"].startswith("tools[0].function.parameters")
    assert "'f'" in error["message"]
