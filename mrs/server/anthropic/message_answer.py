"""Answers to a messages request: whole, or as a stream of events.

https://docs.claude.com/en/docs/build-with-claude/streaming has the order of the events.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import orjson

from mrs.runtime.generation import GenerationDelta
from mrs.server.anthropic.content import (
    BlockBegun,
    BlockDelta,
    BlockStep,
    ContentReader,
    whole_blocks,
)
from mrs.server.anthropic.request import PreparedMessage
from mrs.server.anthropic.schemas import MessagesRequest
from mrs.server.conversation.events import Finished
from mrs.server.generation import Answer, Tally
from mrs.server.served_model import ServedModel
from mrs.server.streaming import event

_MESSAGE_STOP = event(b'{"type":"message_stop"}', name="message_stop")


def message_answer(
    request: MessagesRequest, prepared: PreparedMessage, model: ServedModel
) -> Answer:
    """Return the answer that the request wants."""
    kind = StreamedMessage if request.stream else WholeMessage
    return kind(request, prepared, model)


class _MessageAnswer:
    """What both forms have in common: reading the answer, and how it ended."""

    streamed: bool

    def __init__(
        self, request: MessagesRequest, prepared: PreparedMessage, model: ServedModel
    ) -> None:
        self.generation = prepared.conversation.generation
        self._reader = prepared.conversation.new_reader()
        display = request.thinking.display if request.thinking else None
        self._content = ContentReader(shows_thinking=display != "omitted")
        self._ends_at_context = prepared.ends_at_context
        self._stop_sequences = frozenset((*(request.stop_sequences or ()), *(request.stop or ())))
        self._finished = Finished("stop")
        self._header: dict[str, Any] = {
            "id": f"msg_{uuid.uuid4().hex}",
            "type": "message",
            "role": "assistant",
            "model": model.name,
        }

    def _steps(self, deltas: tuple[GenerationDelta, ...]) -> Iterator[BlockStep]:
        for delta in deltas:
            for found in self._reader.read(delta):
                if isinstance(found, Finished):
                    self._finished = found
                    yield from self._content.finish()
                else:
                    yield from self._content.read(found)

    def _end(self) -> dict[str, str | None]:
        reason, stop = self._finished.reason, self._finished.stop
        if reason == "tool_calls":
            return {"stop_reason": "tool_use", "stop_sequence": None}
        if reason == "length":
            room = "model_context_window_exceeded" if self._ends_at_context else "max_tokens"
            return {"stop_reason": room, "stop_sequence": None}
        if stop in self._stop_sequences:
            return {"stop_reason": "stop_sequence", "stop_sequence": stop}
        return {"stop_reason": "end_turn", "stop_sequence": None}

    def _usage(self, prompt_tokens: int, cached_tokens: int, output_tokens: int) -> dict[str, Any]:
        """Token counts; what was cached is no part of the input tokens, as Anthropic counts."""
        return {
            "input_tokens": prompt_tokens - cached_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": cached_tokens,
            "output_tokens": output_tokens,
        }

    def _last_usage(self, tally: Tally) -> dict[str, Any]:
        details = {"thinking_tokens": self._finished.reasoning_tokens}
        usage = self._usage(tally.prompt_tokens, tally.cached_tokens, tally.completion_tokens)
        return {**usage, "output_tokens_details": details}


class WholeMessage(_MessageAnswer):
    """One JSON object, sent when the answer has ended."""

    streamed = False

    def __init__(
        self, request: MessagesRequest, prepared: PreparedMessage, model: ServedModel
    ) -> None:
        super().__init__(request, prepared, model)
        self._taken: list[BlockStep] = []

    def add(self, deltas: tuple[GenerationDelta, ...]) -> bytes:
        """Keep what the deltas add."""
        self._taken.extend(self._steps(deltas))
        return b""

    def close(self, tally: Tally) -> bytes:
        """Return the body."""
        usage = {**self._last_usage(tally), "service_tier": "standard"}
        content = whole_blocks(self._taken)
        return orjson.dumps({**self._header, "content": content, **self._end(), "usage": usage})


class StreamedMessage(_MessageAnswer):
    """``message_start``, the blocks one after the other, ``message_delta``, ``message_stop``."""

    streamed = True
    _started = False

    def add(self, deltas: tuple[GenerationDelta, ...]) -> bytes:
        """Return the events for the deltas."""
        events = [] if self._started else [self._start(deltas)]
        self._started = True
        events.extend(map(_block_event, self._steps(deltas)))
        return b"".join(events)

    def close(self, tally: Tally) -> bytes:
        """Return the end of the stream."""
        last = {"type": "message_delta", "delta": self._end(), "usage": self._last_usage(tally)}
        return event(orjson.dumps(last), name="message_delta") + _MESSAGE_STOP

    def _start(self, deltas: tuple[GenerationDelta, ...]) -> bytes:
        # Only by now is it known how much of the prompt was cached.
        cached = max((delta.cached_tokens for delta in deltas), default=0)
        dropped = max((delta.dropped_tokens for delta in deltas), default=0)
        usage = self._usage(len(self.generation.prompt_ids) - dropped, cached, 0)
        message = {
            **self._header,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {**usage, "service_tier": "standard"},
        }
        return event(
            orjson.dumps({"type": "message_start", "message": message}), name="message_start"
        )


def _block_event(step: BlockStep) -> bytes:
    if isinstance(step, BlockDelta):
        # This runs for every token: only the text needs to be escaped.
        data = b'{"type":"content_block_delta","index":%d,"delta":{"type":"%s","%s":%s}}' % (
            step.index,
            step.kind.encode("ascii"),
            step.field.encode("ascii"),
            orjson.dumps(step.text),
        )
        return event(data, name="content_block_delta")
    if isinstance(step, BlockBegun):
        begun = {"type": "content_block_start", "index": step.index, "content_block": step.block}
        return event(orjson.dumps(begun), name="content_block_start")
    data = b'{"type":"content_block_stop","index":%d}' % step.index
    return event(data, name="content_block_stop")
