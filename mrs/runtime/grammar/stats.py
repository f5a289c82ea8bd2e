"""What grammars cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class GrammarStats:
    """Counters of one model, since it was loaded. Written by several threads: estimates.

    Attributes:
        compiled: grammars that were compiled.
        cache_hits: requests whose grammar was compiled before.
        refused: grammars that were not taken.
        compile_seconds: spent on compiling, trials included.
        masks: masks that were computed.
        mask_seconds: spent on that, beside the model's steps.
        waited_seconds: that steps waited for masks.
        steered: tokens that were chosen to finish an answer before its limit.
    """

    compiled: int = 0
    cache_hits: int = 0
    refused: int = 0
    compile_seconds: float = 0.0
    masks: int = 0
    mask_seconds: float = 0.0
    waited_seconds: float = 0.0
    steered: int = 0

    def count_mask(self, seconds: float) -> None:
        """Take note of a mask."""
        self.masks += 1
        self.mask_seconds += seconds
