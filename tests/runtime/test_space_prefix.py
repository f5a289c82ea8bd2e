from __future__ import annotations

from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, models, pre_tokenizers

from mrs.runtime.space_prefix import takes_over_space_prefix
from mrs.runtime.tokenizer import Tokenizer

VOCABULARY = {token: index for index, token in enumerate(["<unk>", "▁", "a", "b", "▁a", "▁b"])}
MERGES = [("▁", "a"), ("▁", "b")]


def backend(pre_tokenizer: Any) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(models.BPE(VOCABULARY, MERGES, unk_token="<unk>"))
    tokenizer.add_special_tokens(["<s>", AddedToken("<u>", rstrip=True), "<l>"])
    tokenizer.add_special_tokens([AddedToken("<l>", lstrip=True)])
    tokenizer.add_tokens(["<think>"])
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


def metaspace(scheme: str) -> Any:
    return pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)


@pytest.mark.parametrize(
    ("pre_tokenizer", "taken"),
    [
        (metaspace("first"), True),
        (metaspace("always"), False),
        (metaspace("never"), False),
        (pre_tokenizers.Sequence([pre_tokenizers.Punctuation(), metaspace("first")]), True),
        (pre_tokenizers.Sequence([pre_tokenizers.Sequence([metaspace("first")])]), True),
        (pre_tokenizers.Whitespace(), False),
        (None, False),
    ],
)
def test_a_space_for_the_beginning_alone_is_taken_over(pre_tokenizer: Any, taken: bool) -> None:
    tokenizer = tokenizers.Tokenizer(models.BPE(VOCABULARY, MERGES, unk_token="<unk>"))
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    assert takes_over_space_prefix(tokenizer) is taken
    assert takes_over_space_prefix(tokenizer) is False


TEXT = st.lists(st.sampled_from(["<s>", "<u>", "<l>", "<think>", "a", "b", " ", "  ", "\n"])).map(
    "".join
)


@pytest.mark.parametrize("scheme", ["first", "always", "never"])
@given(text=TEXT)
def test_text_with_special_tokens_is_encoded_as_by_the_library(scheme: str, text: str) -> None:
    library = backend(metaspace(scheme))
    own = Tokenizer(backend(metaspace(scheme)))
    assert own.encode(text) == library.encode(text, add_special_tokens=False).ids
