"""What clients ask for is what the grammar takes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrs.runtime.grammar import (
    InvalidGrammarError,
    choice_grammar,
    json_object_grammar,
    json_schema_grammar,
    lark_grammar,
    llguidance_grammar,
    regex_grammar,
)
from mrs.runtime.grammar.compiler import GrammarCompiler
from tests.runtime.grammar.vocabularies import accepts, constrained


@pytest.mark.parametrize(
    ("text", "expected"),
    [("{}", True), ('{"a": [1, null]}', True), ("[]", False), ("{} ", False), ("", False)],
)
def test_a_json_object(compiler: GrammarCompiler, text: str, expected: bool) -> None:
    assert accepts(constrained(compiler, json_object_grammar()), text) is expected


def test_properties_come_in_the_order_of_the_schema(compiler: GrammarCompiler) -> None:
    schema = {
        "type": "object",
        "properties": {"z": {"type": "integer"}, "a": {"type": "integer"}},
        "required": ["z", "a"],
    }
    constraint = constrained(compiler, json_schema_grammar(schema))
    assert accepts(constraint, '{"z":1,"a":2}')
    assert not accepts(constraint, '{"a":2,"z":1}')


@pytest.mark.parametrize("schema", [True, {}, "true", "{}"])
def test_a_schema_that_says_nothing_takes_any_json(
    compiler: GrammarCompiler, schema: bool | str
) -> None:
    constraint = constrained(compiler, json_schema_grammar(schema))
    assert accepts(constraint, "[1,{}]")
    assert not accepts(constraint, "[1")


def test_a_regular_expression_matches_the_whole_text(compiler: GrammarCompiler) -> None:
    constraint = constrained(compiler, regex_grammar("a+b/?"))
    assert accepts(constraint, "aab/")
    assert not accepts(constraint, "xaab")
    assert not accepts(constraint, "aabb")


def test_a_lark_grammar(compiler: GrammarCompiler) -> None:
    constraint = constrained(compiler, lark_grammar('start: "(" start ")" | "x"'))
    assert accepts(constraint, "((x))")
    assert not accepts(constraint, "((x)")


def test_the_librarys_own_form(compiler: GrammarCompiler) -> None:
    grammar = llguidance_grammar({"grammars": [{"lark_grammar": 'start: "é" "!"'}]})
    assert accepts(constrained(compiler, grammar), "é!")


@pytest.mark.parametrize("choice", [" ", "\n", "\t ", "\x85", "\u2028"])
def test_white_space_is_a_choice_and_a_pattern(compiler: GrammarCompiler, choice: str) -> None:
    for grammar in (choice_grammar([choice]), regex_grammar(choice)):
        assert accepts(constrained(compiler, grammar), choice)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1, max_size=4)
)
def test_a_choice_takes_its_strings_and_nothing_else(
    compiler: GrammarCompiler, choices: list[str]
) -> None:
    constraint = constrained(compiler, choice_grammar(choices))
    assert all(accepts(constraint, choice) for choice in choices)
    assert not accepts(constraint, choices[0] + "\0\0")


@pytest.mark.parametrize("choices", [[], ["a", ""], ["x"] * 10_001])
def test_a_choice_needs_strings(choices: list[str]) -> None:
    with pytest.raises(InvalidGrammarError):
        choice_grammar(choices)


def test_between_json_tokens_there_is_no_endless_white_space(compiler: GrammarCompiler) -> None:
    constraint = constrained(compiler, json_object_grammar())
    assert accepts(constraint, '{"a": 1,\n    "b" :2\n}')
    assert not accepts(constraint, '{  "a":1}')
    assert not accepts(constraint, '{\n\n"a":1}')


def test_a_format_that_nobody_knows_says_nothing(compiler: GrammarCompiler) -> None:
    schema = {
        "type": "object",
        "properties": {"format": {"type": "string", "format": "file-path"}},
        "required": ["format"],
    }
    constraint = constrained(compiler, json_schema_grammar(schema))
    assert accepts(constraint, '{"format":"a/b"}')
    value = json_schema_grammar({"const": {"format": "file-path"}})
    assert accepts(constrained(compiler, value), '{"format":"file-path"}')
