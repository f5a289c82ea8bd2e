"""The items of an answer while they grow, and the events that tell of it."""

from __future__ import annotations

from typing import Any, Protocol

from mrs.server.responses.event_writer import EventWriter
from mrs.server.responses.items import Item, new_id, seal


class OpenItem(Protocol):
    """An item that is not complete."""

    def begin(self) -> list[bytes]:
        """The events that open it."""

    def end(self, status: str) -> list[bytes]:
        """The events that close it; the status is ``completed`` or ``incomplete``."""

    def item(self, status: str) -> Item:
        """The item as it is now."""


class _Growing:
    """What all items have: a place, an id, and text that comes in pieces."""

    prefix: str
    delta_kind: str

    def __init__(self, writer: EventWriter, output_index: int, **delta_fields: Any) -> None:
        self._writer = writer
        self._place = {"output_index": output_index}
        self.id = new_id(self.prefix)
        self._at = {"item_id": self.id, **self._place}
        self._pieces: list[str] = []
        self._delta_frame = writer.frame_of_delta(self.delta_kind, **self._at, **delta_fields)

    def grow(self, text: str) -> bytes:
        """Add text; the event for it."""
        self._pieces.append(text)
        return self._writer.delta(self._delta_frame, text)

    def _text(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def _added(self, item: Item) -> bytes:
        return self._writer.event("response.output_item.added", **self._place, item=item)

    def _done(self, item: Item) -> bytes:
        return self._writer.event("response.output_item.done", **self._place, item=item)


class ReasoningItem(_Growing):
    """What the model thinks.

    Args:
        sealed: the item comes with its opaque form as well.
    """

    prefix = "rs"
    delta_kind = "response.reasoning_text.delta"

    def __init__(self, writer: EventWriter, output_index: int, *, sealed: bool) -> None:
        super().__init__(writer, output_index, content_index=0)
        self._sealed = sealed

    def begin(self) -> list[bytes]:
        """See `OpenItem`."""
        item = {**self.item("in_progress"), "content": []}
        part = {"type": "reasoning_text", "text": ""}
        kind = "response.content_part.added"
        return [
            self._added(item),
            self._writer.event(kind, **self._at, content_index=0, part=part),
        ]

    def end(self, status: str) -> list[bytes]:
        """See `OpenItem`."""
        item, at = self.item(status), {**self._at, "content_index": 0}
        return [
            self._writer.event("response.reasoning_text.done", **at, text=self._text()),
            self._writer.event("response.content_part.done", **at, part=item["content"][0]),
            self._done(item),
        ]

    def item(self, status: str) -> Item:
        """See `OpenItem`."""
        text = self._text()
        item = {
            "type": "reasoning",
            "id": self.id,
            "status": status,
            "summary": [],
            "content": [{"type": "reasoning_text", "text": text}],
        }
        return {**item, "encrypted_content": seal(text)} if self._sealed else item


class MessageItem(_Growing):
    """What the model says."""

    prefix = "msg"
    delta_kind = "response.output_text.delta"

    def __init__(self, writer: EventWriter, output_index: int) -> None:
        super().__init__(writer, output_index, content_index=0, logprobs=[])
        self._logprobs: list[dict[str, Any]] = []

    def grow_with_logprobs(self, text: str, logprobs: list[dict[str, Any]]) -> bytes:
        """Add text and how likely its tokens were; the event for it."""
        self._pieces.append(text)
        self._logprobs += logprobs
        frame = self._writer.frame_of_delta(
            self.delta_kind, **self._at, content_index=0, logprobs=logprobs
        )
        return self._writer.delta(frame, text)

    def begin(self) -> list[bytes]:
        """See `OpenItem`."""
        item = {**self.item("in_progress"), "content": []}
        kind = "response.content_part.added"
        return [
            self._added(item),
            self._writer.event(kind, **self._at, content_index=0, part=self._part()),
        ]

    def end(self, status: str) -> list[bytes]:
        """See `OpenItem`."""
        part, at = self._part(), {**self._at, "content_index": 0}
        done = self._writer.event(
            "response.output_text.done", **at, text=part["text"], logprobs=part["logprobs"]
        )
        part_done = self._writer.event("response.content_part.done", **at, part=part)
        return [done, part_done, self._done(self.item(status))]

    def item(self, status: str) -> Item:
        """See `OpenItem`."""
        return {
            "type": "message",
            "id": self.id,
            "status": status,
            "role": "assistant",
            "content": [self._part()],
        }

    def _part(self) -> dict[str, Any]:
        return {
            "type": "output_text",
            "text": self._text(),
            "annotations": [],
            "logprobs": list(self._logprobs),
        }


class FunctionCallItem(_Growing):
    """A call that the model makes."""

    prefix = "fc"
    delta_kind = "response.function_call_arguments.delta"

    def __init__(
        self,
        writer: EventWriter,
        output_index: int,
        call_id: str,
        name: str,
        namespace: str | None = None,
    ) -> None:
        super().__init__(writer, output_index)
        self._namespace = {} if namespace is None else {"namespace": namespace}
        self._call_id = call_id
        self._name = name

    def begin(self) -> list[bytes]:
        """See `OpenItem`."""
        return [self._added(self.item("in_progress"))]

    def end(self, status: str) -> list[bytes]:
        """See `OpenItem`."""
        kind = "response.function_call_arguments.done"
        done = self._writer.event(kind, **self._at, name=self._name, arguments=self._text())
        return [done, self._done(self.item(status))]

    def item(self, status: str) -> Item:
        """See `OpenItem`."""
        return {
            "type": "function_call",
            "id": self.id,
            "status": status,
            "call_id": self._call_id,
            "name": self._name,
            "arguments": self._text(),
            **self._namespace,
        }
