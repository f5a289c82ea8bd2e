"""One choice of a whole answer, from its events."""

from __future__ import annotations

from typing import Any

from mrs.server.conversation.events import (
    AnswerEvent,
    Finished,
    ReasoningDelta,
    TextDelta,
    ToolCallArguments,
    ToolCallBegun,
)
from mrs.server.openai.logprobs import TokenBytes, choice_logprobs, token_logprobs


class ChatMessageBuilder:
    """Puts the message of a choice together.

    Args:
        token_bytes: for log probabilities; None if there are to be none.
        legacy_calls: the call is told as ``function_call``.

    Attributes:
        reasoning_tokens: of the choice, once it has finished.
    """

    def __init__(self, token_bytes: TokenBytes | None, *, legacy_calls: bool) -> None:
        self._token_bytes = token_bytes
        self._legacy_calls = legacy_calls
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._calls: list[tuple[ToolCallBegun, list[str]]] = []
        self._logprobs: list[dict[str, Any]] = []
        self._reason: str | None = None
        self.reasoning_tokens = 0

    def add(self, event: AnswerEvent) -> None:
        """Take the next event."""
        match event:
            case TextDelta():
                self._text.append(event.text)
                if self._token_bytes is not None:
                    told = self._token_bytes
                    self._logprobs += (token_logprobs(one, told) for one in event.logprobs)
            case ReasoningDelta():
                self._thoughts.append(event.text)
            case ToolCallBegun():
                self._calls.append((event, []))
            case ToolCallArguments():
                self._calls[event.index][1].append(event.fragment)
            case Finished():
                self._reason = event.reason
                self.reasoning_tokens = event.reasoning_tokens

    def choice(self, index: int) -> dict[str, Any]:
        """The choice as OpenAI has it."""
        is_legacy = self._legacy_calls and self._reason == "tool_calls"
        return {
            "index": index,
            "message": self._message(),
            "logprobs": None if self._token_bytes is None else choice_logprobs(self._logprobs),
            "finish_reason": "function_call" if is_legacy else self._reason,
        }

    def _message(self) -> dict[str, Any]:
        text = "".join(self._text)
        content = None if self._calls and not text else text
        message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
        if self._thoughts:
            message["reasoning_content"] = "".join(self._thoughts)
        if self._calls and self._legacy_calls:
            message["function_call"] = _function(*self._calls[0])
        elif self._calls:
            message["tool_calls"] = [
                {"id": begun.id, "type": "function", "function": _function(begun, arguments)}
                for begun, arguments in self._calls
            ]
        return message


def _function(begun: ToolCallBegun, arguments: list[str]) -> dict[str, str]:
    return {"name": begun.name, "arguments": "".join(arguments)}
