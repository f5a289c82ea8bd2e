from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from mrs.errors import InvalidValueError
from mrs.runtime.generation import (
    FinishReason,
    GenerationDelta,
    Grammar,
    GrammarKind,
    SamplingParams,
)
from mrs.server.conversation.answer_reader import AnswerReader
from mrs.server.conversation.conversation import (
    AnswerOptions,
    Conversation,
    FunctionTool,
    ToolChoice,
    ToolMode,
)
from mrs.server.conversation.events import Finished, ReasoningDelta, ToolCallBegun
from mrs.server.conversation.prepare import PreparedConversation, prepare
from tests.server.conversation.reading import ADD, WEATHER, calls, read
from tests.server.fake_engine import FakeEncoder, FakeEngine, served

USER: Mapping[str, Any] = {"role": "user", "content": "hi"}
TOOLS_TEMPLATE = (
    "{{ tools | tojson }}{% for m in messages %}{{ m.role }}{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}"
    "{% endfor %}{{ enable_thinking }}"
)
THINK_TEMPLATE = TOOLS_TEMPLATE + "<think>{{ reasoning_effort }}"
PLAIN_TEMPLATE = "{% for m in messages %}{{ m.role }}{{ m.content }}{% endfor %}"


def prepared(
    template: str | None = None, **fields: Any
) -> tuple[PreparedConversation, list[Mapping[str, Any]], Mapping[str, Any]]:
    """What is made of a conversation, and what the template got: messages and variables."""
    encoder = FakeEncoder()
    model = served(FakeEngine(), encoder, template)
    fields.setdefault("messages", (USER,))
    done = prepare(Conversation(**fields), AnswerOptions(SamplingParams()), model)
    return done, list(encoder.conversations[-1]), encoder.variables[-1]


def answered(done: PreparedConversation, text: str) -> list[Any]:
    return read(done.new_reader(), [text])


class TestTools:
    def test_a_template_that_knows_them_gets_them(self) -> None:
        _, messages, variables = prepared(TOOLS_TEMPLATE, tools=(WEATHER,))
        assert messages == [USER]
        assert variables["tools"] == [
            {
                "type": "function",
                "function": {
                    "name": "get_weather",
                    "description": "Weather of a place.",
                    "parameters": WEATHER.parameters,
                },
            }
        ]

    def test_a_template_that_does_not_know_them_gets_an_instruction(self) -> None:
        system = {"role": "system", "content": "Be brief."}
        _, messages, variables = prepared(PLAIN_TEMPLATE, messages=(system, USER), tools=(ADD,))
        assert "tools" not in variables
        assert messages[1] == USER
        assert messages[0]["content"].startswith("Be brief.\n\n")
        assert '"name": "add"' in messages[0]["content"]
        assert "<tool_call>" in messages[0]["content"]

    def test_without_a_system_role_the_user_is_told(self) -> None:
        refusing = "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}"
        _, [message], _ = prepared(refusing + PLAIN_TEMPLATE, tools=(ADD,))
        assert message["role"] == "user"
        assert message["content"].endswith("\n\nhi")

    def test_calls_are_read(self) -> None:
        done, _, _ = prepared(TOOLS_TEMPLATE, tools=(ADD,))
        events = answered(done, '<tool_call>{"name": "add", "arguments": {}}</tool_call>')
        assert calls(events) == [("add", "{}")]

    def test_ids_are_new_each_time(self) -> None:
        done, _, _ = prepared(TOOLS_TEMPLATE, tools=(ADD,))
        found = {
            event.id
            for _ in range(20)
            for event in answered(done, '<tool_call>{"name": "add"}</tool_call>')
            if isinstance(event, ToolCallBegun)
        }
        assert len(found) == 20
        assert all(len(one) == 29 and one.startswith("call_") for one in found)

    def test_mistral_wants_ids_of_nine_letters(self) -> None:
        done, _, _ = prepared(TOOLS_TEMPLATE.replace("<tool_call>", "[TOOL_CALLS]"), tools=(ADD,))
        [begun] = [
            event
            for event in answered(done, '[TOOL_CALLS][{"name": "add"}]')
            if isinstance(event, ToolCallBegun)
        ]
        assert len(begun.id) == 9
        assert begun.id.isalnum()

    def test_none_shows_none_and_reads_none(self) -> None:
        choice = ToolChoice(ToolMode.NONE)
        done, _, variables = prepared(TOOLS_TEMPLATE, tools=(ADD,), tool_choice=choice)
        assert "tools" not in variables
        assert calls(answered(done, '<tool_call>{"name": "add"}</tool_call>')) == []

    def test_only_those_that_may_be_called_are_shown(self) -> None:
        choice = ToolChoice(names=frozenset({"add"}))
        done, _, variables = prepared(TOOLS_TEMPLATE, tools=(ADD, WEATHER), tool_choice=choice)
        assert [tool["function"]["name"] for tool in variables["tools"]] == ["add"]
        assert calls(answered(done, '<tool_call>{"name": "get_weather"}</tool_call>')) == []

    def test_one_call_alone_ends_the_answer_by_a_stop_string_that_no_client_sees(self) -> None:
        done, _, _ = prepared(TOOLS_TEMPLATE, tools=(ADD,), parallel_tool_calls=False)
        assert done.generation.sampling.stop == ("</tool_call>",)
        reader = done.new_reader()
        text = '<tool_call>\n{"name": "add"}\n'
        [*_, last] = reader.read(
            GenerationDelta(0, text, (7,), FinishReason.STOP, stop="</tool_call>")
        )
        assert last == Finished("tool_calls")


