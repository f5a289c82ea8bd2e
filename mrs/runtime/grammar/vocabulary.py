"""A model's vocabulary as llguidance sees it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mrs.errors import MrsError
from mrs.runtime.grammar.preferences import TokenPreferences
from mrs.runtime.tokenizer import Tokenizer

if TYPE_CHECKING:
    import llguidance


class GrammarVocabulary:
    """The tokens that grammars are matched against.

    Text is matched with tokens that have text: special tokens and ends of sequence are no part of
    it, whatever they spell, and a grammar reaches them only by their own syntax.

    Args:
        tokenizer: the model's.
        vocab_size: width of the logits; ids beyond the tokenizer's are never allowed.
        eos_token_ids: what ends an answer.
    """

    def __init__(
        self, tokenizer: Tokenizer, vocab_size: int, eos_token_ids: Iterable[int] = ()
    ) -> None:
        self._tokenizer = tokenizer
        self.vocab_size = vocab_size
        self.eos_token_ids = tuple(sorted(i for i in eos_token_ids if 0 <= i < vocab_size))
        # A model without an end of sequence gets one that no logit belongs to.
        self._ends = self.eos_token_ids or (vocab_size,)

    @cached_property
    def pieces(self) -> tuple[bytes, ...]:
        """The bytes of each token that may be drawn."""
        pieces = self._tokenizer.pieces[: self.vocab_size]
        return pieces + (b"",) * (self.vocab_size - len(pieces))

    @cached_property
    def special_ids(self) -> tuple[int, ...]:
        """Tokens that are no text."""
        named = self._tokenizer.special_tokens.values()
        return tuple(sorted({i for i in named if i < self.vocab_size}.union(self.eos_token_ids)))

    @cached_property
    def ids(self) -> dict[bytes, int]:
        """The tokens that are text, by their bytes; of several with the same, the last."""
        special = set(self.special_ids)
        return {p: i for i, p in enumerate(self.pieces) if p and i not in special}

    def spell(self, text: bytes) -> list[int]:
        """Tokens of these bytes, each the longest that fits; up to a byte that has none."""
        ids: list[int] = []
        at = 0
        while at < len(text):
            for end in range(min(len(text), at + self._longest), at, -1):
                found = self.ids.get(text[at:end])
                if found is not None:
                    ids.append(found)
                    at = end
                    break
            else:
                break
        return ids

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self.ids), default=1)

    @cached_property
    def preferences(self) -> TokenPreferences:
        """Which tokens lead to an end."""
        return TokenPreferences.of(self.pieces, self.special_ids)

    @property
    def end(self) -> int:
        """A token that ends an answer, for llguidance; it need not be one of the model's."""
        return self._ends[0]

    @property
    def mask_bytes(self) -> int:
        """Size of a mask of all tokens: one bit for each, in words of 32."""
        return (self._size + 31) // 32 * 4

    @cached_property
    def library_tokenizer(self) -> llguidance.LLTokenizer:
        """llguidance's tokenizer: a second of work for large vocabularies.

        Whoever asks for it first makes it; two at once must not.
        """
        import llguidance

        wrapped: Any = self._wrapped()  # Of a class that the library knows by its attributes alone.
        return llguidance.LLTokenizer(wrapped, eos_token=list(self._ends))

    def warm_up(self) -> None:
        """Make all that is made once."""
        _ = self.library_tokenizer, self.preferences

    def describe(self) -> dict[str, Any]:
        """What a process that tries grammars must know; see `trial.py`."""
        special = {i: self.pieces[i].decode("utf-8", "replace") for i in self.special_ids}
        return {"size": self._size, "special": special, "eos": list(self._ends)}

    @property
    def _size(self) -> int:
        return max(self.vocab_size, self._ends[-1] + 1)

    def _wrapped(self) -> _Wrapped:
        tokens = list(self.pieces) + [b""] * (self._size - self.vocab_size)
        # The library's object, which this one keeps, keeps what it wraps: a circle that Python
        # cannot see, and that would hold the vocabulary for ever.
        vocabulary = weakref.ref(self)

        def spell(text: bytes) -> list[int]:
            found = vocabulary()
            return [] if found is None else found.spell(text)

        return _Wrapped(self._tokenizer, tokens, self.special_ids, self._ends[0], spell)


class _Wrapped:
    """What llguidance wants of a tokenizer."""

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(
        self,
        tokenizer: Tokenizer,
        tokens: list[bytes],
        special: tuple[int, ...],
        end: int,
        spell: Callable[[bytes], list[int]],
    ) -> None:
        self._tokenizer = tokenizer
        self.tokens = tokens
        self.special_token_ids = list(special)
        self.eos_token_id = end
        self._spell = spell

    def __call__(self, text: str) -> list[int]:
        """The tokens of a text that the grammar forces, as the model would have cut it.

        They must spell it to the byte, which not all tokenizers do; then the longest fitting ones.
        """
        data = text.encode()
        for lead in ("", "\n"):  # After a line break, no vocabulary adds a space of its own.
            ids = self._encoded(lead, text)
            if ids is not None and b"".join(self.tokens[i] for i in ids) == data:
                return ids
        return self._spell(data)

    def _encoded(self, lead: str, text: str) -> list[int] | None:
        try:
            ids = self._tokenizer.encode(lead + text, parse_special=False)
        except MrsError:
            return None
        if lead:
            if not ids or self._tokenizer.token_bytes(ids[0]) != lead.encode():
                return None
            del ids[0]
        return ids if all(i < len(self.tokens) for i in ids) else None
