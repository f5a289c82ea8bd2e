from __future__ import annotations

from typing import Any

import pytest

from mrs.errors import CheckpointError, CorruptCheckpointError, UnsupportedTokenizerError
from mrs.export.tokenizers.convert import convert_tokenizer
from mrs.export.tokenizers.tokenizer_assets import TokenizerAssets
from tests.export.tokenizers.vocabularies import (
    VocabularyCheckpoint,
    byte_letters,
    chat_metadata,
)

TOKENS: list[str] = chat_metadata()["tokenizer.ggml.tokens"]
IM_END = TOKENS.index("<|im_end|>")


def convert(template: str | None = None, **changes: Any) -> TokenizerAssets:
    metadata = chat_metadata(**changes)
    if template is not None:
        metadata["tokenizer.chat_template"] = template
    return convert_tokenizer(VocabularyCheckpoint(metadata))


def test_the_vocabulary_size_is_the_number_of_tokens() -> None:
    assert convert().vocab_size == len(TOKENS)


def test_the_template_is_taken_as_it_is() -> None:
    assert convert("{{ messages }}\n").chat_template == "{{ messages }}\n"
    assert convert().chat_template is None


def test_all_end_ids_of_the_metadata_end_generation() -> None:
    assets = convert(eos_token_id=5, eot_token_id=9, eom_token_id=3)
    assert assets.eos_token_ids == (5, 3, 9)


def test_an_end_of_turn_token_ends_generation_if_the_template_speaks_of_it() -> None:
    assert convert("...<|im_end|>", eos_token_id=5).eos_token_ids == (5, IM_END)
    assert convert("...", eos_token_id=5).eos_token_ids == (5,)
    assert convert(eos_token_id=5).eos_token_ids == (5,)


def test_an_end_of_turn_token_of_the_template_alone_does_not_count() -> None:
    assert convert("...<|eot_id|>", eos_token_id=5).eos_token_ids == (5,)


def test_missing_ids_are_none() -> None:
    assets = convert(bos_token_id=None, eos_token_id=None)
    assert assets.bos_token_id is None
    assert assets.eos_token_ids == ()


@pytest.mark.parametrize(
    ("pre", "stored", "expected"),
    [
        ("llama-bpe", None, True),
        ("llama-bpe", False, False),
        ("gpt-2", None, False),
        ("gpt-2", True, True),
    ],
)
def test_bos_is_added_as_llama_cpp_does(pre: str, stored: bool | None, expected: bool) -> None:
    assert convert(pre=pre, add_bos_token=stored).add_bos is expected


def test_no_bos_is_added_where_there_is_none() -> None:
    assert convert(add_bos_token=True, bos_token_id=None).add_bos is False


def test_without_a_pre_tokenizer_the_default_is_used() -> None:
    assert convert(pre=None).tokenizer_json == convert(pre="default").tokenizer_json


@pytest.mark.parametrize("model", ["rwkv", "plamo2"])
def test_another_kind_of_vocabulary_is_named(model: str) -> None:
    with pytest.raises(UnsupportedTokenizerError, match=model) as caught:
        convert(model=model)
    assert "bert, gpt2, llama, t5" in caught.value.hint


def test_an_unknown_pre_tokenizer_is_named_beside_the_known_ones() -> None:
    with pytest.raises(UnsupportedTokenizerError, match="kimi-k2") as caught:
        convert(pre="kimi-k2")
    assert "llama-bpe" in caught.value.hint
    assert "qwen2" in caught.value.hint


def test_byte_tokens_are_refused() -> None:
    with pytest.raises(UnsupportedTokenizerError, match="Token 7"):
        convert(token_type=[1] * 7 + [6] + [1] * (len(TOKENS) - 8))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": None}, "no vocabulary"),
        ({"model": 3}, "not a string"),
        ({"tokens": None}, "no tokens"),
        ({"tokens": []}, "no tokens"),
        ({"tokens": "abc"}, "not a list"),
        ({"tokens": [1, 2]}, "not a list of str"),
        ({"tokens": [*byte_letters(), "a"], "token_type": None}, "Tokens 97 and 256 are both 'a'"),
        ({"merges": None}, "no merges"),
        ({"merges": ["x y"]}, "Merge 0"),
        ({"token_type": [1]}, "1 token types"),
        ({"bos_token_id": len(TOKENS)}, "bos_token_id"),
        ({"eos_token_id": -1}, "eos_token_id"),
        ({"eot_token_id": 2**32 - 1}, "eot_token_id"),
        ({"bos_token_id": True}, "not an integer"),
        ({"add_bos_token": 1}, "not true or false"),
        ({"pre": ["gpt-2"]}, "not a string"),
    ],
)
def test_a_vocabulary_that_contradicts_itself_is_corrupt(
    changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(CorruptCheckpointError, match=words):
        convert(**changes)


def test_a_template_that_is_no_string_is_corrupt() -> None:
    metadata = {**chat_metadata(), "tokenizer.chat_template": 7}
    with pytest.raises(CorruptCheckpointError, match="chat_template"):
        convert_tokenizer(VocabularyCheckpoint(metadata))


def test_empty_tokens_get_names_of_their_own() -> None:
    tokens = [*byte_letters(), "", ""]
    assets = convert(tokens=tokens, token_type=None, merges=[], bos_token_id=0, eos_token_id=0)
    assert b'"[EMPTY_256]":256' in assets.tokenizer_json
    assert b'"[EMPTY_257]":257' in assets.tokenizer_json


def test_other_templates_have_names() -> None:
    metadata = chat_metadata() | {
        "tokenizer.chat_template": "usual",
        "tokenizer.chat_template.tool_use": "tools",
        "tokenizer.chat_templates": ["tool_use"],
    }
    assets = convert_tokenizer(VocabularyCheckpoint(metadata))
    assert (assets.chat_template, assets.named_templates) == ("usual", {"tool_use": "tools"})
    assert assets.template_origin == "GGUF metadata"


@pytest.mark.parametrize("name", ["../../x", "/x", ".x", "a" * 65])
def test_the_name_of_a_template_is_one_of_a_file(name: str) -> None:
    metadata = chat_metadata() | {
        "tokenizer.chat_template": "usual",
        f"tokenizer.chat_template.{name}": "tools",
    }
    with pytest.raises(CheckpointError, match="no file can have"):
        convert_tokenizer(VocabularyCheckpoint(metadata))