CALL = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": {"a": 1}}}
TURNS = (
    USER,
    {"role": "assistant", "content": "Let me.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": "4"},
)


class TestEarlierCalls:
    def test_reach_a_template_that_shows_them_with_the_name_of_the_result(self) -> None:
        _, messages, _ = prepared(TOOLS_TEMPLATE, messages=TURNS)
        assert messages == [USER, TURNS[1], {**TURNS[2], "name": "add"}]

    def test_are_written_into_the_text_for_one_that_does_not(self) -> None:
        _, messages, _ = prepared(
            "{% for m in messages %}{{ m.content }}{% endfor %}", messages=TURNS
        )
        written = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
        assert messages[1] == {"role": "assistant", "content": f"Let me.\n{written}"}
        assert messages[2]["content"] == "4"

    def test_results_become_the_users_where_there_is_no_role_for_them(self) -> None:
        refusing = (
            "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no') }}{% endif %}"
            "{{ m.content }}{% endfor %}"
        )
        twice = (*TURNS, {"role": "tool", "tool_call_id": "call_2", "content": "5"})
        _, messages, _ = prepared(refusing, messages=twice)
        assert messages[2]["role"] == "user"
        assert messages[2]["content"] == (
            "<tool_response>\n4\n</tool_response>\n<tool_response>\n5\n</tool_response>"
        )

    def test_several_are_told_one_by_one_where_a_template_shows_one(self) -> None:
        other = {**CALL, "id": "call_2"}
        turns = (
            USER,
            {"role": "assistant", "content": "Two.", "tool_calls": [CALL, other]},
            {"role": "tool", "tool_call_id": "call_1", "content": "4"},
            {"role": "tool", "tool_call_id": "call_2", "content": "5"},
        )
        one = TOOLS_TEMPLATE.replace("m.tool_calls or []", "(m.tool_calls or [])[:1]")
        _, messages, _ = prepared(one, messages=turns)
        assert [message["content"] for message in messages] == ["hi", "Two.", "4", "", "5"]
        assert [len(message.get("tool_calls", ())) for message in messages] == [0, 1, 0, 1, 0]

    def test_ids_get_the_form_that_mistral_demands_and_stay_together(self) -> None:
        template = TOOLS_TEMPLATE.replace("<tool_call>", "[TOOL_CALLS]")
        _, messages, _ = prepared(template, messages=TURNS)
        [call] = messages[1]["tool_calls"]
        assert call["id"] == messages[2]["tool_call_id"]
        assert len(call["id"]) == 9

    def test_what_was_called_comes_back_in_the_next_prompt(self) -> None:
        """Events -> message -> prompt -> events."""
        done, _, _ = prepared(PLAIN_TEMPLATE, tools=(WEATHER,))
        text = (
            '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Bœuf\\n"}}\n</tool_call>'
        )
        [(name, arguments)] = calls(answered(done, text))
        function = {"name": name, "arguments": json.loads(arguments)}
        told = {"id": "call_1", "type": "function", "function": function}
        again = (USER, {"role": "assistant", "content": "", "tool_calls": [told]})
        _, messages, _ = prepared(PLAIN_TEMPLATE, tools=(WEATHER,), messages=again)
        assert calls(answered(done, messages[-1]["content"])) == [(name, arguments)]


