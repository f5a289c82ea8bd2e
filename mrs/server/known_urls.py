"""What a client may have meant by a URL or a method that is not served."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

_LONGEST = 200


def allowed_methods(routes: Iterable[BaseRoute], scope: Scope) -> str:
    """The methods of all routes to the URL of ``scope``, in alphabetical order.

    For the ``Allow`` header of a 405 (RFC 9110, section 15.5.6).

    A URL that is spelled out hides patterns that it matches too: ``/v1/models/status`` is an
    operation, and no model.
    """
    found = list(_matching(routes, scope))
    spelled_out = [route for route in found if not route.param_convertors]
    return ", ".join(
        sorted({method for route in spelled_out or found for method in route.methods or ()})
    )


def meant_path(routes: Iterable[BaseRoute], scope: Scope) -> str | None:
    """The path that a client with another base URL would have asked for; None if none is likely.

    Base URLs of OpenAI's clients end with ``/v1``, those of Anthropic's do not; some have a slash
    too many.
    """
    path: str = scope["path"]
    bare = "/" + path.strip("/")
    while bare.startswith("/v1/"):
        bare = bare.removeprefix("/v1")
    for meant in (f"/v1{bare}", bare):
        if meant == path or len(meant) > _LONGEST:
            continue
        if any(_matching(routes, {**scope, "path": meant})):
            return meant
    return None


def _matching(routes: Iterable[BaseRoute], scope: Scope) -> Iterator[Route]:
    """The routes to the URL of ``scope``, for whatever method."""
    return (route for route in _single(routes) if route.matches(scope)[0] is not Match.NONE)


def _single(routes: Iterable[BaseRoute]) -> Iterator[Route]:
    for route in routes:
        if isinstance(route, Route):
            yield route
        # FastAPI keeps a router that was included whole; ours have no prefix.
        included = getattr(route, "original_router", None)
        if included is not None:
            yield from _single(included.routes)
