"""One streamed completion, and when its tokens came."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import orjson

from mrs.load_test.http_stream import ServerAddress, ServerReplyError, request


class Endpoint(StrEnum):
    """What is asked."""

    CHAT = "chat"
    COMPLETIONS = "completions"

    @property
    def path(self) -> str:
        """Of the URL."""
        return "/v1/chat/completions" if self is Endpoint.CHAT else "/v1/completions"


@dataclass(frozen=True)
class Target:
    """Whom to ask, and for what.

    Attributes:
        address: of the server.
        model: its name there.
        endpoint: which API.
        max_tokens: of each answer. Servers that know ``ignore_eos`` generate exactly so many.
        api_key: sent as a bearer token.
    """

    address: ServerAddress
    model: str
    endpoint: Endpoint
    max_tokens: int
    api_key: str = ""


@dataclass
class Outcome:
    """What became of one request. Times are monotonic seconds.

    Attributes:
        asked: when it was sent.
        arrivals: when each event with text came, and how many there were at that moment.
        tokens: of the answer, as the server counts them; its events, where it does not tell.
        prompt_tokens: the same of the prompt; 0 where it does not tell.
        error: why there is no whole answer; empty for a whole one.
    """

    asked: float
    arrivals: list[float] = field(default_factory=list)
    tokens: int = 0
    prompt_tokens: int = 0
    error: str = ""

    @property
    def ok(self) -> bool:
        """A whole answer came."""
        return not self.error and bool(self.arrivals)

    @property
    def time_to_first_token(self) -> float:
        """Seconds until the first text."""
        return self.arrivals[0] - self.asked

    @property
    def latency(self) -> float:
        """Seconds until the last text."""
        return self.arrivals[-1] - self.asked

    @property
    def time_per_output_token(self) -> float:
        """Mean seconds between tokens; 0 where there is one."""
        span = self.arrivals[-1] - self.arrivals[0]
        return span / (self.tokens - 1) if self.tokens > 1 else 0.0

    @property
    def gaps(self) -> Iterator[float]:
        """Seconds between one event and the next."""
        return (
            later - earlier
            for earlier, later in zip(self.arrivals, self.arrivals[1:], strict=False)
        )


async def complete(target: Target, prompt: str) -> Outcome:
    """Ask for one streamed answer; whatever goes wrong is told in the outcome."""
    headers = {"Authorization": f"Bearer {target.api_key}"} if target.api_key else {}
    body = orjson.dumps(_request_body(target, prompt))
    outcome = Outcome(time.perf_counter())
    pieces = request(target.address, "POST", target.endpoint.path, body, headers)
    try:
        async with aclosing(event_data(pieces)) as events:
            async for data in events:
                _take(outcome, data)
    except (ServerReplyError, OSError) as error:
        outcome.error = str(error) or type(error).__name__
    if not outcome.error and not outcome.arrivals:
        outcome.error = "the server sent no text"
    outcome.tokens = outcome.tokens or len(outcome.arrivals)
    return outcome


def _request_body(target: Target, prompt: str) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": target.model,
        "max_tokens": target.max_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if target.endpoint is Endpoint.CHAT:
        return {**body, "messages": [{"role": "user", "content": prompt}]}
    return {**body, "prompt": prompt}


async def event_data(pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """The data of server-sent events; comments and other fields are passed over."""
    rest = b""
    async for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield line[5:].strip()


def _take(outcome: Outcome, data: bytes) -> None:
    if data == b"[DONE]":
        return
    try:
        event = orjson.loads(data)
    except orjson.JSONDecodeError:
        outcome.error = f"the server sent an event that is not JSON: {data[:100]!r}"
        return
    if error := event.get("error"):
        said = error.get("message") if isinstance(error, dict) else error
        outcome.error = f"the server failed in the middle: {said}"
    if any(_has_text(choice) for choice in event.get("choices") or ()):
        outcome.arrivals.append(time.perf_counter())
    if usage := event.get("usage"):
        outcome.tokens = usage.get("completion_tokens") or 0
        outcome.prompt_tokens = usage.get("prompt_tokens") or 0


def _has_text(choice: dict[str, Any]) -> bool:
    delta = choice.get("delta") or {}
    return bool(choice.get("text") or delta.get("content") or delta.get("reasoning_content"))
