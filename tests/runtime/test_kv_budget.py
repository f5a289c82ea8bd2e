"""How many bytes, and how many tokens that is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrs.errors import UsageError
from mrs.runtime import kv_budget
from mrs.runtime.kv_budget import check_budget, default_budget, default_kept_bytes, tokens_within


def pages(tokens: int) -> int:
    return -(-tokens // 16) * 4096


@pytest.mark.parametrize(
    ("free", "budget"),
    [
        (None, 4 * pages(8000)),
        (1 << 40, 4 * pages(8000)),
        (4_000_000, 2_000_000),
        (1000, pages(2048)),
    ],
)
def test_by_default_half_of_the_free_memory_within_reason(
    monkeypatch: pytest.MonkeyPatch, free: int | None, budget: int
) -> None:
    monkeypatch.setattr(kv_budget, "available_memory", lambda: free)
    assert default_budget(pages, slots=4, max_length=8000) == budget


@pytest.mark.parametrize(("free", "kept"), [(None, 0), (8000, 1000), (1 << 40, 1 << 30)])
def test_by_default_an_eighth_of_the_free_memory_is_for_kept_rows(
    monkeypatch: pytest.MonkeyPatch, free: int | None, kept: int
) -> None:
    monkeypatch.setattr(kv_budget, "available_memory", lambda: free)
    assert default_kept_bytes() == kept


@given(st.integers(0, 500_000), st.integers(1, 5000))
def test_the_longest_row_within_a_budget(budget: int, most: int) -> None:
    tokens = tokens_within(budget, pages, most)
    assert pages(tokens) <= budget
    assert tokens == most or pages(tokens + 1) > budget


def test_a_budget_without_room_for_a_row_is_refused() -> None:
    check_budget(pages(100), pages, 100)
    with pytest.raises(UsageError, match="is 28671; 100 tokens of this model need 28672"):
        check_budget(pages(100) - 1, pages, 100)
