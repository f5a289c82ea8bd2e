"""Text to token ids and back, by a model's `tokenizer.json`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

import tokenizers
from tokenizers import AddedToken

from mrs.errors import InvalidValueError, ModelLoadError
from mrs.runtime.literals import any_of
from mrs.runtime.space_prefix import takes_over_space_prefix
from mrs.token_decoding import (
    ANSWER_MARKS,
    SHOWN_CONTROL_TOKENS,
    TokenDecoding,
    UnknownDecoderError,
    token_decoding,
)

MAX_TEXT_CHARACTERS = 8 * 1024 * 1024
"""Most characters that are encoded at once. The regular expressions that cut text into words give
up on a run of spaces that is not much longer."""

_MOST_GAPS = 4096
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

# What the library takes for white space beside a token that swallows it.
_WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
_SPACES = re.compile(f"[{_WHITE_SPACE}]*")


class Tokenizer:
    """A vocabulary of any kind whose tokens have bytes of their own; thread-safe.

    Args:
        backend: a loaded tokenizer. It belongs to this object from now on.
        bos_token_id: what ``encode(add_bos=True)`` puts first.

    Raises:
        UnknownDecoderError: its decoder is not one that `token_decoding` knows.
    """

    def __init__(self, backend: tokenizers.Tokenizer, *, bos_token_id: int | None = None) -> None:
        backend.no_truncation()
        backend.no_padding()
        # Text is split at special tokens here and not there: their parsing is one flag of the whole
        # library object, which threads would have to share.
        backend.encode_special_tokens = True
        self._backend = backend
        self._decoding: TokenDecoding = token_decoding(backend)
        self._first_space = takes_over_space_prefix(backend)
        self._bos_token_id = bos_token_id
        self._added: dict[int, AddedToken] = backend.get_added_tokens_decoder()
        self._special_ids = frozenset(
            index for index, token in self._added.items() if token.special
        )
        self._specials = {self._added[index].content: index for index in self._special_ids}
        self._special_pattern = re.compile(any_of(self._specials)) if self._specials else None
        special = [(index, self._added[index]) for index in self._special_ids]
        self._swallows_before = frozenset(index for index, token in special if token.lstrip)
        self._swallows_after = frozenset(index for index, token in special if token.rstrip)
        texts = (token.content for token in self._added.values() if not token.special)
        self._starts_with_added = re.compile(any_of(texts) or "(?!)")

    @classmethod
    def from_file(cls, path: Path, *, bos_token_id: int | None = None) -> Tokenizer:
        """Load a ``tokenizer.json``.

        Raises:
            ModelLoadError: the file cannot be read, is malformed, has large gaps among its ids,
                or a decoder that cannot be followed token by token.
        """
        try:
            backend = tokenizers.Tokenizer.from_buffer(path.read_bytes())
        except OSError as error:
            raise ModelLoadError(f"{path} cannot be read: {error.strerror}.") from error
        except Exception as error:  # the library raises bare Exception
            raise ModelLoadError(
                f"{path} is not a tokenizer: {error}.", hint="Export the model again."
            ) from error
        _check_ids(backend, path)
        try:
            return cls(backend, bos_token_id=bos_token_id)
        except UnknownDecoderError as error:
            raise ModelLoadError(f"{path} cannot be used: {error}.") from error

    @property
    def vocab_size(self) -> int:
        """Number of tokens, special ones included, and ids without one up to the last."""
        return len(self.pieces)

    @property
    def special_tokens(self) -> dict[str, int]:
        """The control tokens by their text."""
        return dict(self._specials)

    @cached_property
    def pieces(self) -> tuple[bytes, ...]:
        """The bytes of every token, by id; of added tokens: their text as UTF-8."""
        ids = self._backend.get_vocab(with_added_tokens=True)
        pieces = [b""] * (max(ids.values(), default=-1) + 1)
        decoding = self._decoding
        for token, index in ids.items():
            added = index in self._added
            pieces[index] = (decoding.added_token_bytes if added else decoding.token_bytes)(token)
        return tuple(pieces)

    @cached_property
    def visible_pieces(self) -> tuple[bytes, ...]:
        """As `pieces`, but special tokens, which are no part of an answer, have no bytes.

        Some of them are a part of it: `SHOWN_CONTROL_TOKENS` and `ANSWER_MARKS`.
        """
        shown = {self._specials.get(token) for token in SHOWN_CONTROL_TOKENS | ANSWER_MARKS}
        hidden = self._special_ids.difference(shown)
        return tuple(b"" if index in hidden else piece for index, piece in enumerate(self.pieces))

    @property
    def leading_spaces(self) -> int:
        """How many spaces a decoded text loses at its start, if it has them."""
        return self._decoding.leading_spaces

    def is_added(self, token_id: int) -> bool:
        """Whether the token stands for its own text, and not for a piece of a word."""
        return token_id in self._added

    def is_special(self, token_id: int) -> bool:
        """Whether the token steers the model and is no part of the text."""
        return token_id in self._special_ids

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes of one token; of an id that does not exist: none."""
        return self.pieces[token_id] if 0 <= token_id < len(self.pieces) else b""

    def encode(self, text: str, *, add_bos: bool = False, parse_special: bool = True) -> list[int]:
        """The ids of a text.

        Args:
            text: any string; a lone surrogate, which no UTF-8 can hold, counts as U+FFFD.
            add_bos: put the BOS token first, if the tokenizer was given one.
            parse_special: the text of a special token in ``text`` means that token. Otherwise it
                is text like any other. Other added tokens are found in any case.

        Raises:
            InvalidValueError: the text has more than `MAX_TEXT_CHARACTERS`, or is beyond what the
                library can cut into words.
        """
        _check_length(text)
        ids = [self._bos_token_id] if add_bos and self._bos_token_id is not None else []
        parts = self.split_special(text) if parse_special else (text,) if text else ()
        return ids + self.encode_parts(parts)

    def encode_parts(self, parts: Iterable[int | str]) -> list[int]:
        """The ids of a text that was cut at its special tokens.

        Args:
            parts: as `split_special` gives them. What the strings say of special tokens is text.

        Raises:
            InvalidValueError: as `encode` does.
        """
        ids: list[int] = []
        for index, part in enumerate(parts):
            if isinstance(part, int):
                ids.append(part)
                continue
            _check_length(part)
            ids += self._encode_plain(part, at_start=index == 0)
        return ids

    def split_special(self, text: str) -> Iterator[int | str]:
        """The text cut at its special tokens: their ids, and the strings between them.

        The leftmost one counts, and of those that start there the longest. Some tokens swallow
        the white space beside them.
        """
        end = 0
        for match in self._find_specials(text):
            token_id = self._specials[match.group()]
            before = text[end : match.start()]
            if token_id in self._swallows_before:
                before = before.rstrip(_WHITE_SPACE)
            if before:
                yield before
            yield token_id
            end = match.end()
            if token_id in self._swallows_after and (spaces := _SPACES.match(text, end)):
                end = spaces.end()
        if end < len(text):
            yield text[end:]

    def _find_specials(self, text: str) -> Iterator[re.Match[str]]:
        return iter(()) if self._special_pattern is None else self._special_pattern.finditer(text)

    def _halves(self, text: str) -> Iterator[str]:
        """The text cut within each special token that it spells."""
        start = 0
        for match in self._find_specials(text):
            middle = match.start() + max(len(match.group()) // 2, 1)
            yield text[start:middle]
            start = middle
        if start < len(text):
            yield text[start:]

    def decode(self, ids: Sequence[int], skip_special: bool = False) -> str:
        """The text of some tokens; bytes that are no UTF-8 become U+FFFD."""
        shown = [index for index in ids if not (skip_special and index in self._special_ids)]
        spaces = 0 if shown and shown[0] in self._added else self.leading_spaces
        data = b"".join(map(self.token_bytes, shown))
        return without_leading_spaces(data, spaces)[0].decode("utf-8", "replace")

    def _encode_plain(self, text: str, *, at_start: bool) -> list[int]:
        if self._first_space and at_start and not self._has_its_start(text):
            text = " " + text
        ids = self._encode_text(text)
        if self._special_ids.isdisjoint(ids):
            return ids
        # Some models find their special tokens in plain text, whatever the library is told. In two
        # halves, neither of which is one, it stays text.
        spelled = {self._specials[match.group()] for match in self._find_specials(text)}
        if spelled.difference(self._unknown_ids).isdisjoint(ids):
            return ids
        return [index for half in self._halves(text) for index in self._encode_text(half)]

    @cached_property
    def _unknown_ids(self) -> frozenset[int]:
        """The special tokens that text without any meaning becomes."""
        return self._special_ids.intersection(self._encode_text("\U0010fffd"))

    def _has_its_start(self, text: str) -> bool:
        return text.startswith((" ", "▁")) or bool(self._starts_with_added.match(text))

    def _encode_text(self, text: str) -> list[int]:
        well_formed = _LONE_SURROGATE.sub("\ufffd", text)
        try:
            # Of the library's ways to encode, only the batch lets other threads run meanwhile.
            (encoding,) = self._backend.encode_batch_fast([well_formed], add_special_tokens=False)
        except BaseException as error:  # a panic of the library is no Exception
            if type(error).__name__ != "PanicException":
                raise
            raise InvalidValueError(f"The text cannot be encoded: {error}.") from error
        return encoding.ids


def without_leading_spaces(data: bytes, count: int) -> tuple[bytes, int]:
    """``data`` without up to ``count`` spaces at its start, and how many more it may still lose."""
    if not count:
        return data, 0
    rest = data.lstrip(b" ")
    taken = min(len(data) - len(rest), count)
    return data[taken:], 0 if rest else count - taken


def _check_length(text: str) -> None:
    if len(text) > MAX_TEXT_CHARACTERS:
        raise InvalidValueError(
            f"The text has {len(text)} characters; at most {MAX_TEXT_CHARACTERS} are supported."
        )


def _check_ids(backend: tokenizers.Tokenizer, path: Path) -> None:
    ids = backend.get_vocab(with_added_tokens=True).values()
    # Some vocabularies lack a few ids. More would cost memory that the file does not account for.
    if not ids or max(ids) >= 2 * len(ids) + _MOST_GAPS:
        raise ModelLoadError(f"{path} has gaps among its token ids.")
