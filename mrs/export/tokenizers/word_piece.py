"""WordPiece vocabularies (GGUF's ``bert`` model) as a file for the ``tokenizers`` library.

A word becomes the longest token that it starts with, and the rest of it the longest one that
continues a word, and so on; a word that cannot be spelled so is unknown as a whole (Devlin et al.
2018, BERT; Wu et al. 2016, section 4.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mrs.errors import CorruptCheckpointError
from mrs.export.tokenizers.sentence_pieces import SPACE
from mrs.export.tokenizers.token_types import TokenType
from mrs.export.tokenizers.tokenizer_document import tokenizer_json

CONTINUES = "##"
"""What a token that continues a word starts with."""

# A longer word is unknown: the bound of the vocabularies' authors.
_LONGEST_WORD = 100


@dataclass(frozen=True)
class WordPieces:
    """Tokens and how text is made ready for them.

    Attributes:
        tokens: distinct and not empty; the index is the id.
        types: one per token.
        unk_token_id: what a word becomes that cannot be spelled.
        lowercase: text is lower-cased.
        strip_accents: text loses its accents.
    """

    tokens: Sequence[str]
    types: Sequence[TokenType]
    unk_token_id: int | None
    lowercase: bool = True
    strip_accents: bool = True

    def with_phantom_spaces_undone(self) -> WordPieces:
        """GGUF marks the tokens that start a word; the library those that do not."""
        tokens = tuple(map(_without_phantom_space, self.tokens))
        return replace(self, tokens=tokens)


def word_piece_json(pieces: WordPieces) -> bytes:
    """The ``tokenizer.json`` of a vocabulary.

    Raises:
        CorruptCheckpointError: a token is not text or there twice, or no token stands for unknown
            words.
    """
    if pieces.unk_token_id is None:
        raise CorruptCheckpointError("The vocabulary has no token for unknown words.")
    return tokenizer_json(
        pieces.tokens,
        pieces.types,
        normalizer={
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": pieces.strip_accents,
            "lowercase": pieces.lowercase,
        },
        pre_tokenizer={"type": "BertPreTokenizer"},
        decoder={"type": "WordPiece", "prefix": CONTINUES, "cleanup": True},
        model={
            "type": "WordPiece",
            "unk_token": pieces.tokens[pieces.unk_token_id],
            "continuing_subword_prefix": CONTINUES,
            "max_input_chars_per_word": _LONGEST_WORD,
            "vocab": {token: index for index, token in enumerate(pieces.tokens)},
        },
    )


def _without_phantom_space(token: str) -> str:
    if token.startswith(SPACE) and len(token) > 1:
        return token[1:]
    if token.startswith("[") and token.endswith("]"):
        return token
    return CONTINUES + token
