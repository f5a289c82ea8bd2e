"""Many literal strings as one regular expression."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

_END = ""


def any_of(literals: Iterable[str]) -> str:
    """A pattern for any of these strings, the longest that is there; empty for none.

    The strings become a tree of their common beginnings, so that a search costs about the same for
    ten of them as for ten thousand (Gemma has more than six thousand control tokens).
    """
    texts = sorted(
        {literal for literal in literals if literal}, key=lambda text: (-len(text), text)
    )
    try:
        pattern = _pattern(_tree(texts))
        re.compile(pattern)
    except RecursionError:  # each is the beginning of the next, a thousand times over
        return "|".join(map(re.escape, texts))
    return pattern


def _tree(texts: Iterable[str]) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for text in texts:
        node = root
        for letter in text:
            node = node.setdefault(letter, {})
        node[_END] = {}
    return root


def _pattern(node: dict[str, Any]) -> str:
    branches = [
        re.escape(letter) + _pattern(child) for letter, child in node.items() if letter != _END
    ]
    if not branches:
        return ""
    optional = "?" if _END in node else ""
    if len(branches) == 1 and not optional:
        return branches[0]
    return f"(?:{'|'.join(branches)}){optional}"
