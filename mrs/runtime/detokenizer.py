"""Token ids to text while they arrive."""

from __future__ import annotations

import codecs

from mrs.runtime.tokenizer import Tokenizer, without_leading_spaces

_Utf8Decoder = codecs.getincrementaldecoder("utf-8")


class Detokenizer:
    """The text of one answer, piece by piece.

    All pieces together are the bytes of all tokens decoded at once: a character that is split over
    tokens appears when it is complete, and what is no UTF-8 becomes U+FFFD as soon as that is
    certain. Special tokens have no text.

    Args:
        tokenizer: the model's tokenizer.
        continues: the answer continues a text, so that its first space is part of it. Otherwise
            it loses the one that some vocabularies put before a first word.
    """

    __slots__ = ("_decode", "_leading_spaces", "_pieces", "_tokenizer")

    def __init__(self, tokenizer: Tokenizer, *, continues: bool = False) -> None:
        self._tokenizer = tokenizer
        self._pieces = tokenizer.visible_pieces
        self._leading_spaces = 0 if continues else tokenizer.leading_spaces
        self._decode = _Utf8Decoder("replace").decode

    def push(self, token_id: int) -> str:
        """The text that this token completes; an id that does not exist has none."""
        if not 0 <= token_id < len(self._pieces):
            return ""
        piece = self._pieces[token_id]
        return self._decode(self._without_first_space(token_id, piece))

    def _without_first_space(self, token_id: int, piece: bytes) -> bytes:
        if not self._leading_spaces or not piece:
            return piece
        if self._tokenizer.is_added(token_id):
            self._leading_spaces = 0
            return piece
        piece, self._leading_spaces = without_leading_spaces(piece, self._leading_spaces)
        return piece

    def flush(self) -> str:
        """What is left at the end: U+FFFD for an incomplete character, or nothing."""
        return self._decode(b"", True)
