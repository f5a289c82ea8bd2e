"""What a sequence has become in text: detokenizing, stop strings and the end conditions."""

from __future__ import annotations

from collections.abc import Container

from mrs.runtime.detokenizer import Detokenizer
from mrs.runtime.generation import FinishReason, GenerationDelta, TokenLogprobs
from mrs.runtime.sequence import Sequence
from mrs.runtime.stop_strings import StopStringMatcher


class Answer:
    """Turns the tokens drawn for one sequence into text and decides when it ends.

    Args:
        sequence: whose tokens they are.
        detokenizer: a fresh one.
        eos_token_ids: ids that end the answer.
    """

    def __init__(
        self, sequence: Sequence, detokenizer: Detokenizer, eos_token_ids: Container[int]
    ) -> None:
        self._sequence = sequence
        self._detokenizer = detokenizer
        self._stop = StopStringMatcher(sequence.sampling.stop)
        self._eos = () if sequence.sampling.ignore_eos else eos_token_ids
        self._stop_tokens = sequence.sampling.stop_token_ids
        self._cumulative = 0.0

    def add(
        self, token: int, logprobs: TokenLogprobs | None = None, *, complete: bool = False
    ) -> GenerationDelta:
        """Take the next token; sets the sequence's finish reason when it is the last.

        Args:
            token: the one that was drawn.
            logprobs: of it, if the sequence's sampling asks for them in any way.
            complete: nothing may follow it.
        """
        sequence = self._sequence
        if logprobs is not None:
            self._cumulative += logprobs.logprob
            if sequence.sampling.logprobs is None:
                logprobs = None
        sequence.output_ids.append(token)
        if token in self._eos or token in self._stop_tokens:
            return self._finish(FinishReason.STOP, "", token)
        text, stopped = self._stop.push(self._detokenizer.push(token))
        if stopped:
            return self._finish(FinishReason.STOP, text, token, logprobs)
        if complete:
            return self._finish(FinishReason.STOP, text, token, logprobs)
        if self._is_full():
            return self._finish(FinishReason.LENGTH, text, token, logprobs)
        return self._delta(text, token, logprobs)

    def _finish(
        self, reason: FinishReason, text: str, token: int, logprobs: TokenLogprobs | None = None
    ) -> GenerationDelta:
        """End the answer, letting out what was held back; after a stop string that is nothing."""
        tail, stopped = self._stop.push(self._detokenizer.flush())
        text += tail + self._stop.flush()
        self._sequence.finish_reason = reason = FinishReason.STOP if stopped else reason
        return self._delta(text, token, logprobs, reason)

    def _delta(
        self,
        text: str,
        token: int,
        logprobs: TokenLogprobs | None,
        reason: FinishReason | None = None,
    ) -> GenerationDelta:
        told = reason is not None and self._sequence.sampling.cumulative_logprob
        return GenerationDelta(
            self._sequence.index,
            text,
            (token,),
            reason,
            cached_tokens=self._sequence.num_cached,
            dropped_tokens=self._sequence.num_dropped,
            logprobs=() if logprobs is None else (logprobs,),
            stop=self._stop.found,
            cumulative_logprob=self._cumulative if told else None,
        )

    def _is_full(self) -> bool:
        sequence = self._sequence
        limit = sequence.sampling.max_tokens
        if limit is not None and len(sequence.output_ids) >= limit:
            return True
        return sequence.length >= sequence.max_length
