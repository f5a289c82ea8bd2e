"""Which API a request speaks, for what all of them tell in forms of their own: errors above all."""

from __future__ import annotations

from enum import Enum, auto

from starlette.types import Scope

_VERSION_HEADER = b"anthropic-version"
_SHARED_PATHS = ("/v1/models",)


class Dialect(Enum):
    """An API."""

    OPENAI = auto()
    ANTHROPIC = auto()


def dialect_of(scope: Scope) -> Dialect:
    """The dialect of a request: by its path, and by its headers where both APIs have the path."""
    path = scope["path"]
    if _is_below(path, "/v1/messages"):
        return Dialect.ANTHROPIC
    if any(_is_below(path, shared) for shared in _SHARED_PATHS) and any(
        name == _VERSION_HEADER for name, _ in scope["headers"]
    ):
        return Dialect.ANTHROPIC
    return Dialect.OPENAI


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root + "/")
