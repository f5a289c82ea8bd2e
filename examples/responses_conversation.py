"""A conversation that the server keeps: ``python examples/responses_conversation.py [URL]``.

Needs a server (``mrs serve MODEL``) and ``pip install openai``. Each turn sends what is new and the
id of the response before; the server adds the rest, a called tool and its result among it.
"""

from __future__ import annotations

import json
import sys

from openai import OpenAI
from openai.types.responses import FunctionToolParam

WEATHER: FunctionToolParam = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city now.",
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 40}},
        "required": ["city"],
        "additionalProperties": False,
    },
}


def get_weather(city: str) -> str:
    """What a real tool would look up."""
    return f"It is sunny in {city}, at 21 degrees."


def main(url: str) -> None:
    """Ask, call a tool, answer, ask again."""
    client = OpenAI(base_url=f"{url}/v1", api_key="none")
    called = client.responses.create(
        model="default",
        input="What is the weather in Paris?",
        tools=[WEATHER],
        tool_choice="required",
        parallel_tool_calls=False,
        max_output_tokens=200,
        temperature=0,
    )
    call = next(item for item in called.output if item.type == "function_call")
    print(f"{call.name} {call.arguments}")

    result = get_weather(**json.loads(call.arguments))
    answer = client.responses.create(
        model="default",
        previous_response_id=called.id,
        input=[{"type": "function_call_output", "call_id": call.call_id, "output": result}],
        tools=[WEATHER],
        tool_choice="none",
        max_output_tokens=100,
        temperature=0,
    )
    print(answer.output_text)

    with client.responses.stream(
        model="default",
        previous_response_id=answer.id,
        input="What should I wear there?",
        max_output_tokens=100,
        temperature=0,
    ) as stream:
        for event in stream:
            if event.type == "response.output_text.delta":
                print(event.delta, end="", flush=True)
        last = stream.get_final_response()
    items = client.responses.input_items.list(last.id, order="asc")
    print("\n\nThe last answer was made from:", ", ".join(item.type for item in items))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:1234")
