"""Tools and structured output of a real model, and the examples of chat completions."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import pytest
from openai import OpenAI

from tests.e2e.server_process import ServerProcess
from tests.e2e.test_anthropic_client import EXAMPLES, run_example

WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city now.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 20},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            },
            "required": ["city", "unit"],
        },
    },
}
STRICT: Any = {"type": "function", "function": {**WEATHER["function"], "strict": True}}
QUESTION: Any = [{"role": "user", "content": "What is the weather in Paris?"}]


@pytest.fixture(scope="module")
def client(server: ServerProcess) -> OpenAI:
    return server.client()


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "get_weather"}])
@pytest.mark.parametrize("temperature", [0, 1.5])
def test_a_forced_call_is_one_whatever_the_model(
    client: OpenAI, choice: Any, temperature: float
) -> None:
    completion = client.chat.completions.create(
        model="default",
        messages=QUESTION,
        tools=[WEATHER],
        tool_choice=choice,
        parallel_tool_calls=False,
        max_tokens=120,
        temperature=temperature,
        seed=7,
    )
    [found] = completion.choices
    assert found.finish_reason == "tool_calls"
    assert found.message.content is None
    [call] = found.message.tool_calls or []
    arguments = json.loads(call.function.arguments)  # type: ignore[union-attr]
    assert arguments.keys() == {"city", "unit"}
    assert arguments["unit"] in ("celsius", "fahrenheit")


def test_strict_tools_leave_the_model_free_to_talk(client: OpenAI) -> None:
    options: dict[str, Any] = {"messages": QUESTION, "max_tokens": 12, "temperature": 0}
    free = client.chat.completions.create(model="default", tools=[WEATHER], **options)
    strict = client.chat.completions.create(model="default", tools=[STRICT], **options)
    assert strict.choices[0].message == free.choices[0].message


def test_the_chat_example(server: ServerProcess) -> None:
    answer, tokens = run_example("openai_chat.py", server).splitlines()
    assert "Paris" in answer
    assert tokens.endswith(" tokens")


def test_the_streaming_example(server: ServerProcess) -> None:
    assert run_example("openai_streaming.py", server).splitlines()[-1].endswith(" tokens")


def test_the_tools_example(server: ServerProcess) -> None:
    arguments, reason, *answer = run_example("openai_tools.py", server).splitlines()
    assert json.loads(arguments).keys() == {"city", "unit"}
    assert reason == "tool_calls"
    assert "".join(answer)


def test_the_structured_output_example(server: ServerProcess) -> None:
    assert run_example("openai_structured_output.py", server).startswith("Animal(name='Rex', kind=")


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_curl_example(server: ServerProcess) -> None:
    command = [str(EXAMPLES / "chat.sh"), server.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    first, *_, last = done.stdout.strip().split("\n\n")
    assert last == "data: [DONE]"
    assert json.loads(first.removeprefix("data: "))["object"] == "chat.completion.chunk"
