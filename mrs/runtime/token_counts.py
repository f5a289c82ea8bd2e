"""How many tokens an engine has computed and drawn."""

from __future__ import annotations

from dataclasses import dataclass

from mrs.runtime.sequence import Sequence


@dataclass
class TokenCounts:
    """Counts since the start; see `mrs.runtime.generation.EngineStats`."""

    generated: int = 0
    prefilled: int = 0
    cached: int = 0
    recomputed: int = 0

    def advance(self, sequence: Sequence, reached: int) -> None:
        """All up to a sequence's first ``reached`` tokens are in the cache now."""
        if not sequence.furthest:
            self.cached += sequence.num_cached
        past = sequence.num_computed
        known = max(past, sequence.furthest)
        self.recomputed += min(known, reached) - past
        self.prefilled += max(0, min(reached, len(sequence.prompt_ids)) - known)
        sequence.num_computed = reached
        sequence.furthest = max(sequence.furthest, reached)
