"""Where the parser of an answer puts what it finds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mrs.runtime.generation import TokenLogprobs
from mrs.server.conversation.conversation import FunctionTool
from mrs.server.conversation.events import (
    AnswerEvent,
    ReasoningDelta,
    TextDelta,
    ToolCallArguments,
    ToolCallBegun,
    ToolCallEnded,
)

_SPACES = " \t\n\r"
_ANY_OBJECT: Mapping[str, Any] = {"type": "object"}


class EventSink:
    """Collects the events of one answer.

    White space between reasoning, text and calls belongs to none of them: models write line breaks
    there. Within a text, and at the end of an answer that is text alone, it stays.

    Args:
        tools: those that may be called, by name.
        new_id: makes ids of calls.
        parallel: there may be more than one call.

    Attributes:
        on_progress: called when a call has begun, and when it has ended.
    """

    def __init__(
        self,
        tools: Mapping[str, FunctionTool],
        new_id: Callable[[], str],
        *,
        parallel: bool = True,
    ) -> None:
        self._tools = tools
        self._new_id = new_id
        self._parallel = parallel
        self._events: list[AnswerEvent] = []
        self._spaces = ""
        self._skips_spaces = False
        self._thinks = False
        self._arguments: list[str] | None = None
        self._calls = 0
        self._cut_call = ""
        self.on_progress: Callable[[], None] | None = None

    @property
    def calls(self) -> int:
        """How many calls have begun."""
        return self._calls

    @property
    def in_call(self) -> bool:
        """A call has begun and not ended."""
        return self._arguments is not None

    @property
    def in_reasoning(self) -> bool:
        """The answer is reasoning at the moment."""
        return self._thinks

    @property
    def complete(self) -> bool:
        """Nothing more may come: there was a call, and there may be only one."""
        return self._calls > 0 and not self._parallel and not self.in_call

    def knows(self, name: str) -> bool:
        """Whether there is a tool of that name."""
        return name in self._tools

    def parameters(self, name: str) -> Mapping[str, Any]:
        """JSON schema of a tool's arguments."""
        return self._tools[name].parameters or _ANY_OBJECT

    def text(self, piece: str) -> None:
        """More text."""
        if self.complete:
            return
        piece = self._without_outer_spaces(piece)
        if piece:
            self._events.append(TextDelta(piece))

    def begin_reasoning(self) -> None:
        """What follows is reasoning."""
        self._spaces = ""
        self._thinks = self._skips_spaces = True

    def reasoning(self, piece: str) -> None:
        """More reasoning."""
        piece = self._without_outer_spaces(piece)
        if piece:
            self._events.append(ReasoningDelta(piece))

    def end_reasoning(self) -> None:
        """What follows is text or calls."""
        self._spaces = ""
        self._thinks = False
        self._skips_spaces = True

    def begin(self, name: str) -> None:
        """A call of a known tool."""
        self._spaces = ""
        self._arguments = []
        self._events.append(ToolCallBegun(self._calls, self._new_id(), name))
        self._calls += 1
        self._progress()

    def arguments(self, fragment: str) -> None:
        """More of the call's arguments."""
        if fragment and self._arguments is not None:
            self._arguments.append(fragment)
            self._events.append(ToolCallArguments(self._calls - 1, fragment))

    def end(self) -> None:
        """The call is complete."""
        if self._arguments is None:
            return
        if not self._arguments:
            self.arguments("{}")
        self._events.append(ToolCallEnded(self._calls - 1, "".join(self._arguments)))
        self._arguments = None
        self._skips_spaces = True
        self._progress()

    def cut_call(self, text: str) -> None:
        """The answer has ended in what may be the beginning of a call."""
        self._cut_call = text

    def finish(self, *, cut: bool) -> None:
        """The answer has ended: white space at the end of its text is part of it.

        Args:
            cut: by the limit of tokens. Then the beginning of a call is nothing, otherwise text.
        """
        if not cut:
            self.text(self._cut_call)
        elif self._cut_call:
            self._spaces = ""
        if self._spaces and not self._thinks and not self._calls:
            self._events.append(TextDelta(self._spaces))
        self._spaces = ""

    def drain(self) -> list[AnswerEvent]:
        """The events since the last call, those of one kind put together."""
        merged: list[AnswerEvent] = []
        for event in self._events:
            joined = _joined(merged[-1], event) if merged else None
            if joined is None:
                merged.append(event)
            else:
                merged[-1] = joined
        self._events = []
        return merged

    def _progress(self) -> None:
        if self.on_progress is not None:
            self.on_progress()

    def _without_outer_spaces(self, piece: str) -> str:
        piece = self._spaces + piece
        if self._skips_spaces:
            piece = piece.lstrip(_SPACES)
            self._skips_spaces = not piece
        kept = piece.rstrip(_SPACES)
        self._spaces = piece[len(kept) :]
        return kept


def _joined(first: AnswerEvent, second: AnswerEvent) -> AnswerEvent | None:
    match first, second:
        case TextDelta(), TextDelta():
            logprobs: tuple[TokenLogprobs, ...] = first.logprobs + second.logprobs
            return TextDelta(first.text + second.text, logprobs)
        case ReasoningDelta(), ReasoningDelta():
            return ReasoningDelta(first.text + second.text)
        case ToolCallArguments(), ToolCallArguments() if first.index == second.index:
            return ToolCallArguments(first.index, first.fragment + second.fragment)
    return None
