"""Prompts of a load test: random words, and no two alike."""

from __future__ import annotations

import numpy as np

# Common words: one token each in nearly every vocabulary, with the space before them.
_WORDS = (
    "the of and to in is was for on that with as by at from it an be this which or are not have "
    "has had but were they their one all we can her his been more who will about time out up "
    "people into some other when only two also than its new what first may after over such these "
    "between many most through well before must back years where much even good made how long"
)


def prompt(tokens: int, number: int) -> str:
    """A text of about so many tokens; one number's begins differently from another's."""
    words = np.random.default_rng([tokens, number]).choice(_WORDS.split(), max(1, tokens))
    return " ".join(words.tolist())
