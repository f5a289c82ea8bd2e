"""The methods that a URL takes, for the ``Allow`` header of a 405 (RFC 9110, section 15.5.6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope


def allowed_methods(routes: Iterable[BaseRoute], scope: Scope) -> str:
    """Return the methods of all routes to the URL of ``scope``, in alphabetical order.

    A URL that is spelled out hides patterns that it matches too: ``/v1/models/status`` is an
    operation, and no model.
    """
    found = [route for route in _single(routes) if route.matches(scope)[0] is not Match.NONE]
    spelled_out = [route for route in found if not route.param_convertors]
    return ", ".join(
        sorted({method for route in spelled_out or found for method in route.methods or ()})
    )


def _single(routes: Iterable[BaseRoute]) -> Iterator[Route]:
    for route in routes:
        if isinstance(route, Route):
            yield route
        # FastAPI keeps a router that was included whole; ours have no prefix.
        included = getattr(route, "original_router", None)
        if included is not None:
            yield from _single(included.routes)
