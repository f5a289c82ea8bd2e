from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from mrs.export.graph.ordered_map import ordered_map


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_results_are_in_the_order_of_the_items(workers: int) -> None:
    """The first item is finished last."""
    others = threading.Event()

    def square(item: int) -> int:
        if item == 0 and workers > 1:
            assert others.wait(30)
        elif item == 1:
            others.set()
        return item * item

    assert list(ordered_map(square, range(20), workers)) == [item * item for item in range(20)]


def test_items_are_taken_as_results_are() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for item in range(100):
            taken.append(item)
            yield item

    results = ordered_map(str, items(), 2)
    next(results)
    assert len(taken) <= 4


def test_an_error_is_raised_at_its_place() -> None:
    def reciprocal(item: int) -> float:
        return 1 / item

    results = ordered_map(reciprocal, [2, 0, 4], 2)
    assert next(results) == 0.5
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_leaving_early_ends_the_threads() -> None:
    results = ordered_map(str, range(1000), 2)
    assert next(results) == "0"
    results.close()  # type: ignore[attr-defined]
    assert not [t for t in threading.enumerate() if t.name.startswith("mrs-encode")]
