"""One file per family: the variations of it that are compared with transformers."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from tests.reference.tiny_model import TinyModel

CASES: tuple[TinyModel, ...] = tuple(
    case
    for module in sorted(iter_modules(__path__), key=lambda found: found.name)
    for case in import_module(f"{__name__}.{module.name}").CASES
)
