"""Modules that are loaded when something of them is first used, and not when they are imported."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType


class LazyFinder:
    """An import hook that defers the loading of some modules; they behave as always otherwise.

    Args:
        names: full names of the modules.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = frozenset(names)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The usual spec of one of the modules, with a loader that waits; None for all others."""
        if name not in self._names:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


def load_lazily(*names: str) -> None:
    """Defer the loading of modules that nobody has imported yet."""
    sys.meta_path.insert(0, LazyFinder([name for name in names if name not in sys.modules]))
