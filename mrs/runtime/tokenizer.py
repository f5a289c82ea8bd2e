"""Text to token ids and back, by a model's `tokenizer.json`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import tokenizers
from tokenizers import AddedToken

from mrs.errors import InvalidValueError, ModelLoadError

MAX_TEXT_CHARACTERS = 8 * 1024 * 1024
"""Most characters that are encoded at once. The regular expressions that cut text into words give
up on a run of spaces that is not much longer."""

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class Tokenizer:
    """A byte-level vocabulary; thread-safe.

    Args:
        backend: a loaded byte-level tokenizer. It belongs to this object from now on.
        bos_token_id: what ``encode(add_bos=True)`` puts first.
    """

    def __init__(self, backend: tokenizers.Tokenizer, *, bos_token_id: int | None = None) -> None:
        backend.no_truncation()
        backend.no_padding()
        # Text is split at special tokens here and not there: their parsing is one flag of the whole
        # library object, which threads would have to share.
        backend.encode_special_tokens = True
        self._backend = backend
        self._bos_token_id = bos_token_id
        self._added: dict[int, AddedToken] = backend.get_added_tokens_decoder()
        self._special_ids = frozenset(
            index for index, token in self._added.items() if token.special
        )
        self._specials = {self._added[index].content: index for index in self._special_ids}
        self._special_pattern = _any_of(self._specials)

    @classmethod
    def from_file(cls, path: Path, *, bos_token_id: int | None = None) -> Tokenizer:
        """Load a ``tokenizer.json``.

        Raises:
            ModelLoadError: the file cannot be read, is malformed, or is not a byte-level tokenizer
                with ids ``0..n-1``.
        """
        try:
            backend = tokenizers.Tokenizer.from_buffer(path.read_bytes())
        except OSError as error:
            raise ModelLoadError(f"{path} cannot be read: {error.strerror}.") from error
        except Exception as error:  # the library raises bare Exception
            raise ModelLoadError(
                f"{path} is not a tokenizer: {error}.", hint="Export the model again."
            ) from error
        _check(backend, path)
        return cls(backend, bos_token_id=bos_token_id)

    @property
    def vocab_size(self) -> int:
        """Number of tokens, special ones included."""
        return len(self.pieces)

    @property
    def special_tokens(self) -> dict[str, int]:
        """The control tokens by their text."""
        return dict(self._specials)

    @cached_property
    def pieces(self) -> tuple[bytes, ...]:
        """The bytes of every token, by id; of added tokens: their text as UTF-8."""
        ids = self._backend.get_vocab(with_added_tokens=True)
        pieces = [b""] * len(ids)
        for token, index in ids.items():
            pieces[index] = token.encode() if index in self._added else _letters_to_bytes(token)
        return tuple(pieces)

    @cached_property
    def visible_pieces(self) -> tuple[bytes, ...]:
        """As `pieces`, but special tokens, which are no part of an answer, have no bytes."""
        return tuple(
            b"" if index in self._special_ids else piece for index, piece in enumerate(self.pieces)
        )

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
        if len(text) > MAX_TEXT_CHARACTERS:
            raise InvalidValueError(
                f"The text has {len(text)} characters; at most {MAX_TEXT_CHARACTERS} are supported."
            )
        ids = [self._bos_token_id] if add_bos and self._bos_token_id is not None else []
        for part in self.split_special(text) if parse_special else (text,):
            ids += self._encode_plain(part) if isinstance(part, str) else (part,)
        return ids

    def split_special(self, text: str) -> Iterator[int | str]:
        """The text cut at its special tokens: their ids, and the strings between them.

        The leftmost one counts, and of those that start there the longest.
        """
        end = 0
        if self._special_pattern is not None:
            for match in self._special_pattern.finditer(text):
                if match.start() > end:
                    yield text[end : match.start()]
                yield self._specials[match.group()]
                end = match.end()
        if end < len(text):
            yield text[end:]

    def decode(self, ids: Sequence[int], skip_special: bool = False) -> str:
        """The text of some tokens; bytes that are no UTF-8 become U+FFFD."""
        shown = (index for index in ids if not (skip_special and index in self._special_ids))
        return b"".join(map(self.token_bytes, shown)).decode("utf-8", "replace")

    def _encode_plain(self, text: str) -> list[int]:
        well_formed = _LONE_SURROGATE.sub("\ufffd", text)
        try:
            # Of the library's ways to encode, only the batch lets other threads run meanwhile.
            (encoding,) = self._backend.encode_batch_fast([well_formed], add_special_tokens=False)
        except BaseException as error:  # a panic of the library is no Exception
            if type(error).__name__ != "PanicException":
                raise
            raise InvalidValueError(f"The text cannot be encoded: {error}.") from error
        return encoding.ids


def _any_of(literals: dict[str, int]) -> re.Pattern[str] | None:
    if not literals:
        return None
    longest_first = sorted(literals, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)))


def _check(backend: tokenizers.Tokenizer, path: Path) -> None:
    if not isinstance(backend.decoder, tokenizers.decoders.ByteLevel):
        raise ModelLoadError(f"{path} is not a byte-level tokenizer.")
    ids = set(backend.get_vocab(with_added_tokens=True).values())
    if not ids or max(ids) != len(ids) - 1:
        raise ModelLoadError(f"{path} has gaps among its token ids.")


def _byte_of_letter() -> dict[str, int]:
    """GPT-2's alphabet: a printable character for each byte, most of them in Latin-1."""
    printable = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
    others = (byte for byte in range(256) if byte not in printable)
    letters = {chr(byte): byte for byte in printable}
    return letters | {chr(0x100 + index): byte for index, byte in enumerate(others)}


_BYTE_OF_LETTER = _byte_of_letter()


def _letters_to_bytes(token: str) -> bytes:
    try:
        return bytes([_BYTE_OF_LETTER[letter] for letter in token])
    except KeyError:  # not written in the alphabet: a token of plain text
        return token.encode()
