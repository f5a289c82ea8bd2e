"""Small GGUF vocabularies as metadata, without a file."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrs.export.checkpoints.checkpoint import MetadataValue, TensorInfo


@dataclass(frozen=True)
class VocabularyCheckpoint:
    """A checkpoint that is nothing but metadata."""

    metadata: Mapping[str, MetadataValue]
    architecture: str = "llama"
    tensors: Mapping[str, TensorInfo] = field(default_factory=dict)

    def read_rows(self, name: str, start: int, stop: int) -> NDArray[np.uint8]:
        raise KeyError(name)

    def close(self) -> None:
        pass


def byte_letters() -> list[str]:
    """GPT-2's printable stand-in for each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spare = [byte for byte in range(256) if byte not in printable]
    return [chr(byte) if byte in printable else chr(256 + spare.index(byte)) for byte in range(256)]


def to_letters(text: str) -> str:
    letters = byte_letters()
    return "".join(letters[byte] for byte in text.encode())


PROBE_CHARACTERS = (
    "abAzZstdmrevlLSREVD'019 \t\n\r\v.,!?()[]$+<=>|^~`/_-\x00\x1f"
    "éÉßΩΔдЖ²½٣४中あア가กिं́ \u2028\u3000…。，！“”￥€😀👍🏽\u200d\u0301ϵჅᲐ"
)
"""Each kind of character that some pre-tokenizer treats unlike the others."""

# Tokens that no merge makes: only `ignore_merges` finds them, and only as a whole word.
_WHOLE_WORDS = ("123", "019", " ab", "abA", "'ve", "...", "中あ", "\n\n\n", "   ")


def probe_metadata(pre_tokenizer: str) -> dict[str, Any]:
    """A vocabulary whose ids tell where the text was cut.

    It has a token for nearly every pair of bytes, and a merge that makes it, in an arbitrary
    order: a cut at another place pairs the bytes up in another way.
    """
    letters = byte_letters()
    used = sorted({letters[byte] for byte in PROBE_CHARACTERS.encode()})
    pairs = [(left, right) for left in used for right in used]
    pairs.sort(key=lambda pair: zlib.crc32("".join(pair).encode()))
    words = [to_letters(word) for word in _WHOLE_WORDS]
    tokens = [*letters, *(left + right for left, right in pairs), *words, "<|end|>", "<think>"]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre_tokenizer,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * (len(tokens) - 2) + [3, 4],
        "tokenizer.ggml.merges": [f"{left} {right}" for left, right in pairs],
        "tokenizer.ggml.bos_token_id": len(tokens) - 2,
        "tokenizer.ggml.eos_token_id": len(tokens) - 2,
        "tokenizer.ggml.add_bos_token": False,
    }


# Where a small SentencePiece vocabulary learns its pieces.
_CORPUS = (
    "the quick brown fox jumps over the lazy dog and then the other one thinks that this is it "
    "aaaa aaaaaa == ===== ---- abab ababab    x        y a the in thin these 12 123 1212 über café "
    "for while import return (x) [y] {z} foo.bar, foo_bar; 'the' \"then\" naïve Straße 中文 中文字"
)


def sentence_pieces() -> list[str]:
    """Pieces in the order in which BPE learns them: pairs, the most frequent first."""
    words = [f"▁{word}" for word in _CORPUS.split(" ")] * 2 + ["▁▁▁▁▁▁▁▁▁", "▁▁▁x"]
    symbols = [list(word) for word in words]
    learned: list[str] = []
    while pairs := Counter(pair for word in symbols for pair in pairwise(word)):
        (left, right), _ = min(pairs.items(), key=lambda item: (-item[1], item[0]))
        learned.append(left + right)
        symbols = [_merged(word, left, right) for word in symbols]
    return list(dict.fromkeys(learned))


def _merged(word: list[str], left: str, right: str) -> list[str]:
    merged: list[str] = []
    for symbol in word:
        if merged and merged[-1] == left and symbol == right:
            merged[-1] = left + right
        else:
            merged.append(symbol)
    return merged


