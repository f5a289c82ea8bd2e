"""Which tokens may be drawn, and when an answer ends."""

from __future__ import annotations

import numpy as np

from mrs.runtime.grammar import lark_grammar, regex_grammar
from mrs.runtime.grammar.compiler import GrammarCompiler
from tests.runtime.grammar.vocabularies import (
    END,
    EOS,
    OTHER_END,
    TOKENIZER,
    VOCAB_SIZE,
    accepts,
    constrained,
    possible,
    texts,
)


def token(text: str) -> int:
    (index,) = TOKENIZER.encode(text, parse_special=False)
    return index


def test_the_first_token_is_restricted(compiler: GrammarCompiler) -> None:
    assert texts(constrained(compiler, regex_grammar("[ab]c"))) == {b"a", b"b"}


def test_ends_may_come_exactly_where_the_grammar_accepts(compiler: GrammarCompiler) -> None:
    constraint = constrained(compiler, regex_grammar("x(yz)*"))
    assert possible(constraint) == {token("x")}
    constraint.accept(token("x"))
    assert possible(constraint) == {token("y"), END, OTHER_END}
    constraint.accept(token("y"))
    assert possible(constraint) == {token("z")}


def test_ids_that_are_no_tokens_may_never_come(compiler: GrammarCompiler) -> None:
    constraint = constrained(compiler, regex_grammar("(?s:.*)"))
    assert max(possible(constraint)) == OTHER_END < VOCAB_SIZE - 1


def test_special_tokens_are_no_text(compiler: GrammarCompiler) -> None:
    constraint = constrained(compiler, lark_grammar(f'start: "{EOS}" "!"'))
    assert texts(constraint) == {b"<"}
    assert accepts(constraint, f"{EOS}!")


def test_a_grammar_can_name_a_special_token(compiler: GrammarCompiler) -> None:
    constraint = constrained(compiler, lark_grammar('start: "a" <|turn|>'))
    constraint.accept(token("a"))
    assert possible(constraint) == {OTHER_END}


def test_an_answer_that_can_only_end_is_complete(compiler: GrammarCompiler) -> None:
    constraint = constrained(compiler, regex_grammar("xy"))
    constraint.accept(token("x"))
    assert not constraint.complete
    constraint.accept(token("y"))
    assert constraint.complete


def test_stop_tokens_may_come_where_ends_may(compiler: GrammarCompiler) -> None:
    stop = token(";")
    constraint = constrained(compiler, regex_grammar("x;?y*"), stop_token_ids=(stop,))
    assert possible(constraint) == {token("x")}
    constraint.accept(token("x"))
    assert possible(constraint) == {token("y"), stop, END, OTHER_END}


def test_a_stop_token_that_alone_spells_the_text_may_come(compiler: GrammarCompiler) -> None:
    stop = token(";")
    constraint = constrained(compiler, regex_grammar("x;y"), stop_token_ids=(stop,))
    constraint.accept(token("x"))
    assert possible(constraint) == {stop}


def test_ends_that_are_ignored_may_not_come(compiler: GrammarCompiler) -> None:
    constraint = constrained(compiler, regex_grammar("x*"), ignore_eos=True)
    assert possible(constraint) == {token("x")}


def test_no_end_comes_before_the_least_number_of_tokens(compiler: GrammarCompiler) -> None:
    constraint = constrained(compiler, regex_grammar("x*"), min_tokens=2)
    assert possible(constraint, drawn=1) == {token("x")}
    assert possible(constraint, drawn=2) == {token("x"), END, OTHER_END}


def test_logits_that_may_come_are_left_as_they_are(compiler: GrammarCompiler) -> None:
    constraint = constrained(compiler, regex_grammar("[ab]"))
    logits = np.arange(VOCAB_SIZE, dtype=np.float32)
    constraint.restrict(logits, 0)
    assert logits[token("a")] == token("a")
    assert logits[token("c")] == -np.inf
