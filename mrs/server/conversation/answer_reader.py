"""From the deltas of one choice to the events of its answer."""

from __future__ import annotations

from collections.abc import Iterator

from mrs.runtime.generation import FinishReason, GenerationDelta, TokenLogprobs
from mrs.server.conversation.answer_syntax import AnswerSyntax
from mrs.server.conversation.event_sink import EventSink
from mrs.server.conversation.events import AnswerEvent, Finished, TextDelta
from mrs.server.conversation.feed import Feed, Reading


class AnswerReader:
    """Reads one choice of an answer that is text and nothing else."""

    def read(self, delta: GenerationDelta) -> Iterator[AnswerEvent]:
        """The events that a delta makes certain; `Finished` is the last one of all."""
        if delta.text or delta.logprobs:
            yield TextDelta(delta.text, delta.logprobs)
        if delta.finish_reason is not None:
            yield Finished(delta.finish_reason.value, delta.stop)


class ParsingReader(AnswerReader):
    """Reads one choice that may hold reasoning and calls.

    A call that the model ended before its arguments were complete ends as it is; one that was cut
    off by the limit of tokens does not end.

    Args:
        syntax: of the answers.
        sink: a fresh one.
        hidden_stops: stop strings that the client has not asked for.
    """

    def __init__(
        self, syntax: AnswerSyntax, sink: EventSink, hidden_stops: frozenset[str] = frozenset()
    ) -> None:
        self._sink = sink
        self._feed = Feed()
        self._parsing: Reading[None] | None = syntax.parse(self._feed, sink)
        self._hidden_stops = hidden_stops
        self._logprobs: tuple[TokenLogprobs, ...] = ()
        self._reasoning_tokens = 0
        self._advance()

    def read(self, delta: GenerationDelta) -> Iterator[AnswerEvent]:
        """The events that a delta makes certain; `Finished` is the last one of all."""
        sink = self._sink
        thought = sink.in_reasoning
        is_text = not (thought or sink.in_call)
        self._feed.push(delta.text)
        self._advance()
        if thought or sink.in_reasoning:
            self._reasoning_tokens += len(delta.token_ids)
        elif is_text:
            self._logprobs += delta.logprobs
        finished = self._finish(delta) if delta.finish_reason is not None else None
        yield from self._with_logprobs(sink.drain(), last=finished is not None)
        if finished is not None:
            yield finished

    def _advance(self) -> None:
        if self._parsing is None:
            return
        try:
            next(self._parsing)
        except StopIteration:
            self._parsing = None

    def _finish(self, delta: GenerationDelta) -> Finished:
        assert delta.finish_reason is not None
        sink = self._sink
        self._feed.end()
        self._advance()
        sink.finish(cut=delta.finish_reason is FinishReason.LENGTH)
        reason = delta.finish_reason.value
        if delta.finish_reason is FinishReason.STOP:
            sink.end()
            if sink.calls:
                reason = "tool_calls"
        stop = None if delta.stop in self._hidden_stops else delta.stop
        return Finished(reason, stop, self._reasoning_tokens)

    def _with_logprobs(self, events: list[AnswerEvent], *, last: bool) -> Iterator[AnswerEvent]:
        """The events, those of text with the logprobs that wait for them."""
        for event in events:
            if isinstance(event, TextDelta):
                yield TextDelta(event.text, self._logprobs)
            else:
                yield event
            # What belonged to marks and calls is no part of the text.
            self._logprobs = ()
        if last and self._logprobs and not self._sink.calls:
            yield TextDelta("", self._logprobs)
