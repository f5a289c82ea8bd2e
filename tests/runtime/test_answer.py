"""From drawn tokens to text, and when it ends."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrs.runtime.answer import Answer
from mrs.runtime.detokenizer import Detokenizer
from mrs.runtime.generation import FinishReason, GenerationDelta, SamplingParams, TokenLogprobs
from mrs.runtime.sequence import Sequence

EOS = 0
# A special token without text, pieces of one and of several characters, and parts of "é" and "€".
PIECES = (b"", b"a", b"b", b"ab", b"bca", b"c", b"\xc3", b"\xa9", b"\xe2", b"\x82", b"\xac", b" ")
TOKEN = {piece: token for token, piece in enumerate(PIECES)}


def answer(prompt: int = 3, max_length: int = 1000, **sampling: object) -> Answer:
    sequence = Sequence(
        (1,) * prompt,
        SamplingParams(**sampling),
        index=2,
        max_length=max_length,  # type: ignore[arg-type]
    )
    detokenizer = Detokenizer(SimpleNamespace(visible_pieces=PIECES, leading_spaces=0))  # type: ignore[arg-type]
    return Answer(sequence, detokenizer, frozenset({EOS}))


def say(answer: Answer, *pieces: bytes) -> list[GenerationDelta]:
    """Add tokens up to the one that ends the answer."""
    deltas = []
    for piece in pieces:
        deltas.append(answer.add(TOKEN[piece]))
        if deltas[-1].finish_reason is not None:
            break
    return deltas


def text(deltas: list[GenerationDelta]) -> str:
    return "".join(delta.text for delta in deltas)


def test_a_delta_names_its_choice_and_its_token() -> None:
    assert answer().add(TOKEN[b"ab"]) == GenerationDelta(2, "ab", (TOKEN[b"ab"],))


def test_the_end_of_sequence_token_is_counted_and_has_no_text() -> None:
    deltas = say(answer(), b"a", b"")
    assert deltas[-1] == GenerationDelta(2, "", (EOS,), FinishReason.STOP)


def test_the_end_of_sequence_token_wins_over_the_limit() -> None:
    assert say(answer(max_tokens=1), b"")[-1].finish_reason is FinishReason.STOP


def test_an_ignored_end_of_sequence_token_is_a_token_without_text() -> None:
    deltas = say(answer(ignore_eos=True, max_tokens=3), b"a", b"", b"b")
    assert [delta.text for delta in deltas] == ["a", "", "b"]
    assert deltas[-1].finish_reason is FinishReason.LENGTH


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_the_limit_is_reached_with_its_token_and_not_one_later(limit: int) -> None:
    deltas = say(answer(max_tokens=limit), *[b"a"] * 9)
    assert [delta.finish_reason for delta in deltas] == [None] * (limit - 1) + [FinishReason.LENGTH]
    assert text(deltas) == "a" * limit


def test_the_context_is_filled_to_its_last_token() -> None:
    deltas = say(answer(prompt=3, max_length=7), *[b"a"] * 9)
    assert len(deltas) == 4
    assert deltas[-1].finish_reason is FinishReason.LENGTH


def test_a_character_of_several_tokens_comes_when_it_is_complete() -> None:
    deltas = say(answer(), b"\xe2", b"\x82", b"\xac", b"a")
    assert [delta.text for delta in deltas] == ["", "", "€", "a"]


@pytest.mark.parametrize(
    ("sampling", "last"), [({}, (b"",)), ({"max_tokens": 2}, ())], ids=["eos", "limit"]
)
def test_an_incomplete_character_is_told_at_the_end(sampling, last) -> None:
    assert text(say(answer(**sampling), b"a", b"\xe2", *last)) == "a\ufffd"


def test_a_stop_string_over_token_borders_never_shows() -> None:
    deltas = say(answer(stop=("bcab",)), b"a", b"b", b"c", b"ab", b"a")
    assert [delta.text for delta in deltas] == ["a", "", "", ""]
    assert deltas[-1].finish_reason is FinishReason.STOP


def test_what_follows_a_stop_string_in_its_token_never_shows() -> None:
    deltas = say(answer(stop=("bc",)), b"a", b"bca")
    assert text(deltas) == "a"
    assert deltas[-1].token_ids == (TOKEN[b"bca"],)


def test_a_stop_string_counts_at_the_limit_too() -> None:
    deltas = say(answer(stop=("b",), max_tokens=2), b"a", b"ab")
    assert (text(deltas), deltas[-1].finish_reason) == ("aa", FinishReason.STOP)


@pytest.mark.parametrize(
    ("sampling", "last"), [({}, (b"",)), ({"max_tokens": 2}, ())], ids=["eos", "limit"]
)
def test_what_was_held_back_is_told_at_the_end(sampling, last) -> None:
    deltas = say(answer(stop=("bcx",), **sampling), b"a", b"b", *last)
    assert [delta.text for delta in deltas][:1] == ["a"]
    assert text(deltas) == "ab"
    assert deltas[-1].finish_reason is (FinishReason.LENGTH if sampling else FinishReason.STOP)


def test_a_stop_string_may_be_complete_only_at_the_very_end() -> None:
    """An incomplete character becomes U+FFFD there, which may be what a stop string waits for."""
    deltas = say(answer(stop=("b\ufffd",), max_tokens=3), b"a", b"b", b"\xe2")
    assert (text(deltas), deltas[-1].finish_reason) == ("a", FinishReason.STOP)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.integers(0, len(PIECES) - 1), min_size=1, max_size=30),
    st.lists(st.text("abcé ", min_size=1, max_size=4), max_size=3),
    st.booleans(),
)
def test_the_text_is_that_of_all_tokens_up_to_the_end(
    tokens: list[int], stop: list[str], ignore_eos: bool
) -> None:
    """Against the plain way: decode everything after each token, and look for stop strings."""
    expected, reason, count = _reference(tokens, stop, ignore_eos)
    speaker = answer(stop=tuple(stop), ignore_eos=ignore_eos, max_tokens=len(tokens))
    deltas = say(speaker, *[PIECES[token] for token in tokens])
    assert text(deltas) == expected
    assert deltas[-1].finish_reason is reason
    assert len(deltas) == count
    assert [token for delta in deltas for token in delta.token_ids] == tokens[:count]


def _reference(
    tokens: list[int], stop: list[str], ignore_eos: bool
) -> tuple[str, FinishReason, int]:
    for count in range(1, len(tokens) + 1):
        said = b"".join(PIECES[token] for token in tokens[:count])
        is_eos = tokens[count - 1] == EOS and not ignore_eos
        last = is_eos or count == len(tokens)
        decoded = said.decode("utf-8", "replace")
        # Until the end, an incomplete character at the end may still become any.
        sure = decoded if last else _without_incomplete_end(said)
        ends = [
            (end, -len(string))
            for string in stop
            for end in range(len(string), len(sure) + 1)
            if sure[:end].endswith(string)
        ]
        if ends:
            end, negative_length = min(ends)
            return sure[: end + negative_length], FinishReason.STOP, count
        if last:
            return decoded, FinishReason.STOP if is_eos else FinishReason.LENGTH, count
    raise AssertionError("unreachable")


def _without_incomplete_end(said: bytes) -> str:
    for beginning in (b"\xe2\x82", b"\xe2", b"\xc3"):
        if said.endswith(beginning):
            said = said.removesuffix(beginning)
            break
    return said.decode("utf-8", "replace")


def test_the_last_delta_tells_how_likely_the_whole_answer_was() -> None:
    said = answer(max_tokens=3, cumulative_logprob=True)
    deltas = [said.add(1, TokenLogprobs(1, logprob)) for logprob in (-0.5, -1.0, -2.0)]
    assert [delta.cumulative_logprob for delta in deltas] == [None, None, -3.5]
    assert not any(delta.logprobs for delta in deltas)


def test_an_end_of_sequence_token_counts_in_it() -> None:
    said = answer(cumulative_logprob=True)
    said.add(1, TokenLogprobs(1, -0.5))
    assert said.add(EOS, TokenLogprobs(EOS, -1.0)).cumulative_logprob == -1.5


def test_it_is_told_only_where_it_was_asked_for() -> None:
    delta = answer(max_tokens=1, logprobs=0).add(1, TokenLogprobs(1, -0.5))
    assert delta.cumulative_logprob is None
    assert delta.logprobs == (TokenLogprobs(1, -0.5),)
