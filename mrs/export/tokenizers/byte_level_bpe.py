"""Byte-level BPE (GGUF's ``gpt2`` model) as a file for the ``tokenizers`` library.

Text is cut into words by the vocabulary's pre-tokenizer; the UTF-8 bytes of a word are written in
an alphabet of 256 printable characters, and pairs are merged in the order of the merge list
(Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mrs.errors import CorruptCheckpointError
from mrs.export.tokenizers.pre_tokenizers import PreTokenizer
from mrs.export.tokenizers.token_types import TokenType
from mrs.export.tokenizers.tokenizer_document import shown, tokenizer_json
from mrs.token_decoding import byte_letters


def byte_level_bpe_json(
    tokens: Sequence[str],
    types: Sequence[TokenType],
    merges: Sequence[str],
    rule: PreTokenizer,
    *,
    compose: bool = False,
) -> bytes:
    """The ``tokenizer.json`` of a vocabulary.

    Args:
        tokens: distinct and not empty; the index is the id.
        types: one per token. Control and unknown tokens become special added tokens,
            user-defined ones become added tokens that text can always contain.
        merges: ``left right`` pairs, the most urgent first.
        rule: how text is cut into words.
        compose: letters and their accents are put together first (Unicode's NFC).

    Raises:
        CorruptCheckpointError: a merge is not made of two tokens that give a third, or a token
            is not text.
    """
    vocabulary = {token: index for index, token in enumerate(tokens)}
    for index, merge in enumerate(merges):
        _check_merge(index, merge, vocabulary)
    return tokenizer_json(
        tokens,
        types,
        normalizer={"type": "NFC"} if compose else None,
        pre_tokenizer=_pre_tokenizer(rule, vocabulary),
        decoder=_byte_level(),
        model={
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": rule.ignore_merges,
            "vocab": vocabulary,
            # A pair that is listed twice counts at its first place.
            "merges": list(dict.fromkeys(merges)),
        },
    )


def _check_merge(index: int, merge: str, vocabulary: dict[str, int]) -> None:
    left, _, right = merge.partition(" ")
    if not left or not right or " " in right:
        raise CorruptCheckpointError(f"Merge {index} is {shown(merge)}, not a pair of tokens.")
    for token in (left, right, left + right):
        if token not in vocabulary:
            raise CorruptCheckpointError(
                f"Merge {index} needs the token {shown(token)}, which is not in the vocabulary."
            )


def _pre_tokenizer(rule: PreTokenizer, vocabulary: dict[str, int]) -> dict[str, Any]:
    steps = [_split(pattern, "Isolated") for pattern in rule.patterns]
    if lost := _characters_without_tokens(vocabulary):
        # Such a character is dropped. What stands before it must not merge with what follows.
        steps.append(_split(f"[{lost}]", "MergedWithNext"))
    return {"type": "Sequence", "pretokenizers": [*steps, _byte_level()]}


def _split(pattern: str, behavior: str) -> dict[str, Any]:
    return {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": behavior,
        "invert": False,
    }


def _byte_level() -> dict[str, Any]:
    return {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": False,
        "use_regex": False,
    }


def _characters_without_tokens(vocabulary: dict[str, int]) -> str:
    """Ranges, for a character class, of the characters whose first UTF-8 byte has no token."""
    return "".join(
        rf"\x{{{first:X}}}-\x{{{last:X}}}"
        for byte, letter in enumerate(_BYTE_LETTERS)
        if letter not in vocabulary
        for first, last in _characters_that_start_with(byte)
    )


def _characters_that_start_with(byte: int) -> list[tuple[int, int]]:
    """The code points whose UTF-8 form starts with ``byte`` (RFC 3629, section 3)."""
    if byte < 0x80:
        return [(byte, byte)]
    if 0xC2 <= byte <= 0xDF:
        return [((byte & 0x1F) << 6, (byte & 0x1F) << 6 | 0x3F)]
    if 0xE0 <= byte <= 0xEF:
        first = (byte & 0x0F) << 12
        if byte == 0xED:
            return [(first, 0xD7FF)]
        return [(max(first, 0x800), first | 0xFFF)]
    if 0xF0 <= byte <= 0xF4:
        first = (byte & 0x07) << 18
        return [(max(first, 0x10000), min(first | 0x3FFFF, 0x10FFFF))]
    return []


_BYTE_LETTERS = [letter for letter, _ in sorted(byte_letters().items(), key=lambda pair: pair[1])]