class TestThinking:
    def test_is_left_to_the_template(self) -> None:
        _, _, variables = prepared(THINK_TEMPLATE)
        assert variables == {"continue_final": False}

    @pytest.mark.parametrize("wanted", [True, False])
    def test_is_told_where_the_template_asks(self, wanted: bool) -> None:
        _, _, variables = prepared(THINK_TEMPLATE, thinking=wanted)
        assert variables["enable_thinking"] is wanted

    def test_effort_is_told_where_the_template_asks(self) -> None:
        _, _, variables = prepared(THINK_TEMPLATE, reasoning_effort="high")
        assert variables["reasoning_effort"] == "high"
        _, _, variables = prepared(PLAIN_TEMPLATE, reasoning_effort="high")
        assert "reasoning_effort" not in variables

    def test_is_skipped_where_the_template_has_no_switch(self) -> None:
        done, _, _ = prepared(PLAIN_TEMPLATE + "{# <think> #}", thinking=False)
        text = "".join(map(chr, done.generation.prompt_ids))
        assert text.endswith("hi<think>\n\n</think>\n\n")

    def test_that_the_prompt_begins_is_seen(self) -> None:
        encoder = FakeEncoder()
        template = "{% for m in messages %}{{ m.content }}{% endfor %}<think>\n"
        model = replace(
            served(FakeEngine(), encoder, template), token_bytes=lambda token: chr(token).encode()
        )
        begun = {"role": "user", "content": "x<think>\n"}
        done = prepare(Conversation((begun,)), AnswerOptions(SamplingParams()), model)
        assert answered(done, "Hm</think>Hi")[0] == ReasoningDelta("Hm")

    def test_a_model_without_it_is_read_the_fast_way(self) -> None:
        done, _, _ = prepared(PLAIN_TEMPLATE)
        assert type(done.new_reader()) is AnswerReader

    def test_earlier_reasoning_has_all_its_names(self) -> None:
        turn = {"role": "assistant", "content": "a", "reasoning_content": "r"}
        template = THINK_TEMPLATE + "{{ messages[0].thinking }}"
        _, messages, _ = prepared(template, messages=(USER, turn))
        assert messages[1]["thinking"] == messages[1]["reasoning"] == "r"


class TestTemplateVariables:
    def test_what_the_template_reads_may_be_set(self) -> None:
        template = PLAIN_TEMPLATE + "{{ style }}"
        _, _, variables = prepared(template, template_variables={"style": "brief"})
        assert variables["style"] == "brief"

    @pytest.mark.parametrize("name", ["other", "messages", "tools", "raise_exception", "bos_token"])
    def test_nothing_else_may(self, name: str) -> None:
        with pytest.raises(InvalidValueError, match=name):
            prepared(PLAIN_TEMPLATE + "{{ style }}", template_variables={name: 1})


def test_an_answer_may_go_on() -> None:
    last = {"role": "assistant", "content": "<think>I was"}
    done, _, variables = prepared(THINK_TEMPLATE, messages=(USER, last), continue_final=True)
    assert variables["continue_final"]
    assert answered(done, " here</think>Hi")[0] == ReasoningDelta("here")


JSON = Grammar(GrammarKind.JSON_SCHEMA, '{"type":"object"}')


class TestGrammar:
    def test_of_a_plain_model_is_passed_on(self) -> None:
        done, _, _ = prepared(PLAIN_TEMPLATE, response_format=JSON)
        assert done.generation.sampling.grammar is JSON

    def test_that_nobody_asks_for_is_none(self) -> None:
        done, _, _ = prepared(TOOLS_TEMPLATE, tools=(ADD,))
        assert done.generation.sampling.grammar is None

    @pytest.mark.parametrize(
        "fields",
        [
            {"tool_choice": ToolChoice(ToolMode.REQUIRED)},
            {"tools": (FunctionTool("add", strict=True),)},
        ],
    )
    def test_is_made_for_calls(self, fields: dict[str, Any]) -> None:
        done, _, _ = prepared(TOOLS_TEMPLATE, **{"tools": (ADD,), **fields})
        grammar = done.generation.sampling.grammar
        assert grammar is not None
        assert grammar.kind is GrammarKind.LARK
