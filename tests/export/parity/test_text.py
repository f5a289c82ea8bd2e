from __future__ import annotations

import hashlib
from itertools import chain
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from mrs.export.parity.graph_runner import NotMeasurableError
from mrs.export.parity.text import MOST_TOKENS, bundled_text, tokenize_text
from mrs.model_repo.version import ModelVersion
from tests.export.parity.conftest import TinyExport


def ids(tokenizer: Path, text: str) -> list[int]:
    encoded: list[int] = Tokenizer.from_file(str(tokenizer)).encode(text).ids
    return encoded


def test_its_tokens_are_as_documented(smollm2_q8: ModelVersion) -> None:
    text = tokenize_text(smollm2_q8.tokenizer_path, context_length=8192, begin_token=None)
    assert [len(window) for window in text.windows] == [512, 512, 180]
    assert text.tokens == 1204
    assert text.sha256 == hashlib.sha256(bundled_text().encode()).hexdigest()


@pytest.mark.parametrize("context", [2, 7, 128, 4096])
def test_windows_fit_the_context_and_hold_the_text(tiny: TinyExport, context: int) -> None:
    tokenizer = tiny.export().tokenizer_path
    text = tokenize_text(tokenizer, context_length=context, begin_token=None)
    assert text.longest == min(context, 512)
    assert list(chain.from_iterable(text.windows)) == ids(tokenizer, bundled_text())[:MOST_TOKENS]


def test_every_window_starts_as_a_prompt_does(tiny: TinyExport) -> None:
    tokenizer = tiny.export().tokenizer_path
    text = tokenize_text(tokenizer, context_length=64, begin_token=1)
    assert {window[0] for window in text.windows} == {1}
    rest = chain.from_iterable(window[1:] for window in text.windows)
    assert list(rest) == ids(tokenizer, bundled_text())[:MOST_TOKENS]
    assert text.longest == 64


@pytest.mark.parametrize(("text", "context"), [("", 64), ("a", 64), ("a long text", 1)])
def test_a_text_that_predicts_nothing_is_refused(tiny: TinyExport, text: str, context: int) -> None:
    tokenizer = tiny.export().tokenizer_path
    with pytest.raises(NotMeasurableError, match="no two tokens"):
        tokenize_text(tokenizer, context_length=context, begin_token=None, text=text)
