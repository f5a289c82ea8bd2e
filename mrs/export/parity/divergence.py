"""Kullback-Leibler divergence, agreement and perplexity of a model against its reference."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Rows that are compared at once: temporaries stay in the processor's caches, or near them.
_ROWS = 8
# Nats; exp() of more does not fit a float.
_LARGEST_LOSS = 700.0


@dataclass(frozen=True)
class Divergence:
    """How a model's next-token distributions differ from its reference's.

    Attributes:
        positions: positions compared.
        mean_kl: mean of KL(reference || model) over them, in nats.
        max_kl: the largest.
        top1: percentage of positions whose likeliest token is the same.
        perplexity: of the model on the text.
        reference_perplexity: of the reference on the text.
    """

    positions: int
    mean_kl: float
    max_kl: float
    top1: float
    perplexity: float
    reference_perplexity: float


class DivergenceMeter:
    """Takes logits chunk by chunk and sums up in float64."""

    def __init__(self) -> None:
        self._positions = 0
        self._kl_sum = 0.0
        self._kl_max = 0.0
        self._agreements = 0
        self._targets = 0
        self._losses = [0.0, 0.0]

    def add(
        self,
        reference: NDArray[np.float32],
        model: NDArray[np.float32],
        targets: NDArray[np.int64],
    ) -> None:
        """Compare some positions.

        Args:
            reference: logits ``[positions, vocab]``.
            model: logits of the same shape.
            targets: the token that follows each position, ``[positions]`` or fewer: the last
                ones may have none.
        """
        for start in range(0, len(reference), _ROWS):
            rows = slice(start, start + _ROWS)
            with np.errstate(all="ignore"):  # What is not finite shows in the result.
                self._add_rows(reference[rows], model[rows], targets[rows])

    def result(self) -> Divergence:
        """What was added so far, which must be at least one target.

        Raises:
            ValueError: nothing was added.
        """
        if not self._targets:
            raise ValueError("there is nothing to compare")
        reference_loss, loss = (total / self._targets for total in self._losses)
        return Divergence(
            positions=self._positions,
            mean_kl=self._kl_sum / self._positions,
            max_kl=self._kl_max,
            top1=100 * self._agreements / self._positions,
            perplexity=_exp(loss),
            reference_perplexity=_exp(reference_loss),
        )

    def _add_rows(
        self,
        reference: NDArray[np.float32],
        model: NDArray[np.float32],
        targets: NDArray[np.int64],
    ) -> None:
        normalizer, weights, mass = _normalize(reference)
        if model is reference:
            model_normalizer, kl = normalizer, np.zeros(len(reference))
        else:
            model_normalizer = _normalize(model)[0]
            # E_p[log p - log q] = E_p[reference - model] - log Z_reference + log Z_model
            gap = (weights * (reference - model)).sum(axis=1, dtype=np.float64) / mass
            kl = np.maximum(gap - normalizer + model_normalizer, 0.0)
        self._positions += len(reference)
        self._kl_sum += float(kl.sum())
        self._kl_max = max(self._kl_max, float(kl.max()))
        self._agreements += int((reference.argmax(axis=1) == model.argmax(axis=1)).sum())
        self._targets += len(targets)
        for which, (logits, log_z) in enumerate(
            ((reference, normalizer), (model, model_normalizer))
        ):
            chosen = logits[np.arange(len(targets)), targets].astype(np.float64)
            self._losses[which] += float((log_z[: len(targets)] - chosen).sum())


def _exp(loss: float) -> float:
    return math.exp(loss) if loss < _LARGEST_LOSS else math.inf


def _normalize(
    logits: NDArray[np.float32],
) -> tuple[NDArray[np.float64], NDArray[np.float32], NDArray[np.float64]]:
    """Return log Z, the unnormalised probabilities, and their sum, of each row."""
    highest = logits.max(axis=1, keepdims=True)
    weights = np.exp(logits - highest)
    mass = weights.sum(axis=1, dtype=np.float64)
    return np.log(mass) + highest[:, 0], weights, mass
