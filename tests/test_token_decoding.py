from __future__ import annotations

from typing import Any

import pytest
import tokenizers
from tokenizers import decoders, models

from mrs.token_decoding import UnknownDecoderError, byte_letters, token_decoding

LLAMA = decoders.Sequence(
    [
        decoders.Replace("▁", " "),
        decoders.ByteFallback(),
        decoders.Fuse(),
        decoders.Strip(" ", 1, 0),
    ]
)
GEMMA = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
TOKENS = ["▁the", "re", "<0xE2>", "<0x82>", "<0xAC>", "▁▁", "##x", "Ġa", "Ċ", "é", "<s>"]


def backend(decoder: Any) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(models.WordLevel({t: i for i, t in enumerate(TOKENS)}, "<s>"))
    if decoder is not None:
        tokenizer.decoder = decoder
    return tokenizer


@pytest.mark.parametrize(
    ("decoder", "token", "data"),
    [
        (LLAMA, "▁the", b" the"),
        (LLAMA, "<0xE2>", b"\xe2"),
        (LLAMA, "<0xe2>", b"<0xe2>"),
        (decoders.Metaspace(), "▁the", b" the"),
        (decoders.Metaspace(), "<0xE2>", b"<0xE2>"),
        (decoders.ByteLevel(), "Ġa", b" a"),
        (decoders.ByteLevel(), "Ċ", b"\n"),
        (decoders.ByteLevel(), "é", b"\xe9"),
        (decoders.ByteLevel(), "中", "中".encode()),
        (decoders.Sequence([decoders.ByteLevel()]), "Ġa", b" a"),
        (decoders.WordPiece(), "##x", b"x"),
        (decoders.WordPiece(), "the", b" the"),
    ],
)
def test_a_token_has_bytes(decoder: Any, token: str, data: bytes) -> None:
    assert token_decoding(backend(decoder)).token_bytes(token) == data


@pytest.mark.parametrize(
    ("decoder", "token", "data"),
    [(LLAMA, "<0xE2>", b"<0xE2>"), (LLAMA, "▁▁", b"  "), (decoders.ByteLevel(), "Ġ", "Ġ".encode())],
)
def test_an_added_token_stands_for_its_text(decoder: Any, token: str, data: bytes) -> None:
    assert token_decoding(backend(decoder)).added_token_bytes(token) == data


@pytest.mark.parametrize(
    ("decoder", "spaces"),
    [
        (LLAMA, 1),
        (GEMMA, 0),
        (decoders.Metaspace(), 1),
        (decoders.Metaspace(prepend_scheme="never"), 0),
        (decoders.ByteLevel(), 0),
        (decoders.WordPiece(), 1),
    ],
)
def test_a_text_may_lose_its_first_space(decoder: Any, spaces: int) -> None:
    assert token_decoding(backend(decoder)).leading_spaces == spaces


@pytest.mark.parametrize("decoder", [LLAMA, GEMMA, decoders.Metaspace(), decoders.ByteLevel()])
@pytest.mark.parametrize(
    "ids", [[0, 1], [1, 0], [0, 5, 0], [2, 3, 4], [0, 2, 3, 4, 1], [7, 8, 1], [1, 5], [6]]
)
def test_the_bytes_of_all_tokens_are_the_text_of_the_library(decoder: Any, ids: list[int]) -> None:
    tokenizer = backend(decoder)
    decoding = token_decoding(tokenizer)
    data = b"".join(decoding.token_bytes(TOKENS[index]) for index in ids)
    for _ in range(decoding.leading_spaces):
        data = data.removeprefix(b" ")
    assert data.decode("utf-8", "replace") == tokenizer.decode(ids)


@pytest.mark.parametrize(
    ("decoder", "words"),
    [
        (None, "no decoder"),
        (decoders.CTC(), "CTC"),
        (decoders.BPEDecoder(), "BPEDecoder"),
        (decoders.Sequence([]), "empty"),
        (decoders.Sequence([decoders.Fuse(), decoders.Strip(" ", 1, 1)]), "strips"),
        (decoders.Sequence([decoders.Strip(" ", 1, 0), decoders.Fuse()]), "strips"),
        (decoders.Sequence([decoders.ByteLevel(), decoders.Fuse()]), r"ByteLevel \+ Fuse"),
        (decoders.Sequence([decoders.Replace(tokenizers.Regex("a+"), "")]), "regular"),
    ],
)
def test_what_cannot_be_followed_is_named(decoder: Any, words: str) -> None:
    with pytest.raises(UnknownDecoderError, match=words):
        token_decoding(backend(decoder))


def test_the_alphabet_has_a_letter_for_each_byte() -> None:
    letters = byte_letters()
    assert sorted(letters.values()) == list(range(256))
    assert all(letter.isprintable() and not letter.isspace() for letter in letters)
