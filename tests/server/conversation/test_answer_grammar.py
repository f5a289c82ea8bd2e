"""What the grammars accept, by llguidance itself with a token for each byte."""

from __future__ import annotations

from typing import Any

import llguidance
import pytest

from mrs.runtime.generation import Grammar, GrammarKind
from mrs.server.conversation.answer_grammar import answer_grammar
from mrs.server.conversation.chat_format import ChatFormat
from mrs.server.conversation.conversation import Conversation, FunctionTool, ToolChoice, ToolMode
from mrs.server.conversation.lark import LarkBuilder
from mrs.server.conversation.reasoning import THINK
from mrs.server.conversation.tool_formats import FORMATS, format_named
from tests.server.conversation.reading import calls, read, reader_of

TOKENIZER = llguidance.LLTokenizer("byte")
STRICT = FunctionTool(
    "get_weather",
    parameters={
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "unit": {"enum": ["c", "f"]},
            "days": {"type": "integer"},
        },
        "required": ["city"],
        "additionalProperties": False,
    },
    strict=True,
)
LOOSE = FunctionTool("add", parameters={"type": "object", "properties": {"a": {"type": "number"}}})
PARIS = ("get_weather", {"city": "Par's", "unit": "f", "days": 3})
NAMES = [form.name for form in FORMATS]


def grammar(
    name: str,
    mode: ToolMode = ToolMode.REQUIRED,
    tools: tuple[FunctionTool, ...] = (STRICT, LOOSE),
    *,
    in_reasoning: bool = False,
    thinks: bool = True,
    **fields: Any,
) -> Grammar:
    reasoning = None if name == "harmony" else THINK
    conversation = Conversation(({},), tools, ToolChoice(mode), **fields)
    form = ChatFormat("", "", reasoning, format_named(name))
    made = answer_grammar(
        conversation, tools, form, {}, in_reasoning=in_reasoning, may_think=thinks
    )
    assert made is not None
    return made


def accepts(made: Grammar, text: str) -> bool:
    """Whether a text is an answer that the grammar lets the model end."""
    own = made.kind is GrammarKind.LLGUIDANCE
    source = made.source if own else llguidance.grammar_from(made.kind.value, made.source)
    matcher = llguidance.LLMatcher(TOKENIZER, source)
    assert not matcher.get_error()
    tokens = TOKENIZER.tokenize_str(text)
    return bool(matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting())


def written(name: str, *calls: tuple[str, dict[str, Any]]) -> str:
    return str(format_named(name).write(calls))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", [ToolMode.REQUIRED, ToolMode.AUTO])
def test_what_the_format_writes_is_accepted(name: str, mode: ToolMode) -> None:
    made = grammar(name, mode)
    assert accepts(made, written(name, PARIS))
    assert accepts(made, written(name, PARIS, ("add", {"a": 1.5})))
    assert accepts(made, written(name, ("get_weather", {"city": "x"})))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", [ToolMode.REQUIRED, ToolMode.AUTO])
