"""Which tokens lead to the end of a text, where of its grammar only what it allows is known.

A guess, made for JSON: a bad one makes a plan longer, and no answer wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from mrs.runtime.grammar.token_mask import Bits, contains, members

_OPENS = 4000
_SPECIAL = -100
# Outside of free text: the first that matches counts. Longer tokens are better by their length.
_CLASSES: tuple[tuple[int, bytes], ...] = (
    (0, rb"[\]})]+"),
    (200, rb'""[\]}]*'),
    (300, rb'"'),
    (400, rb"0"),
    (410, rb"[1-9]|null|true|false|\[\]|\{\}"),
    (600, rb'"[\]}]+'),
    (700, rb'"[^\s"\[{(\\]+'),
    (5000, rb"\s+"),
    (_OPENS, rb"(?s:.*[\[{(].*)"),
    (3000, rb"\s(?s:.*)"),
    (2000, rb"(?s:.+)"),
)
# Within free text: its end, or much text at once.
_TEXT_CLASSES: tuple[tuple[int, bytes], ...] = (
    (0, rb'"[\]}]*'),
    (1000, rb"(?s:.+)"),
)
_SEPARATOR = re.compile(rb"[!-/:-@\[-`{-~]")
_NAMES = 150
_LONGEST = 16
_BEGINNINGS = 514
_TOKEN_BITS = 32
_NEVER = 1 << 20


class TokenPreferences:
    """An order of the tokens that a grammar allows.

    Args:
        outside: a rank for each token where structure is expected; lower is better.
        inside: the same within text.
        beginnings: a number for how each token begins.
        separators: which tokens are one character of punctuation.
        letter: a token that is allowed within text alone.
    """

    def __init__(
        self,
        outside: NDArray[np.int32],
        inside: NDArray[np.int32],
        beginnings: NDArray[np.int32],
        separators: NDArray[np.bool_],
        letter: int | None,
    ) -> None:
        self._outside = outside
        self._inside = inside
        self._beginnings = beginnings
        self._separators = separators
        self._letter = letter

    @classmethod
    def of(cls, pieces: Sequence[bytes], special: Sequence[int] = ()) -> TokenPreferences:
        """Rank the tokens of a vocabulary; takes a while for large ones.

        Args:
            pieces: bytes of each token.
            special: tokens that are no text; where a grammar asks for one, it ends a part.
        """
        count = len(pieces)
        lengths = np.minimum(np.fromiter(map(len, pieces), np.int32, count), _LONGEST)
        outside = np.fromiter(_ranks(pieces, _CLASSES), np.int32, count)
        # What begins something should begin no more than that.
        outside += np.where(outside == _OPENS, lengths, -lengths)
        inside = np.fromiter(_ranks(pieces, _TEXT_CLASSES), np.int32, count) - lengths
        beginnings = np.fromiter(map(_beginning, pieces), np.int32, count)
        outside[list(special)] = inside[list(special)] = _SPECIAL
        separators = np.zeros(count, dtype=np.bool_)
        short = np.flatnonzero(lengths == 1).tolist()
        separators[[i for i in short if _SEPARATOR.fullmatch(pieces[i])]] = True
        letter = pieces.index(b"a") if b"a" in pieces else None
        return cls(outside, inside, beginnings, separators, letter)

    def with_names(self, names: Iterable[str], ids: dict[bytes, int]) -> TokenPreferences:
        """The same, but these properties are better than others.

        Args:
            names: of the properties.
            ids: the tokens by their bytes.
        """
        starts = {
            start
            for name in names
            for whole in (b'"' + name.encode("utf-8", "replace"), name.encode("utf-8", "replace"))
            for end in range(1, min(len(whole), _LONGEST) + 1)
            if (start := whole[:end]) != b'"' and start in ids
        }
        if not starts:
            return self
        outside = self._outside.copy()
        for start in starts:
            place = ids[start]
            outside[place] = min(int(outside[place]), _NAMES - len(start))
        return TokenPreferences(
            outside, self._inside, self._beginnings, self._separators, self._letter
        )

    def ordered(self, allowed: Bits, most: int) -> Iterator[int]:
        """The best token that is allowed, then one for each way to begin, the best first."""
        tokens = members(allowed)
        if not len(tokens):
            return
        within = self._letter is not None and contains(allowed, self._letter)
        ranks = (self._inside if within else self._outside)[tokens]
        yield int(tokens[ranks.argmin()])
        if most == 1:
            return
        if within:  # What goes on with text stays within it. A separator may begin something new.
            ranks = ranks - 1000 * self._separators[tokens]
        bests = np.full(_BEGINNINGS, np.iinfo(np.int64).max)
        np.minimum.at(
            bests, self._beginnings[tokens], ranks.astype(np.int64) << _TOKEN_BITS | tokens
        )
        bests.sort()
        for best in bests[:most].tolist():
            if best != np.iinfo(np.int64).max:
                yield best & (1 << _TOKEN_BITS) - 1

    def closes(self, token: int) -> bool:
        """Whether the token is all brackets that end something."""
        return bool(self._outside[token] < 0)


def _ranks(pieces: Sequence[bytes], classes: Sequence[tuple[int, bytes]]) -> Iterator[int]:
    pattern = re.compile(b"|".join(b"(%s)" % pattern for _, pattern in classes)).fullmatch
    bases = [_NEVER, *(base for base, _ in classes)]
    for piece in pieces:
        match = pattern(piece)
        yield bases[0 if match is None else match.lastindex or 0]


def _beginning(piece: bytes) -> int:
    """The first byte; after a quotation mark, that and the next one."""
    if piece.startswith(b'"') and len(piece) > 1:
        return 256 + piece[1]
    return piece[0] if piece else 513
