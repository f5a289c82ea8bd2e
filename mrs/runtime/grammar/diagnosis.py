"""What the library says of a grammar that it does not compile, as one sentence."""

from __future__ import annotations

import re

from mrs.runtime.generation import Grammar, GrammarKind
from mrs.runtime.grammar.errors import InvalidGrammarError

_NAMES = {
    GrammarKind.REGEX: "regular expression",
    GrammarKind.LARK: "Lark grammar",
    GrammarKind.JSON_SCHEMA: "JSON schema",
    GrammarKind.LLGUIDANCE: "grammar",
}
_PLACE = re.compile(r"^(?:at )?(\d+)\((\d+)\): ", re.ASCII)
_REGEX_ERROR = re.compile(r"regex parse error:\n(.*\n)*?( *)\^+\n(?:.*\n)*?error: (.*)", re.ASCII)
_INDENT = 4
_HINTS = {
    "oneOf": "Use 'anyOf', or set 'coerce_one_of' in 'x-guidance' to have it taken for 'anyOf'.",
    "Unimplemented": "Leave them out, or set 'lenient' in 'x-guidance' to have them ignored.",
}


def not_compiled(grammar: Grammar, error: str) -> InvalidGrammarError:
    """The error for a grammar, from the library's message."""
    name = _NAMES[grammar.kind]
    if error.startswith("NoExtension"):
        return InvalidGrammarError(f"The {name} matches no text at all.")
    if error.startswith(("panic", "PanicException", "MemoryError")):
        return InvalidGrammarError(
            f"The {name} is too complex: {_first_line(error)}.",
            hint="Make it simpler: fewer alternatives, references and counts.",
        )
    hint = next((hint for word, hint in _HINTS.items() if word in error), "")
    return InvalidGrammarError(f"The {name} does not compile: {_what(grammar, error)}.", hint=hint)


def _what(grammar: Grammar, error: str) -> str:
    place = _PLACE.match(error)
    where = ""
    if place and grammar.kind is not GrammarKind.REGEX:
        where = f"at line {place[1]}, column {place[2]}: "
    if found := _REGEX_ERROR.search(error):
        position = max(1, len(found[2]) - _INDENT + 1)
        inner = "" if grammar.kind is GrammarKind.REGEX else "in a regular expression, "
        return f"{where}{inner}{found[3].strip()} at position {position}{_pattern(grammar, error)}"
    return where + _first_line(error[place.end() :] if place else error)


def _pattern(grammar: Grammar, error: str) -> str:
    """Which pattern of several is meant."""
    if grammar.kind is GrammarKind.REGEX:
        return ""
    lines = error.partition("regex parse error:\n")[2].splitlines()
    return f" of {lines[0].strip()[:100]!r}" if lines else ""


def _first_line(error: str) -> str:
    line = next((line.strip() for line in error.splitlines() if line.strip()), "")
    return line.rstrip(".")[:500] or "it is not known why"
