"""What the text of an answer must match: ``text.format`` and its other names."""

from __future__ import annotations

from typing import Any

from mrs.errors import InvalidValueError
from mrs.runtime.generation import Grammar
from mrs.runtime.grammar import json_object_grammar, json_schema_grammar
from mrs.server.openai.grammar_fields import asked_grammar
from mrs.server.responses.schemas import ResponsesRequest, TextFormatField


def response_grammar(request: ResponsesRequest) -> Grammar | None:
    """What the text must match; None for anything.

    Raises:
        InvalidValueError: two fields say it.
    """
    asked = asked_grammar(request.grammar, request.response_format)
    wanted = _text_grammar(_text_format(request))
    if wanted is None:
        return asked
    if asked is not None:
        raise InvalidValueError(
            "'text.format' is one of two fields that say what the text must match.",
            hint="Send one of them.",
            param="text.format",
        )
    return wanted


def format_told(request: ResponsesRequest) -> dict[str, Any]:
    """The format as the response tells it again."""
    given = _text_format(request)
    if given is None and request.response_format is not None:
        inner = request.response_format.json_schema
        fields = {} if inner is None else inner.model_dump(by_alias=True)
        given = TextFormatField(**{**fields, "type": request.response_format.type})
    if given is None or given.type != "json_schema":
        return {"type": "text" if given is None else given.type}
    return {
        "type": "json_schema",
        "name": given.name,
        "description": given.description,
        "schema": given.json_schema,
        # It always holds.
        "strict": True,
    }


def _text_format(request: ResponsesRequest) -> TextFormatField | None:
    return None if request.text is None else request.text.format


def _text_grammar(given: TextFormatField | None) -> Grammar | None:
    if given is None or given.type == "text":
        return None
    if given.json_schema is None:
        return json_object_grammar()
    return json_schema_grammar(given.json_schema)
