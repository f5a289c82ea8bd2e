"""Answers to a chat completion request: whole, or as a stream of chunks."""

from __future__ import annotations

import time
import uuid
from typing import Any

import orjson

from mrs.runtime.generation import GenerationDelta, GenerationRequest
from mrs.server.generation import Answer, Tally
from mrs.server.openai.logprobs import TokenBytes, choice_logprobs, token_logprobs
from mrs.server.openai.schemas import ChatCompletionRequest
from mrs.server.openai.usage import usage
from mrs.server.served_model import ServedModel
from mrs.server.streaming import event

DONE = event(b"[DONE]")


def chat_answer(
    request: ChatCompletionRequest, generation: GenerationRequest, model: ServedModel
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
    if not request.stream:
        return WholeChatAnswer(header, generation, model.token_bytes)
    options = request.stream_options
    include_usage = bool(options and options.include_usage)
    return StreamedChatAnswer(header, generation, model.token_bytes, include_usage=include_usage)


class WholeChatAnswer:
    """One JSON object, sent when every choice has ended."""

    streamed = False

    def __init__(
        self, header: dict[str, Any], generation: GenerationRequest, token_bytes: TokenBytes
    ) -> None:
        self.generation = generation
        self._header = header
        self._token_bytes = token_bytes
        wanted = generation.sampling.logprobs is not None
        self._logprobs: list[list[dict[str, Any]] | None] = [
            [] if wanted else None for _ in range(generation.n)
        ]
        self._texts: list[list[str]] = [[] for _ in range(generation.n)]
        self._finish_reasons: list[str | None] = [None] * generation.n

    def add(self, deltas: tuple[GenerationDelta, ...]) -> bytes:
        """Keep the text of the deltas."""
        for delta in deltas:
            self._texts[delta.index].append(delta.text)
            logprobs = self._logprobs[delta.index]
            if logprobs is not None:
                logprobs += (token_logprobs(found, self._token_bytes) for found in delta.logprobs)
            if delta.finish_reason is not None:
                self._finish_reasons[delta.index] = delta.finish_reason.value
        return b""

    def close(self, tally: Tally) -> bytes:
        """Return the body."""
        choices = [self._choice(index) for index in range(self.generation.n)]
        return orjson.dumps({**self._header, "choices": choices, "usage": usage(tally)})

    def _choice(self, index: int) -> dict[str, Any]:
        content = "".join(self._texts[index])
        logprobs = self._logprobs[index]
        return {
            "index": index,
            "message": {"role": "assistant", "content": content, "refusal": None},
            "logprobs": None if logprobs is None else choice_logprobs(logprobs),
            "finish_reason": self._finish_reasons[index],
        }


class StreamedChatAnswer:
    """A chunk per choice and engine step, then ``[DONE]``.

    This runs for every token of every stream, beside the engine on the same cores: a chunk is
    rendered once per choice, and only the escaped text is spliced in.
    """

    streamed = True

    def __init__(
        self,
        header: dict[str, Any],
        generation: GenerationRequest,
        token_bytes: TokenBytes,
        *,
        include_usage: bool,
    ) -> None:
        self.generation = generation
        self._header = header
        self._token_bytes = token_bytes
        self._include_usage = include_usage
        self._frames = [self._frame(index) for index in range(generation.n)]
        self._opened = [False] * generation.n

    def add(self, deltas: tuple[GenerationDelta, ...]) -> bytes:
        """Return the chunks for the deltas; none while a delta holds its text back."""
        events = []
        for delta in deltas:
            index = delta.index
            before, after = self._frames[index]
            if not self._opened[index]:
                self._opened[index] = True
                events.append(self._chunk(index, {"role": "assistant", "content": ""}, None))
            if delta.logprobs:
                # With them, tokens are sent as they are drawn, also where their text is held back.
                entries = [token_logprobs(found, self._token_bytes) for found in delta.logprobs]
                content = {"content": delta.text}
                events.append(self._chunk(index, content, None, choice_logprobs(entries)))
            elif delta.text:
                events += (before, orjson.dumps(delta.text), after)
            if delta.finish_reason is not None:
                events.append(self._chunk(index, {}, delta.finish_reason.value))
        return b"".join(events)

    def close(self, tally: Tally) -> bytes:
        """Return the end of the stream."""
        if not self._include_usage:
            return DONE
        last = {**self._header, "choices": [], "usage": usage(tally)}
        return event(orjson.dumps(last)) + DONE

    def _chunk(
        self,
        index: int,
        delta: dict[str, str],
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

    def _frame(self, index: int) -> tuple[bytes, bytes]:
        # The mark's quotes cannot occur inside a JSON string, so it is found where it was put.
        before, mark, after = self._chunk(index, {"content": ""}, None).partition(b'"content":""')
        assert mark
        return before + b'"content":', after
