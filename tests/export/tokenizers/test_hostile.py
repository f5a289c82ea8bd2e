"""Whatever a vocabulary says, it is converted or refused with an error of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrs.errors import CheckpointError
from mrs.export.tokenizers.convert import convert_tokenizer
from mrs.export.tokenizers.hf_tokenizer import read_hf_tokenizer
from mrs.runtime.tokenizer import Tokenizer
from tests.export.tokenizers.vocabularies import (
    VocabularyCheckpoint,
    chat_metadata,
    sentence_piece_metadata,
    unigram_metadata,
    word_piece_metadata,
)

VOCABULARIES = {
    "gpt2": chat_metadata(),
    "llama": sentence_piece_metadata(),
    "t5": unigram_metadata(),
    "bert": word_piece_metadata(),
}
SCALARS = st.none() | st.booleans() | st.integers(-3, 2**33) | st.floats() | st.text(max_size=5)
TOKENS = st.lists(
    st.sampled_from(["<unk>", "<s>", "▁", "▁a", "a", "<0x41>", " ", "", "\udcff", "[UNK]", "##a"])
    | st.text(max_size=3),
    max_size=8,
)
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=4), TOKENS)
KEYS = st.sampled_from(
    [
        *sorted({key for metadata in VOCABULARIES.values() for key in metadata}),
        "tokenizer.ggml.precompiled_charsmap",
        "tokenizer.ggml.add_space_prefix",
    ]
)
# What replaces some value of a tokenizer.json.
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**40) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


@pytest.mark.parametrize("name", VOCABULARIES)
@given(changes=st.dictionaries(KEYS, VALUES, min_size=1, max_size=3))
@settings(max_examples=50, deadline=None)
def test_metadata_is_converted_or_refused(name: str, changes: dict[str, Any]) -> None:
    try:
        assets = convert_tokenizer(VocabularyCheckpoint(VOCABULARIES[name] | changes))
    except CheckpointError:
        return
    assert assets.vocab_size > 0


@given(data=st.data())
@settings(max_examples=25, deadline=None)
@pytest.mark.parametrize("name", VOCABULARIES)
def test_a_fast_tokenizer_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    encoded = convert_tokenizer(VocabularyCheckpoint(VOCABULARIES[name])).tokenizer_json
    document = json.loads(encoded)
    place: Any = document
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        deeper = isinstance(place[key], (dict, list)) and place[key] and data.draw(st.booleans())
        if not deeper:
            break
        place = place[key]
    place[key] = data.draw(JSON)
    folder = tmp_path_factory.mktemp("hf")
    (folder / "tokenizer.json").write_text(json.dumps(document))
    try:
        assets = read_hf_tokenizer(folder)
    except CheckpointError:
        return
    path: Path = folder / "copy.json"
    path.write_bytes(assets.tokenizer_json)
    assert Tokenizer.from_file(path).vocab_size == assets.vocab_size


def test_a_token_without_end_takes_no_time() -> None:
    tokens = [*sentence_piece_metadata()["tokenizer.ggml.tokens"], "a" * 3_000_000]
    count = len(tokens) - 1
    scores = [0.0] * len(tokens)
    types = [*sentence_piece_metadata()["tokenizer.ggml.token_type"], 1]
    metadata = sentence_piece_metadata(tokens=tokens, scores=scores, token_type=types)
    assert convert_tokenizer(VocabularyCheckpoint(metadata)).vocab_size == count + 1
