"""Answers to a chat completion request: whole, or as a stream of chunks."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any

import orjson

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
from mrs.server.conversation.prepare import PreparedConversation
from mrs.server.generation import Answer, Tally
from mrs.server.openai.chat_message import ChatMessageBuilder
from mrs.server.openai.logprobs import TokenBytes, choice_logprobs, token_logprobs
from mrs.server.openai.schemas import ChatCompletionRequest
from mrs.server.openai.usage import usage
from mrs.server.served_model import ServedModel
from mrs.server.streaming import event

DONE = event(b"[DONE]")


def chat_answer(
    request: ChatCompletionRequest, prepared: PreparedConversation, model: ServedModel
) -> Answer:
    """Return the answer that the request wants."""
    header = {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion.chunk" if request.stream else "chat.completion",
        "created": int(time.time()),
        "model": model.name,
        "system_fingerprint": model.fingerprint,
    }
    if request.service_tier is not None:
        header["service_tier"] = "default"
    legacy = bool(request.functions)
    if not request.stream:
        return WholeChatAnswer(header, prepared, model.token_bytes, legacy_calls=legacy)
    options = request.stream_options
    return StreamedChatAnswer(
        header,
        prepared,
        model.token_bytes,
        include_usage=bool(options and options.include_usage),
        legacy_calls=legacy,
    )


class WholeChatAnswer:
    """One JSON object, sent when every choice has ended."""

    streamed = False

    def __init__(
        self,
        header: Mapping[str, Any],
        prepared: PreparedConversation,
        token_bytes: TokenBytes,
        *,
        legacy_calls: bool = False,
    ) -> None:
        self.generation = prepared.generation
        self._header = header
        choices = range(prepared.generation.n)
        self._readers = [prepared.new_reader() for _ in choices]
        wanted = self.generation.sampling.logprobs is not None
        self._messages = [
            ChatMessageBuilder(token_bytes if wanted else None, legacy_calls=legacy_calls)
            for _ in choices
        ]

    def add(self, deltas: tuple[GenerationDelta, ...]) -> bytes:
        """Keep what the deltas add."""
        for delta in deltas:
            message = self._messages[delta.index]
            for found in self._readers[delta.index].read(delta):
                message.add(found)
        return b""

    def close(self, tally: Tally) -> bytes:
        """Return the body."""
        choices = [message.choice(index) for index, message in enumerate(self._messages)]
        thought = sum(message.reasoning_tokens for message in self._messages)
        return orjson.dumps({**self._header, "choices": choices, "usage": usage(tally, thought)})


class StreamedChatAnswer:
    """A chunk per choice and engine step, then ``[DONE]``.

    This runs for every token of every stream, beside the engine on the same cores: a chunk is
    rendered once per choice, and only the escaped text is spliced in.
    """

    streamed = True

    def __init__(
        self,
        header: Mapping[str, Any],
        prepared: PreparedConversation,
        token_bytes: TokenBytes,
        *,
        include_usage: bool,
        legacy_calls: bool = False,
    ) -> None:
        self.generation = prepared.generation
        self._header = header
        self._token_bytes = token_bytes
        self._include_usage = include_usage
        self._legacy_calls = legacy_calls
        choices = range(prepared.generation.n)
        self._readers = [prepared.new_reader() for _ in choices]
        # Where an answer is text alone, the deltas are as good as the events.
        self._plain = all(type(reader) is AnswerReader for reader in self._readers)
        self._frames = [self._frame(index, "content") for index in choices]
        self._thoughts = [self._frame(index, "reasoning_content") for index in choices]
        self._opened = [False for _ in choices]
        self._reasoning_tokens = 0

    def add(self, deltas: tuple[GenerationDelta, ...]) -> bytes:
        """Return the chunks for the deltas; none while a delta holds its text back."""
        sent: list[bytes] = []
        for delta in deltas:
            if self._plain:
                self._add_plain(delta, sent)
                continue
            for found in self._readers[delta.index].read(delta):
                self._add_event(delta.index, found, sent)
        return b"".join(sent)

    def close(self, tally: Tally) -> bytes:
        """Return the end of the stream."""
        if not self._include_usage:
            return DONE
        told = usage(tally, self._reasoning_tokens)
        return event(orjson.dumps({**self._header, "choices": [], "usage": told})) + DONE

    def _add_plain(self, delta: GenerationDelta, sent: list[bytes]) -> None:
        index = delta.index
        if not self._opened[index]:
            self._open(index, "", sent)
        if delta.logprobs:
            self._add_logprobs(index, TextDelta(delta.text, delta.logprobs), sent)
        elif delta.text:
            before, after = self._frames[index]
            sent += (before, orjson.dumps(delta.text), after)
        if delta.finish_reason is not None:
            sent.append(self._chunk(index, {}, delta.finish_reason.value))

    def _add_event(self, index: int, found: AnswerEvent, sent: list[bytes]) -> None:
        if not self._opened[index]:
            self._open(index, "" if isinstance(found, (TextDelta, Finished)) else None, sent)
        match found:
            case TextDelta():
                self._add_text(index, found, sent)
            case ReasoningDelta():
                before, after = self._thoughts[index]
                sent += (before, orjson.dumps(found.text), after)
            case ToolCallBegun():
                sent.append(self._chunk(index, self._begun(found), None))
            case ToolCallArguments():
                sent.append(self._chunk(index, self._arguments(found), None))
            case Finished():
                self._reasoning_tokens += found.reasoning_tokens
                sent.append(self._chunk(index, {}, self._reason(found)))

    def _open(self, index: int, content: str | None, sent: list[bytes]) -> None:
        self._opened[index] = True
        sent.append(self._chunk(index, {"role": "assistant", "content": content}, None))

    def _add_text(self, index: int, found: TextDelta, sent: list[bytes]) -> None:
        if found.logprobs:
            self._add_logprobs(index, found, sent)
        elif found.text:
            before, after = self._frames[index]
            sent += (before, orjson.dumps(found.text), after)

    def _add_logprobs(self, index: int, found: TextDelta, sent: list[bytes]) -> None:
        # With them, tokens are sent as they are drawn, also where their text is held back.
        entries = [token_logprobs(one, self._token_bytes) for one in found.logprobs]
        logprobs = choice_logprobs(entries)
        sent.append(self._chunk(index, {"content": found.text}, None, logprobs))

    def _begun(self, call: ToolCallBegun) -> dict[str, Any]:
        function = {"name": call.name, "arguments": ""}
        if self._legacy_calls:
            return {"function_call": function}
        begun = {"index": call.index, "id": call.id, "type": "function", "function": function}
        return {"tool_calls": [begun]}

    def _arguments(self, more: ToolCallArguments) -> dict[str, Any]:
        function = {"arguments": more.fragment}
        if self._legacy_calls:
            return {"function_call": function}
        return {"tool_calls": [{"index": more.index, "function": function}]}

    def _reason(self, found: Finished) -> str:
        is_legacy = self._legacy_calls and found.reason == "tool_calls"
        return "function_call" if is_legacy else found.reason

    def _chunk(
        self,
        index: int,
        delta: dict[str, Any],
        finish_reason: str | None,
        logprobs: dict[str, Any] | None = None,
    ) -> bytes:
        choice = {
            "index": index,
            "delta": delta,
            "logprobs": logprobs,
            "finish_reason": finish_reason,
        }
        chunk = {**self._header, "choices": [choice]}
        if self._include_usage:
            chunk["usage"] = None
        return event(orjson.dumps(chunk))

    def _frame(self, index: int, field: str) -> tuple[bytes, bytes]:
        # The mark's quotes cannot occur inside a JSON string, so it is found where it was put.
        name = f'"{field}":'.encode()
        before, mark, after = self._chunk(index, {field: ""}, None).partition(name + b'""')
        assert mark
        return before + name, after
