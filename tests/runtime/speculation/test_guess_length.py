from __future__ import annotations

from mrs.runtime.speculation.guess_length import GuessLength


def test_right_guesses_make_more() -> None:
    length = GuessLength(8)
    taken = []
    for _ in range(4):
        taken.append(length.take())
        length.learn(taken[-1], taken[-1])
    assert taken == [3, 6, 8, 8]


def test_guesses_that_are_partly_right_make_one_more_than_were_right() -> None:
    length = GuessLength(8)
    length.learn(6, 2)
    assert length.take() == 3


def test_wrong_guesses_make_pauses_that_double_until_one_is_right() -> None:
    length = GuessLength(8)
    pauses = []
    for _ in range(4):
        length.learn(1, 0)
        pauses.append(0)
        while not (taken := length.take()):
            pauses[-1] += 1
        assert taken == 1
    assert pauses == [1, 2, 4, 8]
    length.learn(1, 1)
    length.learn(2, 0)
    assert [length.take(), length.take()] == [0, 1]
