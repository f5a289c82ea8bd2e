"""Query parameters, with the errors of request bodies."""

from __future__ import annotations

from starlette.requests import Request

from mrs.errors import InvalidValueError
from mrs.server.responses.input_list import MAX_LIMIT, PageRequest
from mrs.server.responses.schemas import INCLUDABLE

_WORDS = {"true": True, "1": True, "false": False, "0": False}


def flag(request: Request, name: str) -> bool:
    """A truth value; absent is false.

    Raises:
        InvalidValueError: it is neither true nor false.
    """
    text = request.query_params.get(name, "false")
    if text.lower() not in _WORDS:
        raise InvalidValueError(f"'{name}' is {text[:40]!r}, not true or false.", param=name)
    return _WORDS[text.lower()]


def number(request: Request, name: str, least: int, most: int) -> int | None:
    """A whole number, or None where it is absent.

    Raises:
        InvalidValueError: it is none, or out of bounds.
    """
    text = request.query_params.get(name)
    if text is None:
        return None
    plain = text.isascii() and text.isdigit() and len(text) <= 18
    if not plain or not least <= int(text) <= most:
        raise InvalidValueError(
            f"'{name}' is {text[:40]!r}, not a whole number from {least} to {most}.", param=name
        )
    return int(text)


def check_include(request: Request) -> None:
    """Check what is to be included: all that a response holds is shown anyway.

    Raises:
        InvalidValueError: something is not known.
    """
    parameters = request.query_params
    for value in [*parameters.getlist("include"), *parameters.getlist("include[]")]:
        if value not in INCLUDABLE:
            raise InvalidValueError(
                f"'include' holds {value[:60]!r}, which is not one of {', '.join(INCLUDABLE)}.",
                param="include",
            )


def page_request(request: Request) -> PageRequest:
    """Which items of a list are wanted.

    Raises:
        InvalidValueError: a parameter has a value that it may not have.
    """
    parameters = request.query_params
    order = parameters.get("order", "desc")
    if order not in ("asc", "desc"):
        raise InvalidValueError(f"'order' is {order[:40]!r}, not asc or desc.", param="order")
    limit = number(request, "limit", 1, MAX_LIMIT)
    return PageRequest(
        PageRequest.limit if limit is None else limit,
        order == "desc",
        parameters.get("after"),
        parameters.get("before"),
    )
