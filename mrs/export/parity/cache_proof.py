"""Measures a model with an 8-bit KV cache, beside the same with a float32 one."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mrs.export.parity.divergence import DivergenceMeter
from mrs.export.parity.figures import significant
from mrs.export.parity.graph_runner import GraphRunner
from mrs.export.parity.text import TokenizedText
from mrs.model_repo.lock import CacheParityRecord, UnmeasuredParity


class CacheMeter:
    """Compares with both: the model with a float32 cache, and its float32 graph.

    Two models that round their activations differ from one another by more than either differs
    from float32, whatever has set them apart. So the first figure alone would say little.

    Args:
        open_runner: loads the graph over an 8-bit cache; called when there is something to compare.
    """

    def __init__(self, open_runner: Callable[[], GraphRunner]) -> None:
        self._open_runner = open_runner
        self._runner: GraphRunner | None = None
        self._from_model, self._from_reference = DivergenceMeter(), DivergenceMeter()

    def add(
        self,
        chunk: NDArray[np.int64],
        past: int,
        reference: NDArray[np.float32],
        model: NDArray[np.float32],
        targets: NDArray[np.int64],
    ) -> None:
        """Compute some positions and compare them.

        Args:
            chunk: the tokens.
            past: how many came before.
            reference: logits of the float32 graph.
            model: logits of the model with a float32 cache.
            targets: as `DivergenceMeter.add` has them.
        """
        if self._runner is None:
            self._runner = self._open_runner()
        logits = self._runner.run(chunk, past, 0)
        self._from_model.add(model, logits, targets)
        self._from_reference.add(reference, logits, targets)

    def close(self) -> None:
        """Let go of the graph."""
        if self._runner is not None:
            self._runner.close()

    def record(self, text: TokenizedText) -> CacheParityRecord | UnmeasuredParity:
        """What came out."""
        divergence, reference = self._from_model.result(), self._from_reference.result()
        if not all(map(math.isfinite, (divergence.mean_kl, reference.mean_kl))):
            return UnmeasuredParity(not_measured="the logits of the text are not finite")
        return CacheParityRecord(
            text_sha256=text.sha256,
            tokens=text.tokens,
            mean_kl=significant(divergence.mean_kl),
            max_kl=significant(divergence.max_kl),
            top1=round(divergence.top1, 2),
            float32_kl=significant(reference.mean_kl),
        )
