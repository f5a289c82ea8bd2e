"""Vocabularies of pieces, against llama.cpp (see `tests.data.tokenizer.generate`)."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import tokenizers
from hypothesis import assume, given
from hypothesis import strategies as st

from mrs.errors import CorruptCheckpointError, UnsupportedTokenizerError
from mrs.export.tokenizers.convert import convert_tokenizer
from mrs.export.tokenizers.tokenizer_assets import PairTokens, TokenizerAssets
from mrs.runtime.detokenizer import Detokenizer
from mrs.runtime.tokenizer import Tokenizer
from tests.data.tokenizer.generate import PIECE_VOCABULARIES
from tests.export.tokenizers.vocabularies import (
    VocabularyCheckpoint,
    sentence_piece_metadata,
    unigram_metadata,
    word_piece_metadata,
)

# Text in which special tokens, bytes and spaces are likely. The character that stands for a space
# in pieces is the one that such a vocabulary cannot tell from it. User-defined tokens are like
# special ones: a space is put before the text behind them, and stays there.
USER_DEFINED = ("  ", "\n\n", "<think>")
TEXT = st.lists(
    st.sampled_from(
        ["<s>", "</s>", "<unk>", "<0x41>", "the", "a", " ", "  ", "\n\n", "<", "é", "😀"]
    )
    | st.text(st.characters(codec="utf-8", exclude_characters="▁"), max_size=4)
).map("".join)


def convert(metadata: dict[str, Any]) -> TokenizerAssets:
    return convert_tokenizer(VocabularyCheckpoint(metadata))


def load(assets: TokenizerAssets) -> Tokenizer:
    return Tokenizer(tokenizers.Tokenizer.from_buffer(assets.tokenizer_json))


@cache
def tokenizer(name: str) -> Tokenizer:
    return load(convert(PIECE_VOCABULARIES[name]))


@cache
def library_of(name: str) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_buffer(convert(PIECE_VOCABULARIES[name]).tokenizer_json)


def text_of(name: str, ids: list[int]) -> str:
    detokenizer = Detokenizer(tokenizer(name))
    return "".join([*map(detokenizer.push, ids), detokenizer.flush()])


@pytest.mark.parametrize("name", PIECE_VOCABULARIES)
def test_ids_equal_llama_cpp(name: str, reference: dict[str, Any]) -> None:
    different = [
        text
        for text, (ids, plain) in zip(
            reference["piece_texts"], reference["pieces"][name], strict=True
        )
        # In a word vocabulary of llama.cpp this character starts words; in the original's, none.
        if not (name == "bert" and "▁" in text)
        and (
            tokenizer(name).encode(text) != ids
            or tokenizer(name).encode(text, parse_special=False) != plain
        )
    ]
    assert len(reference["piece_texts"]) > 400
    assert different == []


@pytest.mark.parametrize("name", ["llama", "llama without space prefix"])
@given(text=TEXT)
def test_decoding_gives_any_text_back(name: str, text: str) -> None:
    assume(name != "llama" or not any(token in text for token in USER_DEFINED))
    ids = tokenizer(name).encode(text, parse_special=False)
    assert tokenizer(name).decode(ids) == text
    assert text_of(name, ids) == text


@pytest.mark.parametrize("name", ["llama", "t5", "bert"])
@given(text=TEXT)
def test_plain_text_holds_no_control_token(name: str, text: str) -> None:
    ids = tokenizer(name).encode(text, parse_special=False)
    unknown = tokenizer(name).special_tokens["[UNK]" if name == "bert" else "<unk>"]
    assert {index for index in ids if tokenizer(name).is_special(index)} <= {unknown}


@pytest.mark.parametrize("name", PIECE_VOCABULARIES)
@given(data=st.data())
def test_streamed_text_is_decoded_text(name: str, data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, tokenizer(name).vocab_size - 1)))
    assert text_of(name, ids) == tokenizer(name).decode(ids, skip_special=True)


@pytest.mark.parametrize("name", ["llama", "llama without space prefix"])
@given(data=st.data())
def test_text_is_decoded_as_the_library_decodes_it(name: str, data: st.DataObject) -> None:
    # Where a text starts with a user-defined token of spaces, the library takes one of them away.
    text = data.draw(TEXT.filter(lambda text: not any(token in text for token in USER_DEFINED)))
    library = library_of(name)
    ids = library.encode(text, add_special_tokens=False).ids
    assert tokenizer(name).decode(ids, skip_special=True) == library.decode(ids)


def test_the_first_space_of_an_answer_is_kept_if_it_continues_a_text() -> None:
    ids = tokenizer("llama").encode("the")
    assert text_of("llama", ids) == "the"
    continuing = Detokenizer(tokenizer("llama"), continues=True)
    assert "".join(map(continuing.push, ids)) == " the"


def test_a_first_space_that_is_a_token_of_its_own_is_lost_and_no_other() -> None:
    space = tokenizer("llama without space prefix").encode(" ")
    assert text_of("llama", space) == ""
    assert text_of("llama", space * 2) == " "


def test_equal_scores_merge_in_the_order_of_the_tokens() -> None:
    tokens = ["<unk>", "a", "b", "c", "bc", "ab"]
    metadata = sentence_piece_metadata(
        tokens=tokens,
        scores=[0.0] * 6,
        token_type=[2, 1, 1, 1, 1, 1],
        bos_token_id=None,
        eos_token_id=None,
        add_space_prefix=False,
    )
    assert load(convert(metadata)).encode("abc") == [1, 4]


def test_facts_that_a_kind_of_vocabulary_has_by_itself() -> None:
    llama = convert(sentence_piece_metadata(bos_token_id=None, eos_token_id=None))
    assert (llama.bos_token_id, llama.eos_token_ids, llama.add_bos) == (1, (2,), True)
    assert llama.end_token_id is None
    t5 = convert(unigram_metadata())
    assert (t5.bos_token_id, t5.add_bos, t5.end_token_id, t5.unk_token_id) == (None, False, 1, 2)
    bert = convert(word_piece_metadata())
    assert (bert.bos_token_id, bert.add_bos, bert.end_token_id) == (2, True, 3)
    assert bert.pair == PairTokens((2,), (3,), (3,), second_type=1)
    assert llama.pair == PairTokens((1,), (2, 2), (2,))
    assert t5.pair is None
    assert (bert.pad_token_id, bert.unk_token_id) == (0, 1)


def test_the_end_of_a_text_is_as_the_metadata_says() -> None:
    assert convert(sentence_piece_metadata(add_eos_token=True)).end_token_id == 2
    assert convert(word_piece_metadata(add_sep_token=False)).end_token_id is None


def test_control_tokens_of_phi_3_swallow_the_space_behind_them() -> None:
    loaded = load(convert(sentence_piece_metadata() | {"general.name": "Phi-3-mini"}))
    assert loaded.encode("<|end|>\n the") == loaded.encode("<|end|>the")
    assert loaded.encode("<s>\nthe") != loaded.encode("<s>the")


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        (sentence_piece_metadata(scores=[0.0]), "1 scores"),
        (sentence_piece_metadata(scores="x"), "scores is not a list"),
        (unigram_metadata(precompiled_charsmap=[999]), "list of bytes"),
        (unigram_metadata(precompiled_charsmap=[1, 2, 3]), "cannot be loaded"),
        (
            word_piece_metadata(tokens=["▁a", "▁b", "▁[UNK]", "▁##e", "e"], token_type=None),
            "changes",
        ),
    ],
)
def test_a_vocabulary_that_contradicts_itself_is_corrupt(
    metadata: dict[str, Any], words: str
) -> None:
    with pytest.raises(CorruptCheckpointError, match=words):
        convert(metadata)


def test_a_score_that_is_no_number_is_corrupt() -> None:
    scores = sentence_piece_metadata()["tokenizer.ggml.scores"]
    with pytest.raises(CorruptCheckpointError, match="score of token 0 is nan"):
        convert(sentence_piece_metadata(scores=[float("nan"), *scores[1:]]))


def test_without_bytes_and_unknown_token_nothing_can_be_converted() -> None:
    metadata = unigram_metadata(unknown_token_id=None, tokens=["a", "b"], token_type=[1, 1])
    with pytest.raises(CorruptCheckpointError, match="unknown"):
        convert(metadata | {"tokenizer.ggml.scores": [0.0, 0.0]})


def test_spaces_behind_words_are_not_supported() -> None:
    with pytest.raises(UnsupportedTokenizerError, match="behind words"):
        convert(unigram_metadata(treat_whitespace_as_suffix=True))
