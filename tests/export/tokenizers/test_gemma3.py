"""The SentencePiece vocabulary of Gemma 3, against llama.cpp (see `tests.data.tokenizer.generate`).

Its 262,144 tokens are in a file of 253 MB, so this runs only where a folder with the file is named:

    MRS_TEST_MODELS=/path/to/folder pytest tests/export/tokenizers
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from mrs.export.checkpoints.gguf_reader import open_gguf
from mrs.export.tokenizers.convert import convert_tokenizer
from mrs.runtime.tokenizer import Tokenizer

GGUF = Path(os.environ.get("MRS_TEST_MODELS", "."), "gemma3-270m-q4_k_m.gguf")

pytestmark = pytest.mark.skipif(not GGUF.is_file(), reason=f"needs {GGUF.name}")


@pytest.fixture(scope="module")
def gemma3() -> Tokenizer:
    assets = convert_tokenizer(open_gguf(GGUF))
    return Tokenizer(tokenizers.Tokenizer.from_buffer(assets.tokenizer_json))


def test_ids_equal_llama_cpp(gemma3: Tokenizer, reference: dict[str, Any]) -> None:
    different = [
        text
        for text, ids, *plain in reference["gemma3"]
        if gemma3.encode(text) != ids
        or gemma3.encode(text, parse_special=False) != (plain[0] if plain else ids)
    ]
    assert len(reference["gemma3"]) > 500
    assert different == []


def test_decoding_gives_the_text_back(gemma3: Tokenizer, reference: dict[str, Any]) -> None:
    texts = [text for text, *_ in reference["gemma3"] if "▁" not in text]
    assert [text for text in texts if gemma3.decode(gemma3.encode(text)) != text] == []
