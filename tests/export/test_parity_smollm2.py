"""The real model's float32 logits against transformers on the same dequantized weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mrs.model_repo.version import ModelVersion
from tests.decoding import DirectDecoder

REFERENCE = np.load(Path(__file__).parents[1] / "data" / "reference" / "smollm2.npz")
LENGTHS = (5, 60, 200)


@pytest.fixture(scope="module")
def decoder(smollm2_fp32: ModelVersion) -> DirectDecoder:
    return DirectDecoder(smollm2_fp32.graph_path, smollm2_fp32.lock.model)


@pytest.mark.parametrize("length", LENGTHS)
def test_prefill(decoder: DirectDecoder, length: int) -> None:
    logits = decoder.prefill_last(REFERENCE[f"prompt_{length}"])
    np.testing.assert_allclose(logits, REFERENCE[f"last_{length}"], rtol=0, atol=1e-3)


@pytest.mark.parametrize("length", LENGTHS)
def test_decode_token_by_token(decoder: DirectDecoder, length: int) -> None:
    logits = decoder.one_by_one(REFERENCE[f"prompt_{length}"])
    sampled = logits[:, REFERENCE["columns"]]
    np.testing.assert_allclose(sampled, REFERENCE[f"sampled_{length}"], rtol=0, atol=1e-3)
    np.testing.assert_allclose(logits[-1], REFERENCE[f"last_{length}"], rtol=0, atol=1e-3)


def test_64_greedy_tokens(decoder: DirectDecoder) -> None:
    answer = decoder.greedy(REFERENCE["greedy_prompt"], 64)
    assert answer == REFERENCE["greedy_answer"].tolist()
