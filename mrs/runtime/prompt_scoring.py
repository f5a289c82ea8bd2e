"""How likely the model finds a prompt, from the logits of its positions."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mrs.runtime.sampling.logprobs import RawLogprobs
from mrs.runtime.step import Row
from mrs.runtime.ticket import Choice


def score_prompt(choice: Choice, row: Row, logits: NDArray[np.float32]) -> None:
    """Note the logprobs of the prompt's tokens that come after a row's scored positions.

    Args:
        choice: whose prompt it is.
        row: a step's share of it, which has been computed.
        logits: float32 ``[row.wanted, vocab]``.

    Raises:
        FloatingPointError: the largest logit of a position is infinite, or some are NaN.
    """
    sequence = choice.sequence
    alternatives = sequence.sampling.prompt_logprobs
    assert alternatives is not None
    first = row.past + row.new - row.wanted
    for position in range(first, first + row.scored):
        found = logits[position - first]
        largest = float(found.max())  # NaN, if there is one.
        if not math.isfinite(largest):
            raise FloatingPointError(f"a logit after token {position} of the prompt is {largest}")
        token = sequence.prompt_ids[position + 1]
        choice.prompt_logprobs.append(RawLogprobs(found, alternatives).of(token))
        sequence.num_scored = position + 1
