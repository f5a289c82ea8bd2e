from __future__ import annotations

import tokenizers
from hypothesis import example, given
from hypothesis import strategies as st

from mrs.export.tokenizers.convert import convert_tokenizer
from mrs.runtime.detokenizer import Detokenizer
from mrs.runtime.tokenizer import Tokenizer
from tests.export.tokenizers.vocabularies import VocabularyCheckpoint, chat_metadata

ENCODED = convert_tokenizer(VocabularyCheckpoint(chat_metadata())).tokenizer_json
TOKENIZER = Tokenizer(tokenizers.Tokenizer.from_buffer(ENCODED))
IM_END = TOKENIZER.special_tokens["<|im_end|>"]
THINK = TOKENIZER.vocab_size - 1

IDS = st.lists(
    st.integers(0, TOKENIZER.vocab_size - 1) | st.sampled_from([0xE2, 0x82, 0xAC, 0xF0, 0x9F])
)
# In the small vocabulary the id of a single byte is the byte.
BYTES_OF_TEXT = st.text().map(lambda text: list(text.encode()))


def pieces(ids: list[int]) -> list[str]:
    detokenizer = Detokenizer(TOKENIZER)
    return [*(detokenizer.push(index) for index in ids), detokenizer.flush()]


@given(ids=IDS | BYTES_OF_TEXT)
@example(ids=[0xE2, IM_END, 0x82, 0xAC])
def test_the_pieces_are_the_text_of_all_bytes(ids: list[int]) -> None:
    visible = b"".join(TOKENIZER.token_bytes(i) for i in ids if not TOKENIZER.is_special(i))
    assert "".join(pieces(ids)) == visible.decode("utf-8", "replace")


@given(text=st.text())
def test_a_split_character_appears_with_its_last_byte(text: str) -> None:
    expected = []
    for character in text:
        expected += [""] * (len(character.encode()) - 1) + [character]
    assert pieces(list(text.encode())) == [*expected, ""]


@given(ids=st.lists(st.integers(0, 255)))
def test_bytes_that_can_become_no_character_drain_at_once(ids: list[int]) -> None:
    detokenizer = Detokenizer(TOKENIZER)
    shown = "".join(detokenizer.push(index) for index in ids)
    assert bytes(ids).decode("utf-8", "replace").startswith(shown)
    # What is held back looks like the beginning of one character: at most three bytes. ED A0 does
    # (of a surrogate, which is none), and stands for two replacements.
    assert len(detokenizer.flush()) <= 3


def test_an_invalid_byte_is_replaced_when_the_next_one_shows_it() -> None:
    assert pieces([0xE2, ord("a")]) == ["", "\ufffda", ""]
    assert pieces([0xFF]) == ["\ufffd", ""]


def test_an_incomplete_character_is_replaced_at_the_end() -> None:
    assert pieces([ord("a"), 0xE2, 0x82]) == ["a", "", "", "\ufffd"]


def test_special_tokens_have_no_text_and_others_do() -> None:
    assert pieces([IM_END, THINK, IM_END]) == ["", "<think>", "", ""]


def test_an_id_that_does_not_exist_has_no_text() -> None:
    assert pieces([-1, TOKENIZER.vocab_size, ord("a")]) == ["", "", "a", ""]


def test_control_tokens_that_are_part_of_an_answer_are_shown() -> None:
    tokens = [*chat_metadata()["tokenizer.ggml.tokens"], "<|channel|>"]
    types = [*chat_metadata()["tokenizer.ggml.token_type"], 3]
    metadata = chat_metadata(tokens=tokens, token_type=types)
    encoded = convert_tokenizer(VocabularyCheckpoint(metadata)).tokenizer_json
    tokenizer = Tokenizer(tokenizers.Tokenizer.from_buffer(encoded))
    detokenizer = Detokenizer(tokenizer)
    assert [detokenizer.push(index) for index in (len(tokens) - 1, IM_END)] == ["<|channel|>", ""]
    assert len(tokens) - 1 not in tokenizer.encode("<|channel|>", parse_special=False)
