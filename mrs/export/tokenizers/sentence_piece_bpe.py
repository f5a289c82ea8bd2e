"""SentencePiece BPE (GGUF's ``llama`` model) as a file for the ``tokenizers`` library.

Two neighbours merge if they make a piece together, those that make the most likely piece first
(Sennrich et al. 2016, with scores in the place of ranks). The library wants a list of merges: it
holds each way to put a piece together, in the order of the pieces' scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mrs.errors import CorruptCheckpointError
from mrs.export.tokenizers.sentence_pieces import (
    SPACE,
    SentencePieces,
    space_decoder,
    space_normalizer,
    space_pre_tokenizer,
)
from mrs.export.tokenizers.token_types import TokenType
from mrs.export.tokenizers.tokenizer_document import tokenizer_json

# Trainers stop at 16 characters, runs of spaces at some dozens; cutting a token costs its square.
_LONGEST_MADE = 256


def sentence_piece_bpe_json(pieces: SentencePieces) -> bytes:
    """The ``tokenizer.json`` of a vocabulary.

    Raises:
        CorruptCheckpointError: a token is not text, or nothing stands for unknown characters.
    """
    vocabulary = {token: index for index, token in enumerate(pieces.tokens)}
    bytes_known = pieces.has_all_bytes
    if not bytes_known and pieces.unk_token_id is None:
        raise CorruptCheckpointError(
            "The vocabulary has neither a token for each byte nor one for unknown characters."
        )
    unknown = None if pieces.unk_token_id is None else pieces.tokens[pieces.unk_token_id]
    return tokenizer_json(
        pieces.tokens,
        pieces.types,
        normalizer=space_normalizer(pieces),
        pre_tokenizer=space_pre_tokenizer(pieces),
        decoder=space_decoder(pieces),
        swallow_after=pieces.swallow_after,
        model={
            "type": "BPE",
            "dropout": None,
            "unk_token": unknown,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            "byte_fallback": bytes_known,
            "ignore_merges": False,
            "vocab": vocabulary,
            "merges": list(_merges(pieces, vocabulary)),
        },
    )


def _merges(pieces: SentencePieces, vocabulary: Mapping[str, int]) -> Iterator[str]:
    made = [index for index in vocabulary.values() if _is_made_of_text(pieces, index)]
    # Of equal scores the earlier token counts first: it was learned first.
    made.sort(key=lambda index: (-pieces.scores[index], index))
    for index in made:
        token = pieces.tokens[index]
        # Merging goes from left to right, so what stands on the left is more often the longer one.
        for cut in range(len(token) - 1, 0, -1):
            left, right = token[:cut], token[cut:]
            if left in vocabulary and right in vocabulary:
                yield f"{left} {right}"


def _is_made_of_text(pieces: SentencePieces, index: int) -> bool:
    """Whether text may become this token by merging.

    Control tokens and bytes are never spelled by text. A user-defined token is found before all
    merging, except if its spaces are written as in pieces.
    """
    token = pieces.tokens[index]
    if len(token) > _LONGEST_MADE:
        return False
    match pieces.types[index]:
        case TokenType.CONTROL | TokenType.UNKNOWN | TokenType.BYTE:
            return False
        case TokenType.USER_DEFINED:
            return SPACE in token and " " not in token
        case _:
            return " " not in token
