"""Models in Anthropic's shape (https://docs.claude.com/en/api/models-list)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from pydantic import BaseModel

from mrs.errors import InvalidValueError
from mrs.server.served_model import ModelDescription

USUAL_LIMIT = 20
MOST = 1000


class ModelInfo(BaseModel):
    """A model that is served."""

    type: Literal["model"] = "model"
    id: str
    display_name: str
    created_at: datetime
    lifecycle: Literal["active"] = "active"
    max_input_tokens: int
    max_tokens: int


class ModelInfoPage(BaseModel):
    """Some of the models that are served."""

    data: list[ModelInfo]
    has_more: bool
    first_id: str | None
    last_id: str | None


def model_info(model: ModelDescription) -> ModelInfo:
    """One model."""
    return ModelInfo(
        id=model.name,
        display_name=model.name,
        created_at=datetime.fromtimestamp(model.created, UTC),
        max_input_tokens=model.max_model_len,
        max_tokens=model.max_model_len,
    )


def model_page(
    models: Sequence[ModelDescription],
    *,
    limit: str | None = None,
    after_id: str | None = None,
    before_id: str | None = None,
) -> ModelInfoPage:
    """A page of models.

    Args:
        models: all of them.
        limit: most models of a page, as the client wrote it; 20 if None.
        after_id: the page begins after this one.
        before_id: the page ends before this one.

    Raises:
        InvalidValueError: the limit is no number, or out of bounds.
    """
    most = _limit(limit)
    names = [model.name for model in models]
    infos = [model_info(model) for model in models]
    if after_id in names:
        infos = infos[names.index(after_id) + 1 :]
    elif before_id in names:
        infos = infos[: names.index(before_id)]
        # Those next to the one that it ends before.
        return _page(infos[-most:], has_more=len(infos) > most)
    return _page(infos[:most], has_more=len(infos) > most)


def _limit(text: str | None) -> int:
    if text is None:
        return USUAL_LIMIT
    if text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= MOST:
        return int(text)
    raise InvalidValueError(
        f"'limit' is {text[:40]!r}; it must be a number between 1 and {MOST}.", param="limit"
    )


def _page(infos: list[ModelInfo], *, has_more: bool) -> ModelInfoPage:
    return ModelInfoPage(
        data=infos,
        has_more=has_more,
        first_id=infos[0].id if infos else None,
        last_id=infos[-1].id if infos else None,
    )
