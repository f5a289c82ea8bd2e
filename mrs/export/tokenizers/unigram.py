"""Unigram vocabularies (GGUF's ``t5`` model) as a file for the ``tokenizers`` library.

A text becomes the pieces whose scores, logarithms of probabilities, have the greatest sum (Kudo
2018, "Subword Regularization", section 3.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mrs.errors import CorruptCheckpointError
from mrs.export.tokenizers.sentence_pieces import (
    SentencePieces,
    space_decoder,
    space_normalizer,
    space_pre_tokenizer,
)
from mrs.export.tokenizers.token_types import TokenType
from mrs.export.tokenizers.tokenizer_document import tokenizer_json

_UNSPELLED = (TokenType.CONTROL, TokenType.UNKNOWN, TokenType.USER_DEFINED, TokenType.BYTE)


def unigram_json(pieces: SentencePieces) -> bytes:
    """The ``tokenizer.json`` of a vocabulary.

    Raises:
        CorruptCheckpointError: a token is not text, or no token stands for unknown characters.
    """
    if pieces.unk_token_id is None:
        raise CorruptCheckpointError("The vocabulary has no token for unknown characters.")
    # What is unknown costs a little more than the least likely piece, so tokens that are no
    # pieces must not count as unlikely ones.
    scores = [
        max(score, 0.0) if kind in _UNSPELLED else score
        for score, kind in zip(pieces.scores, pieces.types, strict=True)
    ]
    return tokenizer_json(
        pieces.tokens,
        pieces.types,
        normalizer=space_normalizer(pieces),
        pre_tokenizer=_pre_tokenizer(pieces),
        decoder=space_decoder(pieces),
        swallow_after=pieces.swallow_after,
        model={
            "type": "Unigram",
            "unk_id": pieces.unk_token_id,
            "byte_fallback": pieces.has_all_bytes,
            "vocab": [list(pair) for pair in zip(pieces.tokens, scores, strict=True)],
        },
    )


def _pre_tokenizer(pieces: SentencePieces) -> dict[str, Any] | None:
    """Cut text within each control token that it spells, which the model would find otherwise."""
    control = [
        token
        for token, kind in zip(pieces.tokens, pieces.types, strict=True)
        if kind in (TokenType.CONTROL, TokenType.UNKNOWN) and len(token) > 1
    ]
    steps = [space_pre_tokenizer(pieces)]
    if control:
        pattern = {"Regex": "|".join(_ends(control))}
        # Only the beginning of a match is a cut.
        cut = {"type": "Split", "pattern": pattern, "behavior": "MergedWithNext", "invert": False}
        steps.append(cut)
    present = [step for step in steps if step is not None]
    return {"type": "Sequence", "pretokenizers": present} if present else None


def _ends(tokens: Iterable[str]) -> Iterator[str]:
    """Patterns for the last letter of each token, where it stands behind the others."""
    by_letter: dict[str, list[str]] = {}
    for token in tokens:
        by_letter.setdefault(token[-1], []).append(token[:-1])
    for letter, beginnings in by_letter.items():
        behind = "|".join(f"(?<={_literal(beginning)})" for beginning in beginnings)
        yield f"(?:{behind}){_literal(letter)}"


def _literal(text: str) -> str:
    return "".join(f"\\x{{{ord(letter):X}}}" for letter in text)
