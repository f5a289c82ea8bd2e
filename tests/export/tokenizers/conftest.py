"""The real vocabulary and what llama.cpp says of it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from mrs.export.checkpoints.gguf_reader import open_gguf
from mrs.export.tokenizers.convert import convert_tokenizer
from mrs.export.tokenizers.tokenizer_assets import TokenizerAssets
from mrs.runtime.tokenizer import Tokenizer

REFERENCE = Path(__file__).parents[2] / "data" / "tokenizer" / "reference.json.gz"


@pytest.fixture(scope="session")
def reference() -> dict[str, Any]:
    return dict(json.loads(gzip.decompress(REFERENCE.read_bytes())))


@pytest.fixture(scope="session")
def smollm2(smollm2_gguf: Path) -> TokenizerAssets:
    return convert_tokenizer(open_gguf(smollm2_gguf))


@pytest.fixture(scope="session")
def smollm2_tokenizer(smollm2: TokenizerAssets) -> Tokenizer:
    return Tokenizer(tokenizers.Tokenizer.from_buffer(smollm2.tokenizer_json))
