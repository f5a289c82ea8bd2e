"""Fields that are a text, or something else: which of the two a value is, told by its JSON type.

Tags are in angle brackets, so that they are no part of a field's path (`validation.field_path`).
"""

from __future__ import annotations

from typing import Any

from pydantic import Discriminator


def text_or_list(tag: str, *, error_type: str, message: str) -> Discriminator:
    """Between ``<string>`` and a list, which has the tag that is given."""

    def tag_of(value: Any) -> str | None:
        if isinstance(value, str):
            return "<string>"
        return tag if isinstance(value, list) else None

    return Discriminator(tag_of, custom_error_type=error_type, custom_error_message=message)


def texts_or_tokens(error_type: str) -> Discriminator:
    """Between ``<string>``, ``<strings>``, ``<tokens>`` and ``<token arrays>``."""
    return Discriminator(
        _kind_of_texts,
        custom_error_type=error_type,
        custom_error_message="it should be a string, an array of strings, token ids, or an array "
        "of arrays of token ids",
    )


def _kind_of_texts(value: Any) -> str | None:
    if isinstance(value, str):
        return "<string>"
    if not isinstance(value, list):
        return None
    first = value[0] if value else None
    if isinstance(first, list):
        return "<token arrays>"
    return "<tokens>" if isinstance(first, int) and not isinstance(first, bool) else "<strings>"
