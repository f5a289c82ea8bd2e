from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrs.server.conversation.feed import Feed, Reading
from mrs.server.conversation.markers import Markers
from tests.server.conversation.reading import cut


def run(parser: Callable[[Feed], Reading[Any]], pieces: list[str]) -> tuple[Any, str]:
    """What a parser returns, and what it left, for text in pieces."""
    feed = Feed()
    reading = parser(feed)
    arriving = iter(pieces)
    while True:
        try:
            next(reading)
        except StopIteration as result:
            rest = feed.take_all() + "".join(arriving)
            return result.value, rest
        piece = next(arriving, None)
        if piece is None:
            feed.end()
        else:
            feed.push(piece)


class TestMarkers:
    def test_the_first_one_in_the_text_is_found(self) -> None:
        assert Markers(("<b>", "<aa>")).find("x<aa><b>") == (1, "<aa>")

    def test_none_is_at_the_end(self) -> None:
        assert Markers(("<b>",)).find("x<b") == (3, "")

    @pytest.mark.parametrize(("text", "place"), [("x<b", 1), ("x<", 1), ("x<c", 3), ("<<", 1)])
    def test_a_beginning_at_the_end_is_told(self, text: str, place: int) -> None:
        assert Markers(("<b>",)).begun(text) == place

    def test_what_was_taken_is_not_looked_at(self) -> None:
        assert Markers(("<b>",)).find("<b>x<b>", 1) == (4, "<b>")


class TestUntil:
    def test_text_is_held_back_only_while_it_may_be_a_marker(self) -> None:
        feed, seen = Feed(), list[str]()
        reading = feed.until(Markers(("<call>",)), seen.append)
        for piece in ("a", "<", "ca", "t>", "<call>b"):
            feed.push(piece)
            try:
                next(reading)
            except StopIteration as result:
                assert result.value == "<call>"
        assert seen == ["a", "<cat>"]
        assert feed.take_all() == "b"

    def test_the_end_lets_out_what_was_held_back(self) -> None:
        seen: list[str] = []
        found, _ = run(lambda feed: feed.until(Markers(("<call>",)), seen.append), ["a<c", "al"])
        assert (found, "".join(seen)) == ("", "a<cal")

    @given(st.text("<al>", max_size=30), st.lists(st.integers(0, 99)))
    def test_it_splits_like_the_whole_text(self, text: str, places: list[int]) -> None:
        seen: list[str] = []
        marker = "<al>"
        found, rest = run(
            lambda feed: feed.until(Markers((marker,)), seen.append), cut(text, places)
        )
        before, expected, after = text.partition(marker)
        assert ("".join(seen), found, rest) == (before, expected, after)


@pytest.mark.parametrize(
    ("text", "accepted", "rest"), [("abc", True, "c"), ("abd", True, "d"), ("ax", False, "ax")]
)
def test_a_literal_is_taken_whole_or_not_at_all(text: str, accepted: bool, rest: str) -> None:
    assert run(lambda feed: feed.accept("ab"), list(text)) == (accepted, rest)


def test_a_literal_that_the_end_cuts_off_is_not_taken() -> None:
    assert run(lambda feed: feed.accept("abc"), ["a", "b"]) == (False, "ab")


def test_a_record_holds_what_was_taken() -> None:
    feed = Feed()
    feed.push("abcd")
    feed.take(1)
    record = feed.start_record()
    feed.take(2)
    assert feed.stop_record(record) == "bc"
    feed.take(1)
    assert record == ["bc"]