def sentence_piece_metadata(**changes: Any) -> dict[str, Any]:
    """A small vocabulary of the kind ``llama``: bytes, pieces, and tokens of every type.

    Args:
        changes: keys of ``tokenizer.ggml`` to set; None removes the key.
    """
    control = ["<unk>", "<s>", "</s>"]
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    pieces = sentence_pieces()
    letters = sorted(set("▁" + _CORPUS.replace(" ", "")))
    user_defined = ["<think>", "\n\n", "  "]
    tokens = [*control, *byte_tokens, *pieces, *letters, *user_defined, "<|end|>"]
    ranks = [-float(rank) for rank in range(len(pieces) + len(letters))]
    metadata: dict[str, Any] = {
        "model": "llama",
        "pre": "default",
        "tokens": tokens,
        "scores": [0.0] * 259 + ranks + [-1000.0] * 4,
        "token_type": [2, 3, 3] + [6] * 256 + [1] * len(ranks) + [4, 4, 4, 3],
        "bos_token_id": 1,
        "eos_token_id": 2,
        "unknown_token_id": 0,
        **changes,
    }
    return {f"tokenizer.ggml.{key}": value for key, value in metadata.items() if value is not None}


def unigram_metadata(**changes: Any) -> dict[str, Any]:
    """A small vocabulary of the kind ``t5``: no bytes, scores that are probabilities."""
    pieces = sentence_pieces()
    letters = sorted(set("▁" + _CORPUS.replace(" ", "")) - {"z", "ß"})
    tokens = ["<pad>", "</s>", "<unk>", *pieces, *letters, "<extra>"]
    count = len(pieces) + len(letters)
    metadata: dict[str, Any] = {
        "model": "t5",
        "pre": "default",
        "tokens": tokens,
        "scores": [0.0, 0.0, 0.0, *(-3.0 - rank / 16 for rank in range(count)), -1000.0],
        "token_type": [3, 3, 2] + [1] * count + [4],
        "remove_extra_whitespaces": True,
        **changes,
    }
    return {f"tokenizer.ggml.{key}": value for key, value in metadata.items() if value is not None}


def word_piece_metadata(**changes: Any) -> dict[str, Any]:
    """A small vocabulary of the kind ``bert``, its first pieces marked as GGUF marks them."""
    letters = sorted(set(_CORPUS.replace(" ", "").lower()) - {"ü", "é", "ï"} | set("uei"))
    starts = [f"▁{piece}" for piece in ("the", "quick", "th", "foo", "cafe", *letters, "un")]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *starts, "en", "ick", "se", *letters]
    metadata: dict[str, Any] = {
        "model": "bert",
        "pre": "default",
        "tokens": tokens,
        "token_type": [3, 3, 3, 3] + [1] * (len(tokens) - 4),
        "bos_token_id": 2,
        "seperator_token_id": 3,
        "unknown_token_id": 1,
        "padding_token_id": 0,
        **changes,
    }
    return {f"tokenizer.ggml.{key}": value for key, value in metadata.items() if value is not None}


CHAT_WORDS = (
    "he",
    "hel",
    "hell",
    "hello",
    " h",
    " he",
    " hel",
    " hell",
    " hello",
    "us",
    "use",
    "user",
)


def chat_metadata(**changes: Any) -> dict[str, Any]:
    """A small ChatML vocabulary: 256 bytes, a few words, control tokens and one user-defined.

    Args:
        changes: keys of ``tokenizer.ggml`` to set; None removes the key.
    """
    words = [to_letters(word) for word in CHAT_WORDS]
    tokens = [
        *byte_letters(),
        *words,
        "<s>",
        "<|im_start|>",
        "<|im_end|>",
        "<|im_end|>>",
        "<think>",
    ]
    plain = len(tokens) - 5
    metadata: dict[str, Any] = {
        "model": "gpt2",
        "pre": "gpt-2",
        "tokens": tokens,
        "token_type": [1] * plain + [3, 3, 3, 3, 4],
        "merges": [f"{word[:-1]} {word[-1]}" for word in words],
        "bos_token_id": plain,
        "eos_token_id": plain + 2,
        "add_bos_token": False,
        **changes,
    }
    return {f"tokenizer.ggml.{key}": value for key, value in metadata.items() if value is not None}
