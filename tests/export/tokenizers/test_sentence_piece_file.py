from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrs.errors import CheckpointError, CorruptCheckpointError, UnsupportedTokenizerError
from mrs.export.tokenizers.sentence_piece_file import parse_sentence_piece_file
from mrs.export.tokenizers.token_types import TokenType
from tests.export.tokenizers.hf_folders import field, sentence_piece_file

TOKENS = ["<unk>", "<s>", "</s>", "▁a", "é", "x"]
SCORES = [0.0, 0.0, 0.0, -1.5, -2.0, -1000.0]
TYPES = [
    TokenType.UNKNOWN,
    TokenType.CONTROL,
    TokenType.CONTROL,
    TokenType.NORMAL,
    TokenType.USER_DEFINED,
    TokenType.BYTE,
]
WHOLE = sentence_piece_file(
    TOKENS,
    SCORES,
    TYPES,
    trainer={3: 2, 40: 0, 41: 1, 42: 2, 43: -1},
    normalizer={2: b"map", 3: 0, 4: 0},
)


def test_what_was_written_is_read() -> None:
    file = parse_sentence_piece_file(WHOLE, "tokenizer.model")
    assert list(file.tokens) == TOKENS
    assert list(file.scores) == SCORES
    assert list(file.types) == TYPES
    assert file.is_bpe
    assert file.charsmap == b"map"
    assert (file.space_prefix, file.single_spaces) == (False, False)
    assert (file.unk_id, file.bos_id, file.eos_id, file.pad_id) == (0, 1, 2, None)


def test_what_is_absent_has_the_defaults_of_the_schema() -> None:
    file = parse_sentence_piece_file(sentence_piece_file(TOKENS, SCORES, TYPES), "x")
    assert not file.is_bpe
    assert (file.space_prefix, file.single_spaces, file.charsmap) == (True, True, b"")
    assert (file.unk_id, file.bos_id, file.eos_id, file.pad_id) == (0, 1, 2, None)


def test_fields_of_newer_schemas_are_passed_over() -> None:
    newer = field(99, b"self test") + field(100, 7) + b"\xa9\x06" + b"\0" * 8 + WHOLE
    assert parse_sentence_piece_file(newer, "x") == parse_sentence_piece_file(WHOLE, "x")


@pytest.mark.parametrize("length", range(len(WHOLE)))
def test_a_truncated_file_is_corrupt_or_lacks_its_end(length: int) -> None:
    try:
        file = parse_sentence_piece_file(WHOLE[:length], "x")
    except CorruptCheckpointError as error:
        assert "x is not a SentencePiece model" in error.message
    else:
        assert list(file.tokens) == TOKENS[: len(file.tokens)]


@given(data=st.binary(max_size=200) | st.binary(max_size=50).map(lambda tail: WHOLE + tail))
def test_any_bytes_are_parsed_or_refused(data: bytes) -> None:
    try:
        file = parse_sentence_piece_file(data, "x")
    except CheckpointError:
        return
    assert len(file.tokens) == len(file.scores) == len(file.types)


@pytest.mark.parametrize("kind", [3, 4])
def test_other_models_are_not_supported(kind: int) -> None:
    data = sentence_piece_file(TOKENS, SCORES, TYPES, trainer={3: kind})
    with pytest.raises(UnsupportedTokenizerError, match="neither a BPE nor a unigram"):
        parse_sentence_piece_file(data, "x")


def test_spaces_behind_words_are_not_supported() -> None:
    data = sentence_piece_file(TOKENS, SCORES, TYPES, trainer={24: 1})
    with pytest.raises(UnsupportedTokenizerError, match="behind words"):
        parse_sentence_piece_file(data, "x")


def test_a_piece_that_is_no_text_is_corrupt() -> None:
    with pytest.raises(CorruptCheckpointError, match="not text"):
        parse_sentence_piece_file(field(1, field(1, b"\xff")), "x")
