"""Responses of a real model, and the examples of them."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import httpx
import pytest
from openai import OpenAI

from tests.e2e.server_process import ServerProcess
from tests.e2e.test_anthropic_client import run_example

SEA = "Describe the sea in one sentence."


@pytest.fixture
def sdk(server: ServerProcess) -> OpenAI:
    return server.client()


def ask(client: OpenAI, said: Any = SEA, **fields: Any) -> Any:
    fields = {"temperature": 0, "max_output_tokens": 24, **fields}
    return client.responses.create(model="default", input=said, **fields)


def test_a_stream_says_what_a_whole_response_and_a_chat_completion_say(sdk: OpenAI) -> None:
    whole = ask(sdk)
    with sdk.responses.stream(
        model="default", input=SEA, temperature=0, max_output_tokens=24
    ) as stream:
        text = "".join(
            event.delta for event in stream if event.type == "response.output_text.delta"
        )
    chat = sdk.chat.completions.create(
        model="default",
        messages=[{"role": "user", "content": SEA}],
        temperature=0,
        max_tokens=24,
    )
    assert whole.output_text == text == chat.choices[0].message.content
    assert whole.usage.input_tokens == chat.usage.prompt_tokens  # type: ignore[union-attr]
    assert whole.status == "incomplete"


def test_the_next_turn_computes_only_what_is_new(sdk: OpenAI) -> None:
    first = ask(sdk)
    second = ask(sdk, "Again, please.", previous_response_id=first.id)
    # The last token of a prompt or answer is computed again.
    known = first.usage.input_tokens + first.usage.output_tokens
    assert second.usage.input_tokens_details.cached_tokens >= known - 2


def test_a_schema_holds(sdk: OpenAI) -> None:
    schema = {
        "type": "object",
        "properties": {"color": {"enum": ["red", "green"]}, "size": {"type": "integer"}},
        "required": ["color", "size"],
        "additionalProperties": False,
    }
    response = ask(
        sdk,
        "Describe an apple.",
        max_output_tokens=100,
        text={"format": {"type": "json_schema", "name": "apple", "schema": schema}},
    )
    found = json.loads(response.output_text)
    assert set(found) == {"color", "size"}
    assert found["color"] in ("red", "green")


def test_cancelling_frees_the_engine(sdk: OpenAI, server: ServerProcess) -> None:
    response = ask(sdk, "Write a long story.", background=True, max_output_tokens=1500)
    while sdk.responses.retrieve(response.id).status == "queued":
        time.sleep(0.01)
    assert sdk.responses.cancel(response.id).status == "cancelled"
    deadline = time.monotonic() + 10
    while server.health()["running"] != 0:
        assert time.monotonic() < deadline
    assert sdk.responses.retrieve(response.id).status == "cancelled"


def test_a_prompt_that_cannot_fit_is_refused_or_truncated(
    sdk: OpenAI, server: ServerProcess
) -> None:
    long = [{"role": "user", "content": f"{number} " * 300} for number in range(12)]
    body = {"input": long, "max_output_tokens": 4}
    url = f"{server.url}/v1/responses"
    refused = httpx.post(url, json=body, timeout=60)
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "context_length_exceeded"
    answered = httpx.post(url, json={**body, "truncation": "auto"}, timeout=60)
    assert answered.status_code == 200
    assert answered.json()["usage"]["input_tokens"] <= 2044


def test_the_example_of_a_conversation(server: ServerProcess) -> None:
    printed = run_example("responses_conversation.py", server)
    assert re.match(r'get_weather \{\s*"city":', printed), printed
    kinds = printed.strip().splitlines()[-1].partition(": ")[2]
    assert kinds == "message, function_call, function_call_output, message, message"


def test_the_example_of_the_background(server: ServerProcess) -> None:
    printed = run_example("responses_background.py", server)
    assert re.search(r"^(completed|incomplete): \S", printed, re.MULTILINE), printed
    assert "cancelled: " in printed
    assert "nothing is missing" in printed
