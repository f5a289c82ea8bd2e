from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrs.errors import InvalidValueError
from mrs.server.responses.input_list import PageRequest, page

ITEMS = [{"id": f"i{number}"} for number in range(5)]


@given(st.integers(0, 30), st.integers(1, 7), st.booleans())
def test_pages_one_after_the_other_are_all_items(count: int, limit: int, newest: bool) -> None:
    items = [{"id": f"i{number}"} for number in range(count)]
    after, seen = None, []
    while True:
        found = page(items, PageRequest(limit, newest, after))
        seen += found["data"]
        assert len(found["data"]) <= limit
        if not found["has_more"]:
            break
        after = found["last_id"]
    assert seen == (items[::-1] if newest else items)


def test_what_is_before_an_item() -> None:
    found = page(ITEMS, PageRequest(descending=False, after="i0", before="i3"))
    assert [item["id"] for item in found["data"]] == ["i1", "i2"]
    assert (found["first_id"], found["last_id"], found["has_more"]) == ("i1", "i2", False)


def test_a_page_of_nothing() -> None:
    found = page([], PageRequest())
    assert (found["data"], found["first_id"], found["last_id"]) == ([], None, None)


@pytest.mark.parametrize("param", ["after", "before"])
def test_an_unknown_item(param: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        page(ITEMS, PageRequest(**{param: "i9"}))
    assert caught.value.param == param
