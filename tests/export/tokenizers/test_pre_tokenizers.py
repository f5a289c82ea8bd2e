from __future__ import annotations

from typing import Any

import pytest
import tokenizers

from mrs.export.tokenizers.convert import convert_tokenizer
from mrs.export.tokenizers.pre_tokenizers import PRE_TOKENIZERS
from mrs.runtime.tokenizer import Tokenizer
from tests.data.tokenizer.generate import PRE_TOKENIZERS as WITH_REFERENCE
from tests.export.tokenizers.vocabularies import VocabularyCheckpoint, probe_metadata


@pytest.mark.parametrize("name", WITH_REFERENCE)
def test_words_are_cut_where_llama_cpp_cuts_them(name: str, reference: dict[str, Any]) -> None:
    assets = convert_tokenizer(VocabularyCheckpoint(probe_metadata(name)))
    tokenizer = Tokenizer(tokenizers.Tokenizer.from_buffer(assets.tokenizer_json))
    different = [
        text
        for text, ids in zip(reference["probe_texts"], reference["probe"][name], strict=True)
        if tokenizer.encode(text, parse_special=False) != ids
    ]
    assert different == []


def test_every_rule_has_a_reference() -> None:
    patterns = {rule.patterns for rule in PRE_TOKENIZERS.values()}
    assert {PRE_TOKENIZERS[name].patterns for name in WITH_REFERENCE} == patterns


@pytest.mark.parametrize("name", ["llama-bpe", "tekken", "glm4", "minicpm5"])
def test_whole_words_need_no_merges_where_llama_cpp_ignores_them(name: str) -> None:
    assert PRE_TOKENIZERS[name].ignore_merges
