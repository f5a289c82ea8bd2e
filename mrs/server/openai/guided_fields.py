"""What vLLM and llama.cpp call the fields that say what an answer must match."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from mrs.runtime.generation import Grammar
from mrs.runtime.grammar import (
    choice_grammar,
    json_object_grammar,
    json_schema_grammar,
    regex_grammar,
)
from mrs.runtime.grammar.kinds import MOST_CHOICES
from mrs.server.validation import UNSUPPORTED, RequestModel

Schema = dict[str, Any] | bool | str
Choices = Annotated[list[str], Field(max_length=MOST_CHOICES)]

# Each would change the answer; none has an equivalent.
_REFUSED = ("grammar", "structural_tag", "whitespace_pattern", "disable_any_whitespace",
            "disable_additional_properties")  # fmt: skip


class StructuredOutputs(RequestModel):
    """vLLM's ``structured_outputs``: one way of saying it."""

    schema_of_json: Schema | None = Field(
        None, alias="json", description="A JSON schema, as JSON or as JSON text."
    )
    regex: str | None = None
    choice: Choices | None = Field(None, description="One of these strings.")
    json_object: bool | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_what_is_not_there(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        for name in _REFUSED:
            if value.get(name):
                raise PydanticCustomError(
                    UNSUPPORTED,
                    "'{name}' is not supported here; send a Lark grammar as 'grammar'",
                    {"name": name},
                )
        return value

    @model_validator(mode="after")
    def _in_one_way(self) -> StructuredOutputs:
        ways = (self.schema_of_json, self.regex, self.choice, self.json_object or None)
        if sum(way is not None for way in ways) != 1:
            raise PydanticCustomError(
                "structured_outputs", "it needs one of json, regex, choice and json_object"
            )
        return self

    def grammar(self) -> Grammar:
        """The same for the engine."""
        if self.schema_of_json is not None:
            return json_schema_grammar(self.schema_of_json)
        if self.regex is not None:
            return regex_grammar(self.regex)
        return json_object_grammar() if self.choice is None else choice_grammar(self.choice)


class GuidedFields(RequestModel):
    """For requests of OpenAI's endpoints, which vLLM and llama.cpp extend."""

    structured_outputs: StructuredOutputs | None = Field(
        None, description="vLLM's form of what the answer must match."
    )
    guided_json: Schema | None = Field(None, description="vLLM's older form: a JSON schema.")
    guided_regex: str | None = Field(None, description="vLLM's older form: a regular expression.")
    guided_choice: Choices | None = Field(None, description="vLLM's older form: some strings.")
    json_schema: Schema | None = Field(None, description="llama.cpp's form: a JSON schema.")

    def guided(self) -> Iterator[tuple[str, Grammar]]:
        """What these fields ask for, by name."""
        if self.structured_outputs is not None:
            yield "structured_outputs", self.structured_outputs.grammar()
        if self.guided_json is not None:
            yield "guided_json", json_schema_grammar(self.guided_json)
        if self.guided_regex:
            yield "guided_regex", regex_grammar(self.guided_regex)
        if self.guided_choice:
            yield "guided_choice", choice_grammar(self.guided_choice)
        if self.json_schema is not None:
            yield "json_schema", json_schema_grammar(self.json_schema)
