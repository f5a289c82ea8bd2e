"""The fields of a request that say what an answer must match, whatever the endpoint."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from mrs.errors import InvalidValueError
from mrs.runtime.generation import Grammar
from mrs.runtime.grammar import (
    json_object_grammar,
    json_schema_grammar,
    lark_grammar,
    llguidance_grammar,
    regex_grammar,
)
from mrs.server.validation import RequestModel


class GrammarField(RequestModel):
    """A grammar, as mistral.rs's clients send it."""

    type: Literal["regex", "lark", "json_schema", "llguidance"]
    value: str | dict[str, Any] | bool = Field(
        description="The grammar; a schema or llguidance's own form may be JSON or JSON text."
    )

    @model_validator(mode="after")
    def _text_where_it_is_no_json(self) -> GrammarField:
        if self.type in ("regex", "lark") and not isinstance(self.value, str):
            raise PydanticCustomError("string_type", "a {kind} is a string", {"kind": self.type})
        if self.type == "llguidance" and isinstance(self.value, bool):
            raise PydanticCustomError("string_type", "it should be an object or a string")
        return self

    def grammar(self) -> Grammar:
        """The same for the engine."""
        value: Any = self.value
        make: dict[str, Any] = {
            "regex": regex_grammar,
            "lark": lark_grammar,
            "json_schema": json_schema_grammar,
            "llguidance": llguidance_grammar,
        }
        grammar: Grammar = make[self.type](value)
        return grammar


class NamedSchema(RequestModel):
    """A JSON schema, and what it is called."""

    name: str | None = None
    description: str | None = None
    json_schema: dict[str, Any] | bool | None = Field(None, alias="schema")
    strict: bool | None = Field(None, description="The schema always holds, strict or not.")


class ResponseFormat(RequestModel):
    """What the text of an answer must be."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: NamedSchema | None = None
    object_schema: dict[str, Any] | bool | None = Field(
        None, alias="schema", description="The schema of a `json_object`, as llama.cpp has it."
    )

    @model_validator(mode="after")
    def _with_a_schema(self) -> ResponseFormat:
        if self.type == "json_schema" and self.json_schema is None:
            raise PydanticCustomError("missing_schema", "its type needs a json_schema")
        return self

    def grammar(self) -> Grammar | None:
        """The same for the engine; None for any text."""
        if self.type == "text":
            return None
        schema = self.object_schema
        if self.type == "json_schema" and self.json_schema is not None:
            schema = self.json_schema.json_schema
        return json_object_grammar() if schema is None else json_schema_grammar(schema)


def asked_grammar(
    grammar: GrammarField | None,
    response_format: ResponseFormat | None,
    others: Iterable[tuple[str, Grammar]] = (),
) -> Grammar | None:
    """What an answer must match, by whichever field.

    Args:
        grammar: the field of that name.
        response_format: the same.
        others: what other fields ask for, by name.

    Raises:
        InvalidValueError: two fields ask for something.
    """
    asked: dict[str, Grammar] = {}
    wanted = response_format.grammar() if response_format else None
    if wanted is not None:
        asked["response_format"] = wanted
    if grammar is not None:
        asked["grammar"] = grammar.grammar()
    asked.update(others)
    if len(asked) > 1:
        first, second, *_ = asked
        raise InvalidValueError(
            f"'{second}' and '{first}' both say what the answer must match.",
            hint="Send one of them.",
            param=second,
        )
    return next(iter(asked.values()), None)
