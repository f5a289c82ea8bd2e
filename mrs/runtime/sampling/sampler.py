"""The chain from logits to the next token of a sequence.

Each sequence draws from a random stream of its own, so an answer does not depend on what else is in
the batch. The order is that of mistral.rs, with what it lacks put where llama.cpp has it: DRY,
frequency and presence, repetition, bias, bans; temperature; top-n-sigma, top-k, typical, top-p,
min-p, XTC; one draw. Greedy decoding stops after the bans. A grammar's mask is laid over the logits
before all of it.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from mrs.runtime.generation import SamplingParams
from mrs.runtime.sampling.candidates import Candidates
from mrs.runtime.sampling.draw import draw
from mrs.runtime.sampling.envelope import draw_whole, whole_floors
from mrs.runtime.sampling.filters import (
    exclude_top_choices,
    keep_min_p,
    keep_nucleus,
    keep_top_k,
    keep_top_n_sigma,
    keep_typical,
    min_p_floor,
    top_k_floors,
)
from mrs.runtime.sampling.heads import Head, find_heads
from mrs.runtime.sampling.history import BreakerTracker, TokenHistory
from mrs.runtime.sampling.mirostat import Mirostat
from mrs.runtime.sampling.penalties import dry_penalties, penalize_frequency, penalize_repetition

GREEDY_BELOW = 1e-7

_MASK = (1 << 64) - 1


class Sampler:
    """Draws the tokens of one sequence.

    Args:
        params: how to draw.
        index: which choice of its request the sequence is; each has its own stream.
        prompt_ids: what penalties look back at before the answer.
        eos_token_ids: what may not be drawn before ``params.min_tokens``.
        pieces: bytes of each token, for DRY's sequence breakers.
    """

    def __init__(
        self,
        params: SamplingParams,
        index: int = 0,
        *,
        prompt_ids: Sequence[int] = (),
        eos_token_ids: Sequence[int] = (),
        pieces: Sequence[bytes] = (),
    ) -> None:
        self._params = params
        seed = params.seed if params.seed is not None else secrets.randbits(64)
        # Philox (Salmon et al., SC11) takes the pair as its key: no two pairs share a stream.
        key = np.array([seed & _MASK, index], dtype=np.uint64)
        greedy = params.temperature < GREEDY_BELOW
        self._random = None if greedy else np.random.Generator(np.random.Philox(key=key))
        self._history = _history(params, prompt_ids)
        self._breakers = _breakers(params, prompt_ids, pieces)
        self._bias = _bias(params)
        self._suppressed = np.array(params.suppress_tokens, dtype=np.int64)
        self._endings = np.array([*eos_token_ids, *params.stop_token_ids], dtype=np.int64)
        self._mirostat = None
        if params.mirostat_tau is not None:
            self._mirostat = Mirostat(params.mirostat_tau, params.mirostat_eta)
        self._head = _head_of(params)
        self._adjusted = False
        self._drawn = 0

    @property
    def adjusts(self) -> bool:
        """Whether the next `sample` may change its logits."""
        return bool(
            self._history is not None
            or self._bias is not None
            or len(self._suppressed)
            or self._drawn < self._params.min_tokens
        )

    def head_wanted(self, logits: NDArray[np.float32]) -> tuple[Candidates, Iterable[float]] | None:
        """What `find_heads` has to look for before the next `sample`; None if a head is no help.

        Args:
            logits: those that will be drawn from; what changes them before a draw is done here.
        """
        if self._random is None or self._head is None:
            return None
        self._adjust(logits)
        self._adjusted = True
        candidates = Candidates.all_of(logits, self._params.temperature)
        if not math.isfinite(candidates.largest):
            return None
        return candidates, self._head(candidates, self._params)

    def sample(
        self,
        logits: NDArray[np.float32],
        known: Candidates | None = None,
        settle: Callable[[int], int] | None = None,
        head: Head | None = None,
    ) -> int:
        """The next token, from float32 logits ``[vocab]``, which may be changed on the way.

        Args:
            logits: those of the vocabulary.
            known: the same ones as candidates, if they are at hand as they will be drawn from.
            settle: given the token that was drawn, says which to take.
            head: what was found for `head_wanted`.

        Raises:
            FloatingPointError: the largest logit is infinite, or some are NaN.
        """
        if not self._adjusted:
            self._adjust(logits)
        self._adjusted = False
        if self._random is None:
            token = int(logits.argmax())  # The first NaN, if there is one.
            if not math.isfinite(logits[token]):
                raise _not_finite(logits)
        else:
            token = self._draw(logits, self._random, known, head)
        if settle is not None:
            token = settle(token)
        self._remember(token)
        return token

    def _remember(self, token: int) -> None:
        self._drawn += 1
        if self._history is not None:
            self._history.append(token)
        if self._breakers is not None:
            self._breakers.append(token)

    def _adjust(self, logits: NDArray[np.float32]) -> None:
        """Penalties, bias and bans, in place."""
        params, history = self._params, self._history
        if history is not None:
            self._penalize_sequences(logits, history)
            if params.frequency_penalty or params.presence_penalty:
                penalize_frequency(
                    logits, history.generated, params.frequency_penalty, params.presence_penalty
                )
            if params.repetition_penalty != 1.0:
                penalize_repetition(logits, history.seen, params.repetition_penalty)
        if self._bias is not None:
            tokens, values = self._bias
            logits[tokens] += values
        if len(self._suppressed):
            logits[self._suppressed] = -np.inf
        if self._drawn < params.min_tokens:
            logits[self._endings] = -np.inf

    def _penalize_sequences(self, logits: NDArray[np.float32], history: TokenHistory) -> None:
        dry = self._params.dry
        if dry is None or self._breakers is None:
            return
        penalties = dry_penalties(
            history.tokens,
            self._breakers.passed,
            multiplier=dry.multiplier,
            base=dry.base,
            allowed_length=dry.allowed_length,
        )
        for token, penalty in penalties.items():
            logits[token] -= penalty

    def _draw(
        self,
        logits: NDArray[np.float32],
        random: np.random.Generator,
        known: Candidates | None,
        head: Head | None,
    ) -> int:
        params = self._params
        peaks = None if known is None else known.peaks
        candidates = Candidates.all_of(logits, params.temperature, peaks)
        if not math.isfinite(candidates.largest):
            raise _not_finite(logits)
        if head is None and self._head is not None:
            head = find_heads([(candidates, self._head(candidates, params))])[0]
        if head is not None and self._head is _whole_head:
            return draw_whole(candidates, head, params.top_p, params.min_p, random.random)
        uniform = random.random()
        if self._mirostat is not None:
            return self._mirostat.draw(candidates, uniform)
        candidates = keep_top_n_sigma(candidates, params.top_n_sigma)
        # What the next filter keeps is in the head.
        candidates = candidates if head is None else head.tokens
        candidates = keep_top_k(candidates, params.top_k)
        candidates = keep_typical(candidates, params.typical_p)
        candidates = keep_nucleus(candidates, params.top_p)
        candidates = keep_min_p(candidates, params.min_p)
        # Drawn even where nothing is excluded, so that the stream does not depend on the logits.
        if params.xtc_probability and random.random() < params.xtc_probability:
            candidates = exclude_top_choices(candidates, params.xtc_threshold)
        return candidates.token(draw(candidates.weights, uniform))


_HeadOf = Callable[[Candidates, SamplingParams], Iterable[float]]


def _head_of(params: SamplingParams) -> _HeadOf | None:
    """Which tokens are enough to draw from; None where all have to be weighed."""
    if params.mirostat_tau is not None or (params.top_n_sigma or 0) > 0:
        return None
    if (params.top_k or 0) > 0:
        return _top_k_head
    if params.typical_p < 1:
        return None
    if params.min_p > 0 and params.top_p >= 1:
        return _min_p_head
    return None if params.xtc_probability else _whole_head


def _top_k_head(candidates: Candidates, params: SamplingParams) -> Iterable[float]:
    return top_k_floors(candidates, params.top_k or 0)


def _min_p_head(candidates: Candidates, params: SamplingParams) -> Iterable[float]:
    return [min_p_floor(candidates, params.min_p)]


def _whole_head(candidates: Candidates, params: SamplingParams) -> Iterable[float]:
    return whole_floors(candidates)


def _not_finite(logits: NDArray[np.float32]) -> FloatingPointError:
    token = int(logits.argmax())  # The first NaN, if there is one.
    return FloatingPointError(f"the logit of token {token} is {logits[token]}")


def _history(params: SamplingParams, prompt_ids: Sequence[int]) -> TokenHistory | None:
    """None where nothing looks back: the usual case costs nothing."""
    looks_back = (
        params.dry is not None
        or params.frequency_penalty != 0
        or params.presence_penalty != 0
        or params.repetition_penalty != 1.0
    )
    return TokenHistory(prompt_ids, params.penalty_window) if looks_back else None


def _breakers(
    params: SamplingParams, prompt_ids: Sequence[int], pieces: Sequence[bytes]
) -> BreakerTracker | None:
    if params.dry is None:
        return None
    tracker = BreakerTracker([text.encode() for text in params.dry.breakers], pieces)
    tracker.begin(prompt_ids)
    return tracker


def _bias(params: SamplingParams) -> tuple[NDArray[np.int64], NDArray[np.float32]] | None:
    if not params.logit_bias:
        return None
    tokens, values = zip(*params.logit_bias, strict=True)
    return np.array(tokens, dtype=np.int64), np.array(values, dtype=np.float32)
