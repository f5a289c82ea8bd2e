"""Request bodies to pydantic models, with errors that name the field and the value."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from mrs.errors import InvalidValueError, RequestError
from mrs.server.errors import (
    FieldTypeError,
    MalformedBodyError,
    MissingFieldError,
    UnsupportedFieldError,
)

UNSUPPORTED = "unsupported"
"""Type of the custom pydantic errors that mean "understood, but not possible here"."""

_LONGEST_SHOWN_VALUE = 40
# What pydantic puts after a key that is itself at fault.
_KEY = "[key]"


class RequestModel(BaseModel):
    """A part of a request: JSON types are not converted, unknown fields are kept aside."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)


def one_that_is_there(*names: str) -> dict[str, Any]:
    """What a JSON schema says of a model that needs one of these fields."""
    present = {"not": {"type": "null"}}
    return {"anyOf": [{"required": [name], "properties": {name: present}} for name in names]}


Parsed = TypeVar("Parsed", bound=RequestModel)


def parse_request(model: type[Parsed], body: bytes) -> Parsed:
    """Parse and validate a JSON body.

    Raises:
        MalformedBodyError: the body is not JSON, or not an object.
        MissingFieldError: a required field is absent.
        FieldTypeError: a field is of the wrong JSON type.
        UnsupportedFieldError: a field asks for something that cannot be done.
        InvalidValueError: a field has a value that it may not have.
    """
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        # The first one is enough to act on; later ones often only follow from it.
        details = error.errors(include_url=False)[0]
    raise _request_error(details)


def _request_error(details: ErrorDetails) -> RequestError:
    kind, param = details["type"], field_path(details["loc"])
    says = _sentence(details)
    if kind == "json_invalid":
        return MalformedBodyError(f"The request body is not valid JSON: {_json_fault(details)}.")
    if not param:
        return MalformedBodyError("The request body must be a JSON object.")
    if kind == "missing":
        return MissingFieldError(f"The field '{param}' is required.", param=param)
    if kind == UNSUPPORTED:
        return UnsupportedFieldError(f"'{param}': {says}.", param=param)
    sentence = f"'{param}' is invalid: {says}, got {_shown(details['input'])}."
    is_type = kind.endswith(("_type", "_parsing", "_from_float", "tag_not_found"))
    return (FieldTypeError if is_type else InvalidValueError)(sentence, param=param)


def field_path(location: tuple[int | str, ...]) -> str:
    """Return a pydantic location as clients write it.

    Names in angle brackets are the tags of unions: they are not in the client's JSON.

    >>> field_path(("messages", 0, "content", "<parts>", 1, "type"))
    'messages[0].content[1].type'
    """
    path = ""
    for step in location:
        if isinstance(step, int):
            path += f"[{step}]"
        elif not step.startswith("<") and step != _KEY:
            path += f".{step}" if path else step
    return path


def _sentence(details: ErrorDetails) -> str:
    bounds = details.get("ctx", {})
    if details["type"] == "too_short":
        return f"it should have at least {bounds['min_length']} item"
    if details["type"] == "too_long":
        return f"it should have at most {bounds['max_length']} items"
    return details["msg"][:1].lower() + details["msg"][1:]


def _json_fault(details: ErrorDetails) -> str:
    return str(details.get("ctx", {}).get("error", "it cannot be parsed"))


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"an array of {len(value)}"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN_VALUE else text[:_LONGEST_SHOWN_VALUE] + "..."