@pytest.mark.parametrize(
    "arguments",
    [{"days": 3}, {"city": "x", "days": "y"}, {"city": "x", "unit": "k"}, {"city": "x", "more": 1}],
    ids=str,
)
def test_arguments_that_break_the_schema_are_not(
    name: str, mode: ToolMode, arguments: dict[str, Any]
) -> None:
    assert not accepts(grammar(name, mode), written(name, ("get_weather", arguments)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", [ToolMode.REQUIRED, ToolMode.AUTO])
def test_unknown_functions_are_not(name: str, mode: ToolMode) -> None:
    if (name, mode) == ("glm4", ToolMode.AUTO):
        pytest.skip("without a mark, an unknown name is text")
    assert not accepts(grammar(name, mode), written(name, ("drop_table", {})))


@pytest.mark.parametrize("name", NAMES)
def test_only_where_it_must_call_it_may_not_talk(name: str) -> None:
    text = "<|channel|>final<|message|>Hello." if name == "harmony" else "Hello."
    assert not accepts(grammar(name), text)
    assert accepts(grammar(name, ToolMode.AUTO), text)


@pytest.mark.parametrize("name", NAMES)
def test_one_call_alone_where_they_may_not_be_parallel(name: str) -> None:
    for mode in (ToolMode.REQUIRED, ToolMode.AUTO):
        made = grammar(name, mode, parallel_tool_calls=False)
        assert accepts(made, written(name, PARIS))
    assert not accepts(
        grammar(name, parallel_tool_calls=False), written(name, PARIS, ("add", {"a": 1}))
    )


@pytest.mark.parametrize("name", NAMES)
def test_what_is_accepted_is_read_as_calls(name: str) -> None:
    assert len(calls(read(reader_of(name), [written(name, PARIS, ("add", {"a": 1}))]))) == 2


def test_a_tool_that_is_not_strict_may_get_anything_beside_one_that_is() -> None:
    text = written("hermes", ("add", {"b": ["x"]}))
    assert accepts(grammar("hermes", ToolMode.AUTO), text)
    assert accepts(grammar("hermes", ToolMode.REQUIRED), written("hermes", ("add", {"a": 1})))


THOUGHT = "<think>\nSo <tool_call>?\n</think>\n\n"


class TestReasoning:
    def test_may_come_first(self) -> None:
        assert accepts(grammar("hermes"), THOUGHT + written("hermes", PARIS))

    def test_that_has_begun_must_end(self) -> None:
        made = grammar("hermes", in_reasoning=True)
        assert accepts(made, THOUGHT.removeprefix("<think>") + written("hermes", PARIS))
        assert not accepts(made, written("hermes", PARIS))

    def test_may_be_forbidden(self) -> None:
        assert not accepts(grammar("hermes", thinks=False), THOUGHT + written("hermes", PARIS))

    def test_comes_on_a_channel(self) -> None:
        thought = "<|channel|>analysis<|message|>So.<|end|><|start|>assistant"
        assert accepts(grammar("harmony"), thought + written("harmony", PARIS))
        assert accepts(
            grammar("harmony", ToolMode.AUTO), thought + "<|channel|>final<|message|>Hello."
        )


OBJECT = '{"a":1}'
SCHEMA = Grammar(
    GrammarKind.JSON_SCHEMA,
    '{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}',
)
OWN = Grammar(GrammarKind.LLGUIDANCE, '{"grammars":[{"json_schema":{"type":"object"}}]}')
LARK = Grammar(GrammarKind.LARK, 'start: "{" KEY "}"\nKEY: /"a":[0-9]/')
REGEX = Grammar(GrammarKind.REGEX, r"\{.a.:1\}|/")


@pytest.mark.parametrize("wanted", [SCHEMA, OWN, LARK, REGEX], ids=lambda wanted: wanted.kind)
class TestTextThatIsAskedFor:
    def test_follows_the_reasoning(self, wanted: Grammar) -> None:
        made = grammar("hermes", tools=(), response_format=wanted)
        assert accepts(made, THOUGHT + OBJECT)
        assert accepts(made, OBJECT)
        assert not accepts(made, THOUGHT + "Hello")

    def test_is_on_the_last_channel(self, wanted: Grammar) -> None:
        made = grammar("harmony", tools=(), response_format=wanted)
        assert accepts(made, "<|channel|>final<|message|>" + OBJECT)
        assert not accepts(made, OBJECT)

    def test_may_be_replaced_by_calls(self, wanted: Grammar) -> None:
        made = grammar("hermes", ToolMode.AUTO, response_format=wanted)
        assert accepts(made, OBJECT)
        assert accepts(made, written("hermes", PARIS))
        assert not accepts(made, "Hello")


class TestLark:
    def test_control_tokens_are_tokens(self) -> None:
        lark = LarkBuilder({"<|a|>": 7, "[B]": 9})
        assert lark.literal('x"<|a|>\n[B]') == '"x\\"" <[7]> "\\n" <[9]>'
        assert lark.text_up_to("<|a|>") == "rule_0 <[7]>"

    def test_other_marks_are_text(self) -> None:
        lark = LarkBuilder({})
        assert lark.literal("<|a|>") == '"<|a|>"'
        assert lark.grammar(lark.text_up_to("x")).source.splitlines()[0] == "start: rule_0"
