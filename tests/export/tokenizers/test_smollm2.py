"""The vocabulary of SmolLM2, against llama.cpp (see `tests.data.tokenizer.generate`)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mrs.export.checkpoints.gguf_reader import open_gguf
from mrs.export.tokenizers.convert import convert_tokenizer
from mrs.export.tokenizers.tokenizer_assets import TokenizerAssets
from mrs.runtime.tokenizer import Tokenizer

# The vocabulary has no token for these control characters, nor for the lead bytes F1 and F2.
WITHOUT_TOKENS = "\x04\x06\x13\x14\x16\x1d"
UNENCODABLE = re.compile(f"[{WITHOUT_TOKENS}\U00040000-\U000bffff]")


def test_ids_equal_llama_cpp(smollm2_tokenizer: Tokenizer, reference: dict[str, Any]) -> None:
    different = [
        text
        for text, ids, *_ in reference["smollm2"]
        if smollm2_tokenizer.encode(text, parse_special=True) != ids
    ]
    assert len(reference["smollm2"]) > 2000
    assert different == []


def test_ids_equal_llama_cpp_where_special_tokens_are_text(
    smollm2_tokenizer: Tokenizer, reference: dict[str, Any]
) -> None:
    different = [
        text
        for text, *ids in reference["smollm2"]
        if smollm2_tokenizer.encode(text, parse_special=False) != ids[-1]
    ]
    assert different == []


def test_decoding_gives_the_text_back(
    smollm2_tokenizer: Tokenizer, reference: dict[str, Any]
) -> None:
    texts = [text for text, *_ in reference["smollm2"] if not UNENCODABLE.search(text)]
    different = [
        text for text in texts if smollm2_tokenizer.decode(smollm2_tokenizer.encode(text)) != text
    ]
    assert len(texts) > 2000
    assert different == []


@given(text=st.text(st.characters(codec="utf-8", exclude_characters=WITHOUT_TOKENS)))
def test_decoding_gives_any_encodable_text_back(smollm2_tokenizer: Tokenizer, text: str) -> None:
    encodable = UNENCODABLE.sub("", text)
    ids = smollm2_tokenizer.encode(encodable, parse_special=False)
    assert smollm2_tokenizer.decode(ids) == encodable


def test_facts(smollm2: TokenizerAssets) -> None:
    assert smollm2.vocab_size == 49152
    assert smollm2.bos_token_id == 1
    assert smollm2.eos_token_ids == (2,)
    assert smollm2.add_bos is False
    assert smollm2.chat_template is not None
    assert "<|im_start|>" in smollm2.chat_template


def test_same_input_same_bytes(smollm2: TokenizerAssets, smollm2_gguf: Path) -> None:
    assert convert_tokenizer(open_gguf(smollm2_gguf)).tokenizer_json == smollm2.tokenizer_json
