"""Tools, reasoning and structured output through the real openai client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionMessageParam
from pydantic import BaseModel

from mrs.runtime.generation import FinishReason, GrammarKind
from tests.server.fake_engine import FakeEngine, end, say, served
from tests.server.live_server import LiveServer

HI: ChatCompletionMessageParam = {"role": "user", "content": "hi"}
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a place.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city", "days"],
            "additionalProperties": False,
        },
    },
}
CALL = (
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Köln", "days": 3}}\n</tool_call>'
)
TEMPLATE = (
    "{{ tools | tojson }}{% for m in messages %}{{ m.role }}: {{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}{% endfor %}{% endfor %}"
    "{{ '</think>' if not enable_thinking }}"
)


@pytest.fixture(scope="module")
def thinker() -> Iterator[tuple[LiveServer, FakeEngine]]:
    """A server of a model that reasons and knows tools."""
    engine = FakeEngine()
    with LiveServer(served(engine, chat_template=TEMPLATE)) as server:
        yield server, engine


@pytest.fixture
def engine(thinker: tuple[LiveServer, FakeEngine]) -> FakeEngine:
    thinker[1].reset()
    return thinker[1]


@pytest.fixture
def sdk(thinker: tuple[LiveServer, FakeEngine], engine: FakeEngine) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{thinker[0].url}/v1", api_key="none", max_retries=0, timeout=10
    ) as client:
        yield client


def whole(sdk: openai.OpenAI, **fields: Any) -> ChatCompletion:
    return sdk.chat.completions.create(**{"model": "default", "messages": [HI], **fields})


def accumulated(sdk: openai.OpenAI, **fields: Any) -> ChatCompletion:
    """What the client's own accumulator makes of the stream."""
    with sdk.chat.completions.stream(**{"model": "default", "messages": [HI], **fields}) as stream:
        return stream.get_final_completion()


def pieces(text: str) -> tuple[str, ...]:
    return tuple(text[start : start + 3] for start in range(0, len(text), 3))


@pytest.mark.parametrize(
    ("text", "content", "calls", "reason"),
    [
        (CALL, None, 1, "tool_calls"),
        (f"Let me see.\n{CALL}\n{CALL}", "Let me see.", 2, "tool_calls"),
        (f"<think>Hm.</think>\n\n{CALL}", None, 1, "tool_calls"),
        ("<think>Hm.</think>\n\nNo need.", "No need.", 0, "stop"),
        ("Just text.", "Just text.", 0, "stop"),
    ],
)
def test_streamed_and_whole_messages_are_equal(
    sdk: openai.OpenAI, engine: FakeEngine, text: str, content: str | None, calls: int, reason: str
) -> None:
    engine.script = say(*pieces(text))
    answers = [ask(sdk, tools=[WEATHER]) for ask in (whole, accumulated)]
    for answer in answers:
        [choice] = answer.choices
        assert choice.finish_reason == reason
        assert choice.message.content == content
        told = [call.function for call in choice.message.tool_calls or []]  # type: ignore[union-attr]
        assert [one.name for one in told] == ["get_weather"] * calls
        assert all(json.loads(one.arguments) == {"city": "Köln", "days": 3} for one in told)
    first, second = (answer.choices[0].message for answer in answers)
    thought = "Hm." if "<think>" in text else None
    assert getattr(first, "reasoning_content", None) == thought
    assert getattr(second, "reasoning_content", None) == thought


def test_a_stream_of_a_call_has_openais_shape(sdk: openai.OpenAI, engine: FakeEngine) -> None:
    engine.script = say(*pieces(CALL))
    stream = sdk.chat.completions.create(
        model="default", messages=[HI], tools=[WEATHER], stream=True
    )
    deltas = [chunk.choices[0].delta.to_dict() for chunk in stream]
    assert deltas[0] == {"role": "assistant", "content": None}
    [begun] = deltas[1]["tool_calls"]
    assert begun.pop("id").startswith("call_")
    assert begun == {
        "index": 0,
        "type": "function",
        "function": {"name": "get_weather", "arguments": ""},
    }
    fragments = [delta["tool_calls"][0] for delta in deltas[2:-1]]
    assert len(fragments) > 5
    assert all(fragment.keys() == {"index", "function"} for fragment in fragments)
    assert "".join(one["function"]["arguments"] for one in fragments) == (
        '{"city": "Köln", "days": 3}'
    )
    assert deltas[-1] == {}


