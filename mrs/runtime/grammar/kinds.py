"""What clients ask for, as a `Grammar`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mrs.runtime.generation import Grammar, GrammarKind
from mrs.runtime.grammar.errors import InvalidGrammarError

MOST_CHOICES = 10_000


def json_object_grammar() -> Grammar:
    """Any JSON object."""
    return Grammar(GrammarKind.JSON_SCHEMA, '{"type":"object"}')


def json_schema_grammar(schema: Mapping[str, Any] | bool | str) -> Grammar:
    """JSON that a schema (draft 2020-12) describes.

    Args:
        schema: as JSON values, or as JSON text. The order of ``properties`` is that of the answer.

    Raises:
        InvalidGrammarError: it is no JSON.
    """
    if isinstance(schema, str):
        return Grammar(GrammarKind.JSON_SCHEMA, schema)
    try:
        text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidGrammarError(f"The JSON schema is no JSON: {error}.") from error
    return Grammar(GrammarKind.JSON_SCHEMA, text)


def regex_grammar(pattern: str) -> Grammar:
    """Text that a regular expression matches as a whole (syntax of Rust's ``regex``)."""
    return Grammar(GrammarKind.REGEX, pattern)


def lark_grammar(source: str) -> Grammar:
    """Text of a context-free grammar in llguidance's form of Lark."""
    return Grammar(GrammarKind.LARK, source)


def llguidance_grammar(source: str | Mapping[str, Any]) -> Grammar:
    """A grammar in llguidance's own form: ``{"grammars": [...]}``."""
    if not isinstance(source, str):
        source = json.dumps(source, ensure_ascii=False, separators=(",", ":"))
    return Grammar(GrammarKind.LLGUIDANCE, source)


def choice_grammar(choices: Sequence[str]) -> Grammar:
    """One of these strings.

    Raises:
        InvalidGrammarError: there is none, one is empty, or they are too many.
    """
    if not choices or not all(choices):
        raise InvalidGrammarError(
            "A choice needs at least one string, and none may be empty.", param="choice"
        )
    if len(choices) > MOST_CHOICES:
        raise InvalidGrammarError(
            f"The choice has {len(choices)} strings; at most {MOST_CHOICES} are allowed.",
            param="choice",
        )
    return Grammar(GrammarKind.REGEX, "|".join(map(_literal, dict.fromkeys(choices))))


def _literal(text: str) -> str:
    """A pattern for this text alone; what Python escapes, Rust's syntax lets be escaped or not."""
    return re.sub(r"[\\.+*?()|\[\]{}^$#&\-~/]", r"\\\g<0>", text)
