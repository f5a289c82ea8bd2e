"""Answers of models of random logits are whole within their limit."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrs.runtime.grammar import (
    json_object_grammar,
    json_schema_grammar,
    lark_grammar,
    regex_grammar,
)
from mrs.runtime.grammar.compiler import GrammarCompiler
from tests.runtime.grammar.vocabularies import (
    OTHER_END,
    VOCAB_SIZE,
    accepts,
    constrained,
    is_json,
    random_answer,
)

TREE = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "left": {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
        "right": {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
    },
    "required": ["name", "left", "right"],
    "additionalProperties": False,
}
LEAF_AT_LAST = {
    "anyOf": [
        {"type": "object", "properties": {"in": {"$ref": "#"}}, "required": ["in"]},
        {"type": "object", "properties": {"leaf": {"const": True}}, "required": ["leaf"]},
    ]
}
ROWS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {f"f{i}": {"type": "string"} for i in range(8)},
        "required": [f"f{i}" for i in range(8)],
        "additionalProperties": False,
    },
}
PATTERNS = {
    "type": "object",
    "properties": {
        "at": {"type": "string", "format": "date-time"},
        "id": {"type": "string", "pattern": "^x+-y$"},
        "long": {"type": "string", "minLength": 30},
        "even": {"type": "integer", "multipleOf": 4, "minimum": 10},
    },
    "required": ["at", "id", "long", "even"],
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("limit", [160, 400])
@pytest.mark.parametrize("schema", [TREE, LEAF_AT_LAST, ROWS, PATTERNS], ids=list("abcd"))
def test_random_answers_are_whole(
    compiler: GrammarCompiler, schema: dict[str, Any], limit: int, seed: int
) -> None:
    said, why = random_answer(constrained(compiler, json_schema_grammar(schema)), limit, seed)
    assert why == "stop"
    assert is_json(said)


@pytest.mark.parametrize("limit", [2, 3, 8, 40])
def test_the_shortest_limits_are_kept(compiler: GrammarCompiler, limit: int) -> None:
    for seed in range(5):
        said, _ = random_answer(constrained(compiler, json_object_grammar()), limit, seed)
        assert is_json(said)


_scalars = st.sampled_from(
    [
        {"type": "string"},
        {"type": "integer"},
        {"type": "number", "minimum": 3, "exclusiveMaximum": 9},
        {"type": ["boolean", "null"]},
        {"enum": ["name", 12, [True]]},
        {"type": "string", "maxLength": 5},
    ]
)
SCHEMAS = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("array"), "items": inner, "minItems": st.integers(0, 2)}
        ),
        st.builds(
            lambda properties, count: {
                "type": "object",
                "properties": properties,
                "required": list(properties)[:count],
                "additionalProperties": False,
            },
            st.dictionaries(st.sampled_from(["a", "name", "é", "true"]), inner, max_size=3),
            st.integers(0, 3),
        ),
    ),
    max_leaves=6,
)


@settings(max_examples=20, deadline=None)
@given(SCHEMAS, st.integers(0, 1000))
def test_random_answers_to_random_schemas_are_whole(
    compiler: GrammarCompiler, schema: dict[str, Any], seed: int
) -> None:
    said, _ = random_answer(constrained(compiler, json_schema_grammar(schema)), 200, seed)
    assert is_json(said)


@st.composite
def instances(draw: st.DrawFn) -> tuple[dict[str, Any], Any]:
    schema = draw(SCHEMAS)
    return schema, _instance(draw, schema)


def _instance(draw: st.DrawFn, schema: dict[str, Any]) -> Any:
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    kind = schema["type"]
    if kind == "array":
        count = draw(st.integers(schema["minItems"], 3))
        return [_instance(draw, schema["items"]) for _ in range(count)]
    if kind == "object":
        names = [n for n in schema["properties"] if n in schema["required"] or draw(st.booleans())]
        return {name: _instance(draw, schema["properties"][name]) for name in names}
    if kind == "string":
        # U+007F is a character of JSON, but the library wants it escaped.
        letters = st.characters(exclude_categories=["Cs"], exclude_characters="\x7f")
        text = st.text(letters, max_size=schema.get("maxLength"))
        return draw(text)
    if kind == "integer":
        return draw(st.integers())
    return draw(st.floats(3, 8.5)) if kind == "number" else draw(st.sampled_from([True, None]))


@settings(max_examples=40, deadline=None)
@given(instances())
def test_instances_of_a_schema_are_accepted(
    compiler: GrammarCompiler, generated: tuple[dict[str, Any], Any]
) -> None:
    schema, instance = generated
    constraint = constrained(compiler, json_schema_grammar(schema))
    text = json.dumps(instance, ensure_ascii=False)
    assert accepts(constraint, text), text


def test_an_answer_far_from_its_limit_is_left_alone(compiler: GrammarCompiler) -> None:
    constraint = constrained(compiler, json_object_grammar())
    before = compiler.stats.steered
    for index, token in enumerate(b'{"a'):
        assert constraint.settle(token, 1000 - index) == token
    assert compiler.stats.steered == before


def test_what_is_whole_and_could_go_on_is_cut_at_the_limit(compiler: GrammarCompiler) -> None:
    said, why = random_answer(constrained(compiler, regex_grammar("[a-c]+"), ignore_eos=True), 6, 0)
    assert why == "length"
    assert len(said) >= 6


@pytest.mark.parametrize("seed", range(3))
def test_text_before_the_json_is_ended_in_time(compiler: GrammarCompiler, seed: int) -> None:
    grammar = lark_grammar('start: /(?s:.*)/ <|turn|> json\njson: %json {"type": "object"}')
    constraint = constrained(compiler, grammar)
    random = np.random.default_rng(seed)
    said: list[int] = []
    for drawn in range(50):
        logits = random.gumbel(size=VOCAB_SIZE).astype(np.float32)
        constraint.restrict(logits, drawn)
        said.append(constraint.settle(int(logits.argmax()), 50 - drawn))
        constraint.matcher.accept(said[-1])
        if constraint.complete:
            break
    assert constraint.complete
    assert OTHER_END in said