def test_a_round_trip(sdk: openai.OpenAI, engine: FakeEngine) -> None:
    engine.script = say(*pieces(CALL))
    first = whole(sdk, tools=[WEATHER]).choices[0].message
    [call] = first.tool_calls or []
    engine.script = say("Sunny.")
    result = {"role": "tool", "tool_call_id": call.id, "content": "sun"}
    second = whole(sdk, messages=[HI, first, result], tools=[WEATHER])
    assert second.choices[0].message.content == "Sunny."
    prompt = "".join(map(chr, engine.requests[-1].prompt_ids))
    assert prompt.endswith("sun")


def test_choices_are_read_each_by_itself(sdk: openai.OpenAI, engine: FakeEngine) -> None:
    engine.script = say(*pieces(CALL))
    answer = whole(sdk, tools=[WEATHER], n=3)
    ids = [
        choice.message.tool_calls[0].id for choice in answer.choices if choice.message.tool_calls
    ]
    assert len(set(ids)) == 3


def test_the_older_form_of_functions(sdk: openai.OpenAI, engine: FakeEngine) -> None:
    engine.script = say(*pieces(CALL + CALL))
    functions = [WEATHER["function"]]
    [choice] = whole(sdk, functions=functions).choices
    assert choice.finish_reason == "function_call"
    assert choice.message.tool_calls is None
    assert choice.message.function_call is not None
    assert choice.message.function_call.name == "get_weather"
    stream = sdk.chat.completions.create(
        model="default", messages=[HI], functions=functions, stream=True
    )
    called = [chunk.choices[0].delta.function_call for chunk in stream]
    arguments = "".join(one.arguments or "" for one in called if one)
    assert json.loads(arguments) == json.loads(choice.message.function_call.arguments)


@pytest.mark.parametrize(
    "choice",
    [
        "required",
        {"type": "function", "function": {"name": "get_weather"}},
        {
            "type": "allowed_tools",
            "allowed_tools": {
                "mode": "required",
                "tools": [{"type": "function", "function": {"name": "get_weather"}}],
            },
        },
    ],
    ids=["required", "named", "allowed"],
)
def test_a_call_that_must_be_is_forced(sdk: openai.OpenAI, engine: FakeEngine, choice: Any) -> None:
    engine.script = say(*pieces(CALL))
    whole(sdk, tools=[WEATHER], tool_choice=choice)
    grammar = engine.requests[-1].sampling.grammar
    assert grammar is not None
    assert '{\\"name\\": \\"get_weather\\", \\"arguments\\": ' in grammar.source


def test_reasoning_is_counted_and_told_apart(sdk: openai.OpenAI, engine: FakeEngine) -> None:
    engine.script = say("<think>", "one", " two", "</think>", "Yes", ".")
    answer = whole(sdk)
    message = answer.choices[0].message
    assert (message.content, getattr(message, "reasoning_content")) == ("Yes.", "one two")  # noqa: B009
    assert answer.usage is not None
    assert answer.usage.completion_tokens_details is not None
    assert answer.usage.completion_tokens_details.reasoning_tokens == 4


def test_reasoning_that_does_not_end_leaves_the_content_empty(
    sdk: openai.OpenAI, engine: FakeEngine
) -> None:
    engine.script = lambda request: [*say("<think>", "on and on")(request)[:-1], (end(0, LENGTH),)]
    [choice] = whole(sdk).choices
    assert (choice.message.content, choice.finish_reason) == ("", "length")


LENGTH = FinishReason.LENGTH


class Day(BaseModel):
    """What a client asks for."""

    city: str
    hot: bool


def test_pydantic_models_are_schemas_and_answers(sdk: openai.OpenAI, engine: FakeEngine) -> None:
    engine.script = say('{"city": "Köln",', ' "hot": true}')
    parsed = sdk.chat.completions.parse(model="default", messages=[HI], response_format=Day)
    assert parsed.choices[0].message.parsed == Day(city="Köln", hot=True)
    grammar = engine.requests[-1].sampling.grammar
    assert grammar is not None
    # The model may reason before.
    assert grammar.kind is GrammarKind.LARK
    assert '"hot"' in grammar.source


def test_pydantic_models_are_tools_too(sdk: openai.OpenAI, engine: FakeEngine) -> None:
    engine.script = say('<tool_call>{"name": "Day", "arguments": {"city": "x", "hot": false}}')
    tool = openai.pydantic_function_tool(Day)
    [choice] = sdk.chat.completions.parse(model="default", messages=[HI], tools=[tool]).choices
    [call] = choice.message.tool_calls or []
    assert call.function.parsed_arguments == Day(city="x", hot=False)


def test_an_answer_may_go_on_from_a_message(sdk: openai.OpenAI, engine: FakeEngine) -> None:
    engine.script = say(" world")
    begun: Any = {"role": "assistant", "content": "Hello", "prefix": True}
    assert whole(sdk, messages=[HI, begun]).choices[0].message.content == " world"
