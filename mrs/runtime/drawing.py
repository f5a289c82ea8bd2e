"""From a step's logits to the next tokens of its sequences.

The order, for each row: the model's own log probabilities, where they are asked for; a grammar's
mask; penalties, bias and bans; the filters; the draw. Nothing that a neighbour does is seen.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from mrs.runtime.generation import GenerationDelta
from mrs.runtime.sampling.logprobs import RawLogprobs
from mrs.runtime.ticket import Choice

_log = logging.getLogger(__name__)


def draw_tokens(
    rows: Iterable[tuple[Choice, NDArray[np.float32]]],
) -> list[GenerationDelta | Exception]:
    """Draw the next token of each choice from its logits ``[vocab]``, which are changed.

    Returns:
        one result for each row: what was added to the answer, or what went wrong with it. A row
        that fails is no trouble for the others.
    """
    return [_draw(choice, logits) for choice, logits in rows]


def _draw(choice: Choice, logits: NDArray[np.float32]) -> GenerationDelta | Exception:
    sampling, sampler = choice.sequence.sampling, choice.sampler
    try:
        if sampling.logprobs is None and not sampling.cumulative_logprob:
            return choice.answer.add(sampler.sample(logits))
        adjusts = sampler.adjusts
        raw = RawLogprobs(logits, sampling.logprobs or 0, keep=adjusts)
        token = sampler.sample(logits, None if adjusts else raw.candidates)
        return choice.answer.add(token, raw.of(token))
    except Exception as error:
        _log.exception("Drawing a token failed.")
        return error
