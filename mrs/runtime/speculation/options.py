"""What to guess tokens with."""

from __future__ import annotations

from dataclasses import dataclass

from mrs.model_repo.version import ModelVersion

MOST_GUESSES = 15


@dataclass(frozen=True)
class SpeculationOptions:
    """What to guess with; by default nothing.

    Attributes:
        prompt_lookup: what followed the newest tokens before.
        draft: a smaller model with the same tokens.
        most: guesses of one sequence in one step, 1 to `MOST_GUESSES`.
    """

    prompt_lookup: bool = False
    draft: ModelVersion | None = None
    most: int = 6

    @property
    def enabled(self) -> bool:
        """There are guesses at all."""
        return self.prompt_lookup or self.draft is not None


NO_SPECULATION = SpeculationOptions()
