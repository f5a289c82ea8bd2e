"""Grammars that are refused, what is said of them, and what is kept of those that are not."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import llguidance
import pytest

from mrs.runtime.generation import Grammar, GrammarKind
from mrs.runtime.grammar import (
    InvalidGrammarError,
    json_schema_grammar,
    lark_grammar,
    limits,
    llguidance_grammar,
    regex_grammar,
)
from mrs.runtime.grammar import compiler as compiler_module
from mrs.runtime.grammar.compiler import GrammarCompiler
from mrs.runtime.grammar.vocabulary import GrammarVocabulary
from tests.runtime.grammar.vocabularies import (
    END,
    TOKENIZER,
    VOCAB_SIZE,
    accepts,
    constrained,
    small_compiler,
    texts,
)


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


@pytest.mark.parametrize(
    ("grammar", "says"),
    [
        (regex_grammar("a(b"), "unclosed group at position 2"),
        (regex_grammar("[a"), "unclosed character class at position 1"),
        (lark_grammar('start: "a"\nstart2: ("x"\n'), "at line 2, column 13: Expected token ')'"),
        (lark_grammar('start: x\nx: "a" bar'), 'at line 2, column 4: unknown name: "bar"'),
        (lark_grammar("start: <|nothing|>"), "at line 1, column 8: unknown special token"),
        (json_schema_grammar('{"type": }'), "at line 1, column 10"),
        (json_schema_grammar({"type": "strin"}), "Invalid type: strin"),
        (json_schema_grammar({"type": "string", "pattern": "ab["}), "at position 3 of 'ab['"),
        (json_schema_grammar({"not": {}}), 'Unimplemented keys: ["not"]'),
        (json_schema_grammar(False), "matches nothing"),
        (json_schema_grammar("[]"), "must be an object or a boolean"),
        (json_schema_grammar({"x-guidance": {"lenent": True}}), "no option 'lenent'"),
        (json_schema_grammar({"$ref": "#"}), "matches no text"),
        (json_schema_grammar(deep(70)), "more than 64 levels"),
        (json_schema_grammar('{"a":' * 40_000), "The JSON schema cannot be read"),
        (regex_grammar("(" * 500 + "a" + ")" * 500), "nested parentheses"),
        (regex_grammar("x" * 300_000), "at most 262144"),
        (regex_grammar(""), "is empty"),
        (llguidance_grammar("{}"), "a list 'grammars'"),
        (
            llguidance_grammar({"grammars": [{"lark_grammar": 'start: "a"'}], "max_tokens": 3}),
            "max_tokens",
        ),
    ],
)
def test_a_grammar_that_is_wrong_is_refused_with_its_place(
    compiler: GrammarCompiler, grammar: Grammar, says: str
) -> None:
    with pytest.raises(InvalidGrammarError) as refused:
        compiler.compile(grammar)
    assert says in refused.value.message
    assert refused.value.code == "invalid_grammar"
    assert refused.value.status == 400
    assert "\n" not in refused.value.message


@pytest.mark.parametrize(
    "grammar",
    [
        lark_grammar("".join(f"R{i}: R{i + 1}\n" for i in range(9000)) + 'R9000: "a"\nstart: R0'),
        json_schema_grammar(
            {
                "$defs": {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(5000)}
                | {"d5000": {"type": "integer"}},
                "$ref": "#/$defs/d0",
            }
        ),
    ],
    ids=["lark", "json"],
)
def test_a_grammar_that_would_overflow_the_stack_is_refused(
    compiler: GrammarCompiler, grammar: Grammar
) -> None:
    with pytest.raises(InvalidGrammarError, match="too complex"):
        compiler.compile(grammar)


def test_a_grammar_that_takes_too_long_is_refused_and_the_next_is_not() -> None:
    vocabulary = GrammarVocabulary(TOKENIZER, VOCAB_SIZE, (END,))
    compiler = GrammarCompiler(vocabulary, seconds=0.2)
    try:
        endless = json_schema_grammar({"type": "integer", "multipleOf": 2**30})
        with pytest.raises(InvalidGrammarError, match=r"more than 0\.2 seconds"):
            compiler.compile(endless)
        compiler.compile(regex_grammar("a"))
        # It is remembered: nobody waits for it again.
        assert compiler.is_compiled(endless)
    finally:
        compiler.close()


def test_a_panic_of_the_library_is_an_error_of_its_grammar_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class PanicException(BaseException):
        pass

    def panics(*_: object, **__: object) -> None:
        raise PanicException("index out of bounds")

    compiler = small_compiler()
    try:
        compiler.compile(regex_grammar("a"))
        with monkeypatch.context() as patched:
            patched.setattr(llguidance, "LLMatcher", panics)
            with pytest.raises(InvalidGrammarError, match="index out of bounds"):
                compiler.compile(regex_grammar("b"))
        assert accepts(constrained(compiler, regex_grammar("c")), "c")
    finally:
        compiler.close()


def test_a_grammar_is_compiled_once() -> None:
    compiler = small_compiler()
    try:
        grammar = regex_grammar("[0-9]")
        assert not compiler.is_compiled(grammar)
        for _ in range(3):
            compiler.compile(Grammar(GrammarKind.REGEX, "[0-9]"))
        assert compiler.is_compiled(grammar)
        assert (compiler.stats.compiled, compiler.stats.cache_hits) == (1, 2)
        # The same text is another grammar in another language.
        assert not compiler.is_compiled(Grammar(GrammarKind.LARK, "[0-9]"))
    finally:
        compiler.close()


def test_threads_that_ask_for_one_grammar_have_it_compiled_once() -> None:
    compiler = small_compiler()
    try:
        grammar = regex_grammar("[0-9]+")
        threads = [threading.Thread(target=compiler.compile, args=(grammar,)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert compiler.stats.compiled == 1
    finally:
        compiler.close()


def test_the_oldest_grammar_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_CACHED", 2)
    compiler = small_compiler()
    try:
        first, second, third = (regex_grammar(letter) for letter in "abc")
        compiler.compile(first)
        compiler.compile(second)
        compiler.compile(first)
        compiler.compile(third)
        assert [compiler.is_compiled(g) for g in (first, second, third)] == [True, False, True]
    finally:
        compiler.close()


def test_a_lexer_that_has_seen_much_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_TOKENS_OF_ONE_LEXER", 2)
    compiler = small_compiler()
    try:
        grammar = regex_grammar("x*")
        constraint = constrained(compiler, grammar)
        for _ in range(3):
            constraint.accept(TOKENIZER.encode("x")[0])
        assert not compiler.is_compiled(grammar)
        assert accepts(constrained(compiler, grammar), "xx")
    finally:
        compiler.close()


def test_answers_go_on_when_the_compiler_is_closed() -> None:
    compiler = small_compiler()
    constraint = constrained(compiler, regex_grammar("[ab]{2}"))
    compiler.close()
    for letter in "ab":
        assert texts(constraint) == {b"a", b"b", b"ab"} - ({b"ab"} if letter == "b" else set())
        constraint.accept(*TOKENIZER.encode(letter))
    assert constraint.complete


def test_nothing_is_started_before_the_first_grammar(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise AssertionError("started")

    monkeypatch.setattr(compiler_module, "Sandbox", fails)
    monkeypatch.setattr(compiler_module, "Workers", fails)
    small_compiler().close()


def test_json_numbers_that_are_none_are_refused() -> None:
    with pytest.raises(InvalidGrammarError):
        json_schema_grammar({"minimum": float("inf")})
    assert json.loads(json_schema_grammar({"minimum": 1.5}).source) == {"minimum": 1.5}


def test_the_event_loop_runs_while_a_grammar_is_compiled() -> None:
    async def main() -> int:
        compiler = small_compiler()
        turns = 0
        try:
            compiling = asyncio.ensure_future(
                asyncio.to_thread(compiler.compile, regex_grammar("a"))
            )
            while not compiling.done():
                turns += 1
                await asyncio.sleep(0)
            await compiling
            return turns
        finally:
            compiler.close()

    assert asyncio.run(main()) > 1
