from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax
from scipy.stats import entropy

from mrs.export.parity.divergence import Divergence, DivergenceMeter

Logits = NDArray[np.float32]


def logits(seed: int, positions: int = 37, vocabulary: int = 501) -> Logits:
    random = np.random.default_rng(seed)
    return (5 * random.standard_normal((positions, vocabulary))).astype(np.float32)


def targets(positions: int = 37, vocabulary: int = 501) -> NDArray[np.int64]:
    return np.random.default_rng(9).integers(0, vocabulary, positions)


def compare(reference: Logits, model: Logits, wanted: NDArray[np.int64]) -> Divergence:
    meter = DivergenceMeter()
    meter.add(reference, model, wanted)
    return meter.result()


def test_the_divergence_is_that_of_scipy() -> None:
    reference, model = logits(1), logits(2)
    expected = entropy(softmax(reference.astype(float), 1), softmax(model.astype(float), 1), axis=1)
    result = compare(reference, model, targets())
    assert result.mean_kl == pytest.approx(expected.mean(), rel=1e-6)
    assert result.max_kl == pytest.approx(expected.max(), rel=1e-6)


def test_a_small_divergence_keeps_its_digits() -> None:
    reference = logits(1)
    model = (reference + 0.01 * logits(2)).astype(np.float32)
    expected = entropy(softmax(reference.astype(float), 1), softmax(model.astype(float), 1), axis=1)
    assert expected.mean() < 2e-3
    assert compare(reference, model, targets()).mean_kl == pytest.approx(expected.mean(), rel=1e-3)


def test_the_direction_is_from_the_reference_to_the_model() -> None:
    reference, model = logits(1), 0.3 * logits(2)
    assert compare(reference, model, targets()).mean_kl != pytest.approx(
        compare(model, reference, targets()).mean_kl, rel=0.01
    )


def test_perplexity_is_the_exponential_of_the_mean_loss() -> None:
    reference, model, wanted = logits(1), logits(2), targets()
    for values, perplexity in (
        (reference, compare(reference, model, wanted).reference_perplexity),
        (model, compare(reference, model, wanted).perplexity),
    ):
        losses = -log_softmax(values.astype(float), axis=1)[np.arange(len(wanted)), wanted]
        assert perplexity == pytest.approx(math.exp(losses.mean()), rel=1e-6)


def test_agreement_counts_positions_with_the_same_likeliest_token() -> None:
    reference = np.eye(4, 6, dtype=np.float32)
    model = reference.copy()
    model[3, 5] = 2
    assert compare(reference, model, targets(4, 6)).top1 == 75


def test_a_model_does_not_diverge_from_itself() -> None:
    same = logits(1)
    for other in (same, same.copy()):
        result = compare(same, other, targets())
        assert (result.mean_kl, result.max_kl, result.top1) == (0, 0, 100)
        assert result.perplexity == result.reference_perplexity


def test_logits_may_be_shifted_as_a_whole() -> None:
    reference = logits(1)
    assert compare(reference, reference + 64, targets()).mean_kl == pytest.approx(0, abs=1e-5)


def test_positions_without_a_next_token_count_for_all_but_perplexity() -> None:
    reference, model, wanted = logits(1), logits(2), targets()
    all_but_one = compare(reference, model, wanted[:-1])
    assert all_but_one.positions == len(reference)
    assert all_but_one.mean_kl == compare(reference, model, wanted).mean_kl
    losses = -log_softmax(model.astype(float), axis=1)[np.arange(len(wanted)), wanted]
    assert all_but_one.perplexity == pytest.approx(math.exp(losses[:-1].mean()), rel=1e-6)


def test_chunks_add_up() -> None:
    reference, model, wanted = logits(1), logits(2), targets()
    meter = DivergenceMeter()
    for start in range(0, len(reference), 10):
        rows = slice(start, start + 10)
        meter.add(reference[rows], model[rows], wanted[rows])
    whole = compare(reference, model, wanted)
    assert meter.result().mean_kl == pytest.approx(whole.mean_kl, rel=1e-12)
    assert (meter.result().positions, meter.result().top1) == (whole.positions, whole.top1)


def test_a_loss_beyond_floats_is_infinite() -> None:
    hopeless = np.zeros((2, 3), dtype=np.float32)
    hopeless[:, 0] = 5000
    assert compare(hopeless, hopeless, np.array([1, 1])).perplexity == math.inf


def test_nothing_to_compare_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing to compare"):
        DivergenceMeter().result()
