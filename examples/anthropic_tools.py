"""Let a model call a tool, streamed, with Anthropic's client: ``anthropic_tools.py [URL]``.

Needs a server (``mrs serve MODEL``) and ``pip install anthropic``. The first request must call the
tool, which the server enforces; its input is printed while the model writes it. The second request
carries the tool's result, and the model answers.
"""

from __future__ import annotations

import sys

from anthropic import Anthropic
from anthropic.types import MessageParam, ToolParam, ToolResultBlockParam

WEATHER: ToolParam = {
    "name": "get_weather",
    "description": "The weather in a city now.",
    "strict": True,
    "input_schema": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 40},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        },
        "required": ["city", "unit"],
        "additionalProperties": False,
    },
}

# Newer clients have no parameter for it.
GREEDY = {"temperature": 0}


def get_weather(city: str, unit: str) -> str:
    """What a real tool would look up."""
    degrees = 21 if unit == "celsius" else 70
    return f"It is sunny in {city}, at {degrees} degrees {unit}."


def main(url: str) -> None:
    """Ask, call, answer."""
    client = Anthropic(base_url=url, api_key="none")
    messages: list[MessageParam] = [
        {"role": "user", "content": "What is the weather in Paris? I think in celsius."}
    ]
    with client.messages.stream(
        model="default",
        max_tokens=80,
        messages=messages,
        tools=[WEATHER],
        tool_choice={"type": "any", "disable_parallel_tool_use": True},
        extra_body=GREEDY,
    ) as stream:
        for event in stream:
            if event.type == "content_block_start" and event.content_block.type == "tool_use":
                print(f"{event.content_block.name} ", end="")
            elif event.type == "input_json":
                print(event.partial_json, end="", flush=True)
        called = stream.get_final_message()
    print(f"\n{called.stop_reason}")

    results: list[ToolResultBlockParam] = [
        {
            "type": "tool_result",
            "tool_use_id": block.id,
            "content": get_weather(str(block.input["city"]), str(block.input["unit"])),
        }
        for block in called.content
        if block.type == "tool_use"
    ]
    messages += [
        {"role": "assistant", "content": called.content},
        {"role": "user", "content": results},
    ]
    answer = client.messages.create(
        model="default", max_tokens=40, messages=messages, tools=[WEATHER], extra_body=GREEDY
    )
    print("".join(block.text for block in answer.content if block.type == "text"))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:1234")
