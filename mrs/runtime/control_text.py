"""Text that the server writes into messages, in which control tokens are control tokens."""

from __future__ import annotations

from collections.abc import Iterable


class ControlText(str):
    """Text of the server's own: what it spells of control tokens means them."""

    __slots__ = ()


class MixedText(str):
    """Text put together of parts, some of which are `ControlText`.

    Attributes:
        parts: all of them, in order.
    """

    __slots__ = ("parts",)
    parts: tuple[str, ...]

    def __new__(cls, parts: Iterable[str]) -> MixedText:
        """Put the parts together."""
        kept = tuple(parts)
        text = super().__new__(cls, "".join(kept))
        text.parts = kept
        return text
