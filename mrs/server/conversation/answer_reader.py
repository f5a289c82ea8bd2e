"""From the deltas of one choice to the events of its answer."""

from __future__ import annotations

from collections.abc import Iterator

from mrs.runtime.generation import GenerationDelta
from mrs.server.conversation.events import AnswerEvent, Finished, TextDelta


class AnswerReader:
    """Reads one choice of an answer."""

    def read(self, delta: GenerationDelta) -> Iterator[AnswerEvent]:
        """The events that a delta makes certain; `Finished` is the last one of all."""
        if delta.text or delta.logprobs:
            yield TextDelta(delta.text, delta.logprobs)
        if delta.finish_reason is not None:
            yield Finished(delta.finish_reason.value, delta.stop)
