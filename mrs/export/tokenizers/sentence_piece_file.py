"""SentencePiece's ``tokenizer.model``: a protocol buffer, of which a few fields matter.

The schema is ``sentencepiece_model.proto`` of google/sentencepiece; the encoding is
https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from mrs.errors import CorruptCheckpointError, UnsupportedTokenizerError
from mrs.export.tokenizers.token_types import TokenType, known_type

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_PIECES, _TRAINER, _NORMALIZER = 1, 2, 3
_UNIGRAM, _BPE = 1, 2
_WIRE_SIZES = {_FIXED64: 8, _FIXED32: 4}
_LARGEST_VARINT = 10

Field = tuple[int, "int | bytes"]


@dataclass(frozen=True)
class SentencePieceFile:
    """What a ``tokenizer.model`` says.

    Attributes:
        tokens, scores, types: one of each per piece; the index is the id.
        is_bpe: whether pieces are merged; otherwise they are a unigram model.
        charsmap: compiled normalization; empty for none.
        space_prefix: text starts with a space that it does not have.
        single_spaces: runs of spaces count as one, and none stands at the ends.
        bos_id, eos_id, pad_id, unk_id: pieces with a task, or None.
    """

    tokens: tuple[str, ...]
    scores: tuple[float, ...]
    types: tuple[TokenType, ...]
    is_bpe: bool
    charsmap: bytes
    space_prefix: bool
    single_spaces: bool
    bos_id: int | None
    eos_id: int | None
    pad_id: int | None
    unk_id: int | None


def parse_sentence_piece_file(data: bytes, name: str) -> SentencePieceFile:
    """Parse the file; what it needs of memory is in proportion to its size.

    Args:
        data: the whole of it.
        name: its name in errors.

    Raises:
        CorruptCheckpointError: it is no such file, or is truncated.
        UnsupportedTokenizerError: the model is neither BPE nor unigram, or puts spaces behind
            words.
    """
    try:
        return _parse(data, name)
    except _MalformedError as error:
        raise CorruptCheckpointError(
            f"{name} is not a SentencePiece model: {error}.",
            hint="If it is one of tiktoken's, save the model with transformers once, which writes "
            "tokenizer.json.",
        ) from error


class _MalformedError(Exception):
    pass


def _parse(data: bytes, name: str) -> SentencePieceFile:
    pieces: list[tuple[str, float, TokenType]] = []
    trainer: dict[int, int | bytes] = {}
    normalizer: dict[int, int | bytes] = {}
    for number, value in _fields(data):
        if number == _PIECES:
            pieces.append(_piece(_message(value)))
        elif number == _TRAINER:
            trainer.update(_fields(_message(value)))
        elif number == _NORMALIZER:
            normalizer.update(_fields(_message(value)))
    if not pieces:
        raise _MalformedError("it holds no pieces")
    kind = trainer.get(3, _UNIGRAM)
    if kind not in (_UNIGRAM, _BPE):
        raise UnsupportedTokenizerError(f"{name} is neither a BPE nor a unigram model.")
    if trainer.get(24, 0):
        raise UnsupportedTokenizerError(
            f"{name} writes spaces behind words, which mrs cannot convert."
        )
    tokens, scores, types = zip(*pieces, strict=True)
    count = len(pieces)
    return SentencePieceFile(
        tokens=tokens,
        scores=scores,
        types=types,
        is_bpe=kind == _BPE,
        charsmap=_message(normalizer.get(2, b"")),
        space_prefix=bool(normalizer.get(3, 1)),
        single_spaces=bool(normalizer.get(4, 1)),
        bos_id=_id(trainer.get(41, 1), count),
        eos_id=_id(trainer.get(42, 2), count),
        pad_id=_id(trainer.get(43, -1), count),
        unk_id=_id(trainer.get(40, 0), count),
    )


def _piece(data: bytes) -> tuple[str, float, TokenType]:
    text, score, kind = b"", 0.0, TokenType.NORMAL.value
    for number, value in _fields(data):
        if number == 1:
            text = _message(value)
        elif number == 2:
            (score,) = struct.unpack("<f", _message(value))
        elif number == 3 and isinstance(value, int):
            kind = value
    try:
        return text.decode(), score, known_type(kind)
    except UnicodeDecodeError as error:
        raise _MalformedError("a piece is not text") from error


def _id(value: int | bytes, count: int) -> int | None:
    """An int32 field; what is negative or too large stands for no piece."""
    return value if isinstance(value, int) and 0 <= value < count else None


def _message(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise _MalformedError("a field is a number where a message should be")
    return value


def _fields(data: bytes) -> Iterator[Field]:
    """Number and value of each field; numbers of fixed size come as their bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire == _BYTES:
            size, at = _varint(data, at)
        elif wire in _WIRE_SIZES:
            size = _WIRE_SIZES[wire]
        else:
            raise _MalformedError(f"byte {at} is of no kind that it may be")
        if size > len(data) - at:
            raise _MalformedError("it ends within a field")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index, byte in enumerate(data[at : at + _LARGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at + index + 1
    raise _MalformedError("it ends within a number, or a number has no end")
