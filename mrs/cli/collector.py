"""Python's garbage collector, told to come less often."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# Objects made before it looks for cycles among them; 700 by default.
_PATIENCE = 50_000


@contextmanager
def patient_collector() -> Iterator[None]:
    """Collect rarely while the context lasts.

    An export imports large libraries and makes hundreds of thousands of objects that live on;
    looking through them again and again is 7 % of a small model's export.
    """
    before = gc.get_threshold()
    gc.set_threshold(_PATIENCE, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
