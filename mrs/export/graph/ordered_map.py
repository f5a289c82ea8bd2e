"""A function over many items on all cores, its results in order and only a few at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from mrs.cpu import usable_cpus

Item = TypeVar("Item")
Result = TypeVar("Result")


def ordered_map(
    function: Callable[[Item], Result], items: Iterable[Item], workers: int | None = None
) -> Iterator[Result]:
    """The results of ``function`` for each item, in the order of the items.

    Items are taken as results are: never more than one result for each worker waits. Made for
    numpy, which gives up the interpreter's lock while it works on arrays.

    Args:
        function: called in threads.
        items: taken in the caller's thread.
        workers: how many threads; by default one for each processor that the process may use.
    """
    workers = workers or usable_cpus()
    if workers == 1:
        yield from map(function, items)
        return
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="mrs-encode") as pool:
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
