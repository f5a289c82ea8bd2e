"""An engine without a model: tests play the engine's part, or let it repeat a script."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from mrs.errors import ShuttingDownError
from mrs.runtime.generation import (
    EngineStats,
    FinishReason,
    GenerationDelta,
    GenerationRequest,
)
from mrs.server.served_model import ServedModel

TIMEOUT = 10.0
PIECES = {7: b"x", 8: b"\xe2\x82", 9: b"\xac"}
"""Bytes of some tokens."""
Deltas = tuple[GenerationDelta, ...]


def token(text: str, index: int = 0, finish: FinishReason | None = None) -> GenerationDelta:
    """A delta of one drawn token."""
    return GenerationDelta(index, text, (7,), finish)


def end(index: int = 0, finish: FinishReason = FinishReason.STOP) -> GenerationDelta:
    """A delta that draws the end-of-sequence token."""
    return GenerationDelta(index, "", (0,), finish)


def failure(error: Exception | None = None, index: int = 0) -> GenerationDelta:
    return GenerationDelta(index, "", (), FinishReason.ERROR, error)


class FakeStream:
    """A stream that a test feeds from its own thread."""

    def __init__(self, request: GenerationRequest, *, obeys_cancel: bool = True) -> None:
        self.request = request
        self.cancelled = threading.Event()
        self._obeys_cancel = obeys_cancel
        self._loop = asyncio.get_running_loop()
        self._pending: deque[Deltas] = deque()
        self._news = asyncio.Event()
        self._ended = False
        self._error: Exception | None = None

    def push(self, *deltas: GenerationDelta) -> None:
        """Make one engine step available."""
        self._loop.call_soon_threadsafe(self._push, deltas)

    def finish(self) -> None:
        """End the iteration."""
        self._loop.call_soon_threadsafe(self._finish, None)

    def crash(self, error: Exception) -> None:
        """Let the iteration raise."""
        self._loop.call_soon_threadsafe(self._finish, error)

    def cancel(self) -> None:
        self.cancelled.set()
        if self._obeys_cancel:
            self._loop.call_soon_threadsafe(self._finish, None)

    def _push(self, deltas: Deltas) -> None:
        self._pending.append(deltas)
        self._news.set()

    def _finish(self, error: Exception | None) -> None:
        self._ended = True
        self._error = error
        self._news.set()

    async def __aiter__(self) -> AsyncIterator[Deltas]:
        while True:
            while self._pending:
                yield self._take_all()
            if self._error is not None:
                raise self._error
            if self._ended:
                return
            self._news.clear()
            await self._news.wait()

    def _take_all(self) -> Deltas:
        available = tuple(delta for deltas in self._pending for delta in deltas)
        self._pending.clear()
        return available


Script = Callable[[GenerationRequest], Sequence[Deltas]]


class FakeEngine:
    """Hands each submitted stream to the test, or feeds it from ``script``."""

    def __init__(self, script: Script | None = None) -> None:
        self.reset(script)

    def reset(self, script: Script | None = None) -> None:
        """Forget everything that happened."""
        self.script = script
        self.ready = True
        self.alive = True
        self.stalled = False
        self.drained = threading.Event()
        self.refusal: Exception | None = None
        self.obeys_cancel = True
        self.requests: list[GenerationRequest] = []
        self._streams: queue.Queue[FakeStream] = queue.Queue()

    def stats(self) -> EngineStats:
        return EngineStats(1, 2, 16, 4096, 30, 40)

    async def prepare(self, request: GenerationRequest) -> None:
        pass

    def submit(self, request: GenerationRequest) -> FakeStream:
        if self.refusal is not None:
            raise self.refusal
        if self.drained.is_set():
            raise ShuttingDownError("The server is shutting down.")
        stream = FakeStream(request, obeys_cancel=self.obeys_cancel)
        self.requests.append(request)
        if self.script is not None:
            for deltas in self.script(request):
                stream._push(deltas)
            stream._finish(None)
        self._streams.put(stream)
        return stream

    def drain(self) -> None:
        self.drained.set()

    def next_stream(self) -> FakeStream:
        """The next request that the engine was asked for; waits for it."""
        return self._streams.get(timeout=TIMEOUT)


class FakeEncoder:
    """One token id per character; what the test sets as ``error`` is raised."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.conversations: list[Sequence[Mapping[str, Any]]] = []
        self.variables: list[Mapping[str, Any]] = []
        self.threads: list[int] = []

    def encode_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        continue_final: bool = False,
        **variables: Any,
    ) -> tuple[int, ...]:
        self.conversations.append(messages)
        self.variables.append({**variables, "continue_final": continue_final})
        self.threads.append(threading.get_ident())
        if self.error is not None:
            raise self.error
        return tuple(ord(char) for message in messages for char in message["content"])

    begin: tuple[int, ...] = ()

    def encode_text(
        self, text: str, *, parse_special: bool = False, add_bos: bool = True
    ) -> tuple[int, ...]:
        self.threads.append(threading.get_ident())
        if parse_special:
            text = text.replace("<eos>", "\0")
        return (self.begin if add_bos else ()) + tuple(map(ord, text))

    def encode_infill(self, prefix: str, suffix: str) -> tuple[int, ...]:
        return (1, *map(ord, prefix), 2, *map(ord, suffix), 3)


class FakeTokenizer:
    """One token id per character."""

    special_tokens: Mapping[str, int] = {}

    def encode(self, text: str, *, add_bos: bool = False, parse_special: bool = True) -> list[int]:
        return [ord(char) for char in text]

    def decode(self, ids: Sequence[int], skip_special: bool = False) -> str:
        return "".join(map(chr, ids))


def say(*texts: str) -> Script:
    """A script that says the same in every choice: one token a text, then end of sequence."""

    def script(request: GenerationRequest) -> Sequence[Deltas]:
        steps = [tuple(token(text, index) for index in range(request.n)) for text in texts]
        return [*steps, tuple(end(index) for index in range(request.n))]

    return script


def served(
    engine: FakeEngine, encoder: FakeEncoder | None = None, chat_template: str | None = None
) -> ServedModel:
    return ServedModel(
        name="tiny/fake",
        created=1_700_000_000,
        max_model_len=128,
        vocab_size=1000,
        prompts=encoder or FakeEncoder(),
        engine=engine,
        token_bytes=lambda token: PIECES.get(token, b""),
        tokenizer=FakeTokenizer(),
        chat_template=chat_template,
    )
