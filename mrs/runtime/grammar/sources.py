"""From the ways to write a grammar to the one form that llguidance compiles."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from mrs.runtime.generation import Grammar, GrammarKind
from mrs.runtime.grammar.errors import InvalidGrammarError
from mrs.runtime.grammar.limits import MOST_SCHEMA_DEPTH, MOST_SOURCE_BYTES

_WHITESPACE = r"(\x20|\x0D?\x0A[\x20\x09]{0,20})"
_OPTIONS = frozenset(
    {
        "item_separator",
        "key_separator",
        "whitespace_flexible",
        "whitespace_pattern",
        "coerce_one_of",
        "lenient",
        "json_allowed_escapes",
        "json_allow_general_unicode_escapes",
    }
)
_FORMATS = frozenset(
    {
        "date",
        "date-time",
        "duration",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "time",
        "unknown",
        "uri",
        "uuid",
    }
)
# What is in these is no schema.
_VALUES = frozenset({"const", "enum", "default", "examples"})


def json_whitespace() -> dict[str, Any]:
    """llguidance's options for JSON: between two tokens a space, or a line break and an indent.

    Models write both, and none can go on with spaces for ever.
    """
    return {"whitespace_pattern": _WHITESPACE}


def embeddable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON schema as it must be written after ``%json`` in a Lark grammar.

    White space is bounded, and formats that the library does not know are left out.
    """
    options = schema.get("x-guidance")
    if not isinstance(options, dict):
        options = {}
    whitespace = {} if options.get("whitespace_flexible") is not None else json_whitespace()
    return {**_with_known_formats(dict(schema)), "x-guidance": whitespace | options}


def compilable(grammar: Grammar) -> str:
    """The grammar in llguidance's form, ``{"grammars": [...]}``, as JSON text.

    Raises:
        InvalidGrammarError: it is too large, or no JSON where it must be.
    """
    size = len(grammar.source.encode("utf-8", "surrogatepass"))
    if size > MOST_SOURCE_BYTES:
        raise InvalidGrammarError(
            f"The grammar has {size} bytes; at most {MOST_SOURCE_BYTES} are allowed."
        )
    # White space is a pattern like any other, and in other grammars it is nothing.
    is_pattern = grammar.kind is GrammarKind.REGEX
    if not (grammar.source if is_pattern else grammar.source.strip()):
        raise InvalidGrammarError("The grammar is empty.")
    if grammar.kind is GrammarKind.JSON_SCHEMA:
        return _top_level({"json_schema": _schema(grammar.source)})
    if grammar.kind is GrammarKind.LARK:
        return _top_level({"lark_grammar": grammar.source})
    if grammar.kind is GrammarKind.REGEX:
        return _top_level({"lark_grammar": f"start: {_regex_literal(grammar.source)}"})
    return _own_form(grammar.source)


def required_names(grammar: Grammar) -> frozenset[str]:
    """The properties that a JSON schema requires anywhere; of other grammars none."""
    if grammar.kind is not GrammarKind.JSON_SCHEMA:
        return frozenset()
    names: set[str] = set()
    for value in _values(_parsed(grammar.source, "JSON schema")):
        required = value.get("required") if isinstance(value, dict) else None
        if isinstance(required, list):
            names.update(name for name in required if isinstance(name, str))
    return frozenset(names)


def _top_level(grammar: dict[str, Any]) -> str:
    return _dump({"grammars": [grammar]})


def _dump(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError as error:
        raise InvalidGrammarError(
            f"The grammar holds a number that is no JSON: {error}."
        ) from error


def _regex_literal(pattern: str) -> str:
    import llguidance

    return f"/{llguidance.regex_to_lark(pattern)}/"


def _schema(source: str) -> dict[str, Any]:
    schema = _parsed(source, "JSON schema")
    if schema is True:
        schema = {}
    if schema is False:
        raise InvalidGrammarError("The JSON schema is 'false': it matches nothing.")
    if not isinstance(schema, dict):
        raise InvalidGrammarError("The JSON schema must be an object or a boolean.")
    _check_depth(schema)
    options = schema.get("x-guidance", {})
    if not isinstance(options, dict):
        raise InvalidGrammarError("'x-guidance' in the JSON schema must be an object.")
    if unknown := sorted(set(options).difference(_OPTIONS)):
        raise InvalidGrammarError(
            f"'x-guidance' in the JSON schema has no option {unknown[0]!r}.",
            hint=f"There are {', '.join(sorted(_OPTIONS))}.",
        )
    return embeddable(schema)


def _with_known_formats(schema: Any) -> Any:
    """The schema without formats that the library would refuse: by the draft they say nothing."""
    if isinstance(schema, list):
        return [_with_known_formats(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: inner if key in _VALUES else _with_known_formats(inner)
        for key, inner in schema.items()
        if key != "format" or not isinstance(inner, str) or inner in _FORMATS
    }


def _own_form(source: str) -> str:
    value = _parsed(source, "grammar")
    grammars = value.get("grammars") if isinstance(value, dict) else None
    if not isinstance(grammars, list) or not grammars:
        raise InvalidGrammarError(
            "A grammar in llguidance's form is an object with a list 'grammars', not empty."
        )
    if value.get("max_tokens") is not None:
        raise InvalidGrammarError(
            "'max_tokens' in a grammar is not supported.", hint="Set it in the request."
        )
    _check_depth(value)
    return _dump(value)


def _parsed(source: str, what: str) -> Any:
    try:
        return json.loads(source)
    except json.JSONDecodeError as error:
        raise InvalidGrammarError(
            f"The {what} is no JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        ) from error
    except (RecursionError, ValueError) as error:
        raise InvalidGrammarError(f"The {what} cannot be read: {error}.") from error


def _check_depth(value: Any) -> None:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MOST_SCHEMA_DEPTH:
            raise InvalidGrammarError(
                f"The grammar is nested more than {MOST_SCHEMA_DEPTH} levels deep."
            )
        level = [inner for outer in level for inner in _members(outer)]


def _values(value: Any) -> Iterator[Any]:
    waiting = [value]
    while waiting:
        value = waiting.pop()
        yield value
        waiting += _members(value)


def _members(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
