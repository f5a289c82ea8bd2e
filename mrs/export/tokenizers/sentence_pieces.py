"""A SentencePiece vocabulary, wherever it comes from."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mrs.errors import CorruptCheckpointError
from mrs.export.tokenizers.token_types import TokenType

SpacePrefix = Literal["always", "first", "never"]

SPACE = "▁"
"""What stands for a space in pieces (U+2581)."""


@dataclass(frozen=True)
class SentencePieces:
    """Pieces and how text is made ready for them (Kudo and Richardson 2018, SentencePiece).

    Attributes:
        tokens: distinct and not empty; the index is the id.
        scores: one per token; greater is more likely.
        types: one per token.
        unk_token_id: what unknown characters become, if there is no byte for them.
        space_prefix: where a space is put before text: behind every special token, or only
            where the whole begins.
        single_spaces: runs of spaces count as one, and none stands at the ends.
        charsmap: SentencePiece's compiled normalization; empty for none.
        swallow_after: control tokens that swallow the white space behind them.
    """

    tokens: Sequence[str]
    scores: Sequence[float]
    types: Sequence[TokenType]
    unk_token_id: int | None
    space_prefix: SpacePrefix = "always"
    single_spaces: bool = False
    charsmap: bytes = b""
    swallow_after: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if len(self.scores) != len(self.tokens):
            raise CorruptCheckpointError(
                f"The vocabulary has {len(self.tokens)} tokens but {len(self.scores)} scores."
            )
        for index, score in enumerate(self.scores):
            if not math.isfinite(score):
                raise CorruptCheckpointError(f"The score of token {index} is {score}.")

    @property
    def has_all_bytes(self) -> bool:
        """Whether every byte has a token."""
        known = set(self.tokens)
        return all(f"<0x{byte:02X}>" in known for byte in range(256))


def space_decoder(pieces: SentencePieces) -> dict[str, Any]:
    """Pieces to text: bytes and spaces, and the space that was put first."""
    steps: list[Mapping[str, Any]] = [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]
    if pieces.space_prefix != "never":
        steps.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return {"type": "Sequence", "decoders": steps}


def space_normalizer(pieces: SentencePieces) -> dict[str, Any] | None:
    """Text as the pieces spell it: normalized, its spaces written as `SPACE`."""
    steps: list[Mapping[str, Any]] = []
    if pieces.charsmap:
        charsmap = base64.b64encode(pieces.charsmap).decode()
        steps.append({"type": "Precompiled", "precompiled_charsmap": charsmap})
    if pieces.single_spaces:
        steps.append({"type": "Replace", "pattern": {"Regex": r"\A +| +\z"}, "content": ""})
        steps.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})
    if pieces.space_prefix == "always":
        steps.append({"type": "Prepend", "prepend": SPACE})
    if pieces.space_prefix != "first":
        steps.append({"type": "Replace", "pattern": {"String": " "}, "content": SPACE})
    return {"type": "Sequence", "normalizers": steps} if steps else None


def space_pre_tokenizer(pieces: SentencePieces) -> dict[str, Any] | None:
    """The space that only the beginning of a text gets; it can be no normalizer."""
    if pieces.space_prefix != "first":
        return None
    return {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "first", "split": False}
