"""One answer: deltas of the engine in, events and the response object out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mrs.runtime.generation import GenerationDelta
from mrs.server.conversation.answer_reader import AnswerReader
from mrs.server.conversation.events import (
    AnswerEvent,
    Finished,
    ReasoningDelta,
    TextDelta,
    ToolCallArguments,
    ToolCallBegun,
)
from mrs.server.generation import Tally
from mrs.server.openai.logprobs import token_logprobs
from mrs.server.responses.database import with_output
from mrs.server.responses.event_writer import EventWriter
from mrs.server.responses.items import Item
from mrs.server.responses.output_items import (
    FunctionCallItem,
    MessageItem,
    OpenItem,
    ReasoningItem,
)
from mrs.server.responses.resource import Resource, response_usage

Frames = list[bytes]


@dataclass(frozen=True)
class AnswerForm:
    """What an answer looks like.

    Attributes:
        reader: reads the deltas.
        token_bytes: bytes of a token.
        namespaces: namespace and name of functions, by what the model knows them as.
        sealed_reasoning: reasoning comes in its opaque form as well.
        obfuscate: see `EventWriter`.
    """

    reader: AnswerReader
    token_bytes: Callable[[int], bytes]
    namespaces: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    sealed_reasoning: bool = False
    obfuscate: bool = False


class ResponseAnswer:
    """A response that grows: queued or in progress, then completed, incomplete, failed, cancelled.

    One item is open at a time. Each ``added`` event has its ``done``, also where the answer ends
    before its time.

    Args:
        resource: the response that has only begun.
        form: what its answer looks like.
        tally: counts its tokens.
    """

    def __init__(self, resource: Resource, form: AnswerForm, tally: Tally) -> None:
        self._resource = resource
        self._form = form
        self._tally = tally
        self._writer = EventWriter(obfuscate=form.obfuscate)
        self._done: list[Item] = []
        self._open: OpenItem | None = None
        self._finished: Finished | None = None
        self._ended = False

    @property
    def id(self) -> str:
        """Of the response."""
        return str(self._resource["id"])

    @property
    def resource(self) -> Resource:
        """The response as it is now."""
        pending = [] if self._open is None else [self._open.item("in_progress")]
        return with_output(self._resource, [*self._done, *pending])

    def begin(self) -> Frames:
        """The first events; what is in the background starts when its first token comes."""
        created = [self._writer.event("response.created", response=self.resource)]
        if self._resource["status"] == "queued":
            return [*created, self._writer.event("response.queued", response=self.resource)]
        return [*created, self._in_progress()]

    def add(self, deltas: tuple[GenerationDelta, ...]) -> Frames:
        """Take deltas; the events for them."""
        frames: Frames = []
        if self._resource["status"] == "queued":
            frames.append(self._in_progress())
        for delta in deltas:
            for event in self._form.reader.read(delta):
                frames += self._add(event)
        return frames

    def complete(self) -> Frames:
        """End the answer as the model did; the last events."""
        finished = self._finished or Finished("stop")
        cut_off = finished.reason == "length"
        frames = self._close("incomplete" if cut_off else "completed")
        if not self._done:
            # Whoever looks for a message finds one, empty as it is.
            frames = self._begin(MessageItem(self._writer, 0))
            frames += self._close("incomplete" if cut_off else "completed")
        if cut_off:
            details = {"reason": "max_output_tokens"}
            return [*frames, self._end("incomplete", incomplete_details=details)]
        return [*frames, self._end("completed", completed_at=int(time.time()))]

    def fail(self, error: dict[str, Any]) -> Frames:
        """End the answer with an error; the last events, the very last in place of another."""
        frames = self._close("incomplete")
        return [*frames, self._end("failed", error=error)]

    def cancel(self) -> Frames:
        """End the answer because somebody wants so; the last events.

        There is no event of that name: a client that knows the API waits for one of three.
        """
        frames = self._close("incomplete")
        return [*frames, self._end("cancelled", event="response.incomplete")]

    def _add(self, event: AnswerEvent) -> Frames:
        if isinstance(event, TextDelta):
            return self._add_text(event)
        if isinstance(event, ReasoningDelta):
            return self._add_reasoning(event)
        if isinstance(event, ToolCallBegun):
            namespace, name = self._form.namespaces.get(event.name, (None, event.name))
            index = self._next_index()
            return self._begin(FunctionCallItem(self._writer, index, event.id, name, namespace))
        if isinstance(event, ToolCallArguments):
            assert isinstance(self._open, FunctionCallItem)
            return [self._open.grow(event.fragment)]
        if isinstance(event, Finished):
            self._finished = event
            return []
        return self._close("completed")

    def _add_text(self, event: TextDelta) -> Frames:
        frames: Frames = []
        item = self._open
        if not isinstance(item, MessageItem):
            item = MessageItem(self._writer, self._next_index())
            frames = self._begin(item)
        if not event.logprobs:
            return [*frames, item.grow(event.text)]
        entries = [token_logprobs(found, self._form.token_bytes) for found in event.logprobs]
        return [*frames, item.grow_with_logprobs(event.text, entries)]

    def _add_reasoning(self, event: ReasoningDelta) -> Frames:
        frames: Frames = []
        item = self._open
        if not isinstance(item, ReasoningItem):
            sealed = self._form.sealed_reasoning
            item = ReasoningItem(self._writer, self._next_index(), sealed=sealed)
            frames = self._begin(item)
        return [*frames, item.grow(event.text)]

    def _next_index(self) -> int:
        return len(self._done) + (self._open is not None)

    def _begin(self, item: OpenItem) -> Frames:
        frames = self._close("completed")
        self._open = item
        return [*frames, *item.begin()]

    def _close(self, status: str) -> Frames:
        item, self._open = self._open, None
        if item is None:
            return []
        frames = item.end(status)
        self._done.append(item.item(status))
        return frames

    def _in_progress(self) -> bytes:
        self._resource = {**self._resource, "status": "in_progress"}
        return self._writer.event("response.in_progress", response=self.resource)

    def _end(self, status: str, *, event: str | None = None, **fields: Any) -> bytes:
        reasoning_tokens = self._finished.reasoning_tokens if self._finished else 0
        usage = response_usage(self._tally, reasoning_tokens)
        if self._ended:
            self._writer.take_back()
            fields = {"completed_at": None, "incomplete_details": None, **fields}
        self._ended = True
        self._resource = {**self._resource, **fields, "status": status, "usage": usage}
        return self._writer.event(event or f"response.{status}", response=self.resource)
