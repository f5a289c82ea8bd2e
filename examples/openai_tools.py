"""Let a model call a function, and answer with its result: ``openai_tools.py [URL]``.

Needs a server (``mrs serve MODEL``) and ``pip install openai``. The first request must call, which
the server enforces: name and arguments match, whatever the model. The second carries the result.
"""

from __future__ import annotations

import json
import sys

from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

WEATHER: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city now.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 40},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            },
            "required": ["city", "unit"],
        },
    },
}


def get_weather(city: str, unit: str) -> str:
    """What a real tool would look up."""
    degrees = 21 if unit == "celsius" else 70
    return f"It is sunny in {city}, at {degrees} degrees {unit}."


def main(url: str) -> None:
    """Ask, call, answer."""
    client = OpenAI(base_url=f"{url}/v1", api_key="none")
    messages: list[ChatCompletionMessageParam] = [
        {"role": "user", "content": "What is the weather in Paris? I think in celsius."}
    ]
    with client.chat.completions.stream(
        model="default",
        messages=messages,
        tools=[WEATHER],
        tool_choice="required",
        parallel_tool_calls=False,
        max_tokens=200,
        temperature=0,
    ) as stream:
        for event in stream:
            if event.type == "tool_calls.function.arguments.delta":
                print(event.arguments_delta, end="", flush=True)
        choice = stream.get_final_completion().choices[0]
    print(f"\n{choice.finish_reason}")

    calls = choice.message.tool_calls or []
    messages.append(
        {
            "role": "assistant",
            "tool_calls": [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {
                        "name": call.function.name,
                        "arguments": call.function.arguments,
                    },
                }
                for call in calls
            ],
        }
    )
    for call in calls:
        result = get_weather(**json.loads(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    answer = client.chat.completions.create(
        model="default",
        messages=messages,
        tools=[WEATHER],
        tool_choice="none",
        max_tokens=100,
        temperature=0,
    )
    print(answer.choices[0].message.content)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:1234")
