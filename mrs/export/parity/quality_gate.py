"""What a pipeline demands of a model's quality."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from mrs.errors import QualityError, QualityUnknownError, UsageError
from mrs.model_repo.lock import (
    EmbeddingParityRecord,
    ParityRecord,
    RerankerParityRecord,
    UnmeasuredParity,
)

Parity = ParityRecord | EmbeddingParityRecord | RerankerParityRecord | UnmeasuredParity


@dataclass(frozen=True)
class QualityGate:
    """Bounds on the parity of a model; without any, every model passes.

    Attributes:
        max_kl: most that the mean KL divergence may be, in nats.
        min_top1: least percentage of positions whose likeliest token must be that of float32.
        min_cosine: least cosine similarity of an embedding model's vectors to those of float32.
    """

    max_kl: float | None = None
    min_top1: float | None = None
    min_cosine: float | None = None

    @property
    def demands(self) -> bool:
        """Whether there is a bound at all."""
        return any(bound is not None for bound in (self.max_kl, self.min_top1, self.min_cosine))

    def check_bounds(self) -> None:
        """Refuse bounds that make no sense.

        Raises:
            UsageError: a bound is negative, not finite, or a percentage above 100.
        """
        if self.max_kl is not None and not (self.max_kl >= 0 and math.isfinite(self.max_kl)):
            raise UsageError(f"--max-kl is {self.max_kl}; it must be 0 or more.", param="max_kl")
        if self.min_top1 is not None and not 0 <= self.min_top1 <= 100:
            raise UsageError(
                f"--min-top1 is {self.min_top1}; it must be a percentage, 0 to 100.",
                param="min_top1",
            )

        if self.min_cosine is not None and not -1 <= self.min_cosine <= 1:
            raise UsageError(
                f"--min-cosine is {self.min_cosine}; it must be from -1 to 1.", param="min_cosine"
            )

    def require(self, name: str, parity: Parity | None) -> None:
        """Do nothing if the bounds are kept.

        Args:
            name: what the model is called in the message.
            parity: what was measured.

        Raises:
            QualityError: a bound is not kept; the message has both numbers.
            QualityUnknownError: there is a bound, and parity was not measured.
        """
        if not self.demands:
            return
        if isinstance(parity, ParityRecord) and self.min_cosine is None:
            broken = self._broken(parity)
        elif isinstance(parity, EmbeddingParityRecord) and self.max_kl is self.min_top1 is None:
            broken = self._broken_by_vectors(parity)
        else:
            raise self._unknown(name, parity)
        if broken:
            raise QualityError(
                f"{name} is not near enough to its checkpoint: {' and '.join(broken)}.",
                figures=self._figures(parity),
                hint="Export with a --quant of more bits, or demand less.",
            )

    def _broken(self, parity: ParityRecord) -> list[str]:
        broken = []
        if self.max_kl is not None and parity.mean_kl > self.max_kl:
            broken.append(f"the mean KL is {parity.mean_kl}, above --max-kl {self.max_kl}")
        if self.min_top1 is not None and parity.top1 < self.min_top1:
            broken.append(f"top-1 is {parity.top1} %, below --min-top1 {self.min_top1}")
        return broken

    def _broken_by_vectors(self, parity: EmbeddingParityRecord) -> list[str]:
        if self.min_cosine is None or parity.min_cosine >= self.min_cosine:
            return []
        return [
            f"the smallest cosine similarity is {parity.min_cosine}, below --min-cosine "
            f"{self.min_cosine}"
        ]

    def _unknown(self, name: str, parity: Parity | None) -> QualityUnknownError:
        if isinstance(parity, RerankerParityRecord):
            return QualityUnknownError(
                f"{name} ranks texts, so what is demanded cannot be measured.",
                figures=self._figures(parity),
                hint="For rerankers there is no gate; mrs.lock has their figures.",
            )
        if isinstance(parity, ParityRecord | EmbeddingParityRecord):
            return self._other_kind(name, parity)
        reason = parity.not_measured if parity is not None else "an older mrs made it"
        return QualityUnknownError(
            f"The quality of {name} was not measured: {reason}.",
            figures=self._figures(parity),
            hint="Measure it whatever it costs with --parity always.",
        )

    def _other_kind(
        self, name: str, parity: ParityRecord | EmbeddingParityRecord
    ) -> QualityUnknownError:
        embeds = isinstance(parity, EmbeddingParityRecord)
        what = "makes vectors, and has no logits" if embeds else "has logits, and makes no vectors"
        options = "--min-cosine" if embeds else "--max-kl and --min-top1"
        return QualityUnknownError(
            f"{name} {what}, so not all that is demanded can be measured.",
            figures=self._figures(parity),
            hint=f"For such a model there is {options}.",
        )

    def _figures(self, parity: Parity | None) -> dict[str, Any]:
        return {
            "parity": None if parity is None else parity.model_dump(mode="json"),
            "max_kl": self.max_kl,
            "min_top1": self.min_top1,
            "min_cosine": self.min_cosine,
        }


NO_GATE = QualityGate()
"""Every model passes."""
