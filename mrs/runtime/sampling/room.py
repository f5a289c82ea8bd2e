"""Room for numbers of a whole vocabulary, used again for each token.

An array of a megabyte that is made anew each time is memory that the system hands out and takes
back each time, page by page: that takes longer than most of what is computed in it.
"""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

_mine = threading.local()


def room(name: str, size: int) -> NDArray[np.float32]:
    """This thread's room of that name, with whatever it holds; valid until it is asked for again.

    Args:
        name: what it is for.
        size: how many numbers.
    """
    rooms: dict[str, NDArray[np.float32]] = _mine.__dict__
    held = rooms.get(name)
    if held is None or len(held) < size:
        held = rooms[name] = np.empty(size, dtype=np.float32)
    return held[:size]
