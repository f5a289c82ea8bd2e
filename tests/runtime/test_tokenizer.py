from __future__ import annotations

import json
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from mrs.errors import InvalidValueError, ModelLoadError
from mrs.export.tokenizers.convert import convert_tokenizer
from mrs.runtime.tokenizer import MAX_TEXT_CHARACTERS, Tokenizer
from tests.export.tokenizers.vocabularies import VocabularyCheckpoint, chat_metadata

ENCODED = convert_tokenizer(VocabularyCheckpoint(chat_metadata())).tokenizer_json
TOKENS: list[str] = chat_metadata()["tokenizer.ggml.tokens"]
BOS, IM_START, IM_END, IM_END_LONGER, THINK = range(len(TOKENS) - 5, len(TOKENS))
TOKENIZER = Tokenizer(tokenizers.Tokenizer.from_buffer(ENCODED), bos_token_id=BOS)
LIBRARY = tokenizers.Tokenizer.from_buffer(ENCODED)

# Text in which special tokens, and pieces of them, are likely.
TEXT = st.lists(
    st.sampled_from(["<|im_start|>", "<|im_end|>", ">", "<|", "im_", "hello", " ", "é"])
).map("".join)


def test_a_file_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(ENCODED)
    assert Tokenizer.from_file(path).encode("hello") == [TOKENS.index("hello")]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match=r"none\.json"):
        Tokenizer.from_file(tmp_path / "none.json")


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff\x00", ENCODED[:-100], b"null"])
def test_a_malformed_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(ModelLoadError, match="tokenizer"):
        Tokenizer.from_file(path)


def test_gaps_among_the_ids_are_refused(tmp_path: Path) -> None:
    document = json.loads(ENCODED)
    document["model"]["vocab"]["hello"] = 2**31
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(document))
    with pytest.raises(ModelLoadError, match="gaps"):
        Tokenizer.from_file(path)


def test_a_tokenizer_without_a_decoder_is_refused(tmp_path: Path) -> None:
    document = json.loads(ENCODED)
    document["decoder"] = None
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(document))
    with pytest.raises(ModelLoadError, match="no decoder"):
        Tokenizer.from_file(path)


@given(text=TEXT | st.text())
def test_special_tokens_are_parsed_as_the_library_parses_them(text: str) -> None:
    assert TOKENIZER.encode(text) == LIBRARY.encode(text, add_special_tokens=False).ids


@given(text=TEXT | st.text())
def test_special_tokens_can_be_plain_text(text: str) -> None:
    ids = TOKENIZER.encode(text, parse_special=False)
    assert not any(TOKENIZER.is_special(index) for index in ids)
    assert TOKENIZER.decode(ids) == text


def test_of_two_special_tokens_the_longer_counts() -> None:
    assert TOKENIZER.encode("<|im_end|>>") == [IM_END_LONGER]
    assert list(TOKENIZER.split_special("a<|im_end|> <|im_end|>>b")) == [
        "a",
        IM_END,
        " ",
        IM_END_LONGER,
        "b",
    ]


def test_a_user_defined_token_is_found_in_plain_text() -> None:
    assert TOKENIZER.encode("<think>", parse_special=False) == [THINK]


def test_bos_comes_first_if_asked_for() -> None:
    assert TOKENIZER.encode("hello", add_bos=True) == [BOS, TOKENS.index("hello")]
    assert TOKENIZER.encode("", add_bos=True) == [BOS]


def test_a_lone_surrogate_counts_as_a_replacement_character() -> None:
    assert TOKENIZER.encode("a\ud800b") == TOKENIZER.encode("a\ufffdb")


def test_more_text_than_can_be_cut_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="8388609 characters"):
        TOKENIZER.encode(" " * (MAX_TEXT_CHARACTERS + 1))


def test_special_tokens_are_decoded_unless_skipped() -> None:
    ids = [IM_START, TOKENS.index("hello"), IM_END]
    assert TOKENIZER.decode(ids) == "<|im_start|>hello<|im_end|>"
    assert TOKENIZER.decode(ids, skip_special=True) == "hello"


def test_bytes_that_are_no_text_are_decoded_as_replacement_characters() -> None:
    assert TOKENIZER.decode([0xE9, ord("a")]) == "\ufffda"


@pytest.mark.parametrize("byte", range(256))
def test_every_byte_has_its_token(byte: int) -> None:
    assert TOKENIZER.token_bytes(byte) == bytes([byte])


def test_the_bytes_of_an_added_token_are_its_text() -> None:
    assert TOKENIZER.token_bytes(IM_START) == b"<|im_start|>"
    assert TOKENIZER.token_bytes(THINK) == b"<think>"


@pytest.mark.parametrize("token_id", [-1, len(TOKENS), 10**9])
def test_an_id_that_does_not_exist_has_no_bytes(token_id: int) -> None:
    assert TOKENIZER.token_bytes(token_id) == b""
    assert TOKENIZER.decode([token_id, ord("a")]) == "a"


def test_the_vocabulary_size_counts_all_tokens() -> None:
    assert TOKENIZER.vocab_size == len(TOKENS)


def test_only_control_tokens_are_special() -> None:
    special = {index for index in range(len(TOKENS)) if TOKENIZER.is_special(index)}
    assert special == {BOS, IM_START, IM_END, IM_END_LONGER}
    assert TOKENIZER.special_tokens["<|im_end|>"] == IM_END
