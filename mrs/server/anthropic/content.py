"""The events of an answer to content blocks, one after the other.

A block is begun, goes on, and has ended before the next begins. Streams and whole answers are both
made of these steps, so that they cannot differ.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from mrs.server.conversation.events import (
    AnswerEvent,
    ReasoningDelta,
    TextDelta,
    ToolCallArguments,
    ToolCallBegun,
    ToolCallEnded,
)


@dataclass(frozen=True)
class BlockBegun:
    """A block begins.

    Attributes:
        index: its place.
        block: as it is while it is empty.
    """

    index: int
    block: dict[str, Any]


@dataclass(frozen=True)
class BlockDelta:
    """A block goes on.

    Attributes:
        index: its place.
        kind: ``text_delta``, ``thinking_delta``, ``signature_delta`` or ``input_json_delta``.
        field: of the delta.
        text: what is added.
    """

    index: int
    kind: str
    field: str
    text: str


@dataclass(frozen=True)
class BlockEnded:
    """A block is complete."""

    index: int


BlockStep = BlockBegun | BlockDelta | BlockEnded


class ContentReader:
    """Makes blocks of events.

    White space alone makes no block, unless it is all that the model says: clients may not send
    such a block back.

    Args:
        shows_thinking: whether thinking is told, or only that there was some.
    """

    def __init__(self, *, shows_thinking: bool = True) -> None:
        self._shows_thinking = shows_thinking
        self._count = 0
        self._open: str | None = None
        self._spaces = ""
        self._thought = hashlib.sha256()
        self._has_arguments = False

    @property
    def has_blocks(self) -> bool:
        """Whether a block was begun."""
        return self._count > 0

    def read(self, event: AnswerEvent) -> Iterator[BlockStep]:
        """The steps that an event makes."""
        match event:
            case ReasoningDelta() if event.text:
                yield from self._think(event.text)
            case TextDelta() if event.text:
                yield from self._say(event.text)
            case ToolCallBegun():
                yield from self._begin_call(event)
            case ToolCallArguments() if event.fragment:
                self._has_arguments = True
                yield self._delta("input_json_delta", "partial_json", event.fragment)
            case ToolCallEnded():
                if not self._has_arguments:
                    yield self._delta("input_json_delta", "partial_json", event.arguments)
                yield from self._end()

    def finish(self) -> Iterator[BlockStep]:
        """The steps that the end of the answer makes."""
        if self._spaces and not self.has_blocks:
            yield from self._begin_text(self._spaces)
        yield from self._end()

    def _think(self, text: str) -> Iterator[BlockStep]:
        if self._open != "thinking":
            yield from self._end()
            self._thought = hashlib.sha256()
            yield self._begin("thinking", {"type": "thinking", "thinking": "", "signature": ""})
        self._thought.update(text.encode("utf-8", "surrogatepass"))
        if self._shows_thinking:
            yield self._delta("thinking_delta", "thinking", text)

    def _say(self, text: str) -> Iterator[BlockStep]:
        if self._open == "text":
            yield self._delta("text_delta", "text", text)
            return
        self._spaces += text
        if not self._spaces.isspace():
            yield from self._begin_text(self._spaces)

    def _begin_text(self, text: str) -> Iterator[BlockStep]:
        yield from self._end()
        yield self._begin("text", {"type": "text", "text": ""})
        yield self._delta("text_delta", "text", text)

    def _begin_call(self, event: ToolCallBegun) -> Iterator[BlockStep]:
        yield from self._end()
        self._has_arguments = False
        block = {"type": "tool_use", "id": event.id, "name": event.name, "input": {}}
        yield self._begin("tool_use", block)

    def _begin(self, kind: str, block: dict[str, Any]) -> BlockStep:
        self._open = kind
        self._spaces = ""
        self._count += 1
        return BlockBegun(self._count - 1, block)

    def _delta(self, kind: str, field: str, text: str) -> BlockStep:
        return BlockDelta(self._count - 1, kind, field, text)

    def _end(self) -> Iterator[BlockStep]:
        if self._open == "thinking":
            # Opaque to clients, which send it back; here it says no more than what was thought.
            signature = base64.b64encode(self._thought.digest()).decode("ascii")
            yield self._delta("signature_delta", "signature", signature)
        if self._open is not None:
            yield BlockEnded(self._count - 1)
        self._open = None


def whole_blocks(steps: list[BlockStep]) -> list[dict[str, Any]]:
    """The blocks that steps make.

    The input of a call that was cut off is what of it is complete.
    """
    blocks: list[dict[str, Any]] = []
    pieces: list[list[str]] = []
    signatures: dict[int, str] = {}
    for step in steps:
        if isinstance(step, BlockBegun):
            blocks.append(dict(step.block))
            pieces.append([])
        elif isinstance(step, BlockDelta):
            if step.field == "signature":
                signatures[step.index] = step.text
            else:
                pieces[step.index].append(step.text)
    for index, (block, parts) in enumerate(zip(blocks, pieces, strict=True)):
        _fill(block, "".join(parts))
        if index in signatures:
            block["signature"] = signatures[index]
    return blocks


def _fill(block: dict[str, Any], text: str) -> None:
    if block["type"] == "tool_use":
        block["input"] = _input(text)
    else:
        block[block["type"]] = text


def _input(text: str) -> dict[str, Any]:
    try:
        found = from_json(text or "{}", allow_partial=True)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
