"""A page of the items that a response was made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mrs.errors import InvalidValueError
from mrs.server.responses.database import Item

MAX_LIMIT = 100
_USUAL_LIMIT = 20


@dataclass(frozen=True)
class PageRequest:
    """Which items are wanted.

    Attributes:
        limit: most items of a page.
        descending: the newest first.
        after: id of the item that the page begins after, in that order.
        before: id of the item that it ends before.
    """

    limit: int = _USUAL_LIMIT
    descending: bool = True
    after: str | None = None
    before: str | None = None


def page(items: Sequence[Item], wanted: PageRequest) -> dict[str, Any]:
    """The page.

    Raises:
        InvalidValueError: ``after`` or ``before`` names none of the items.
    """
    ordered = list(reversed(items)) if wanted.descending else list(items)
    if wanted.after is not None:
        ordered = ordered[_position(ordered, wanted.after, "after") + 1 :]
    if wanted.before is not None:
        ordered = ordered[: _position(ordered, wanted.before, "before")]
    shown = ordered[: wanted.limit]
    return {
        "object": "list",
        "data": shown,
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
        "has_more": len(ordered) > len(shown),
    }


def _position(items: Sequence[Item], item_id: str, param: str) -> int:
    for index, item in enumerate(items):
        if item["id"] == item_id:
            return index
    raise InvalidValueError(
        f"'{param}' is {item_id[:100]!r}, which is none of the response's items.", param=param
    )
