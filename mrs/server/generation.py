"""A response that is being generated: what every dialect's generating endpoint has in common."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, Protocol, TypeVar

import anyio
import anyio.to_thread
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mrs.errors import ShuttingDownError
from mrs.runtime.generation import (
    FinishReason,
    GenerationDelta,
    GenerationEngine,
    GenerationRequest,
    GenerationStream,
)
from mrs.server.answer_times import AnswerTimes
from mrs.server.errors import GenerationFailedError, reply_to
from mrs.server.generation_batch import GenerationBatch
from mrs.server.interruption import Interruption, run_interruptible
from mrs.server.lifecycle import Lifecycle
from mrs.server.model_catalog import ModelCatalog
from mrs.server.request_context import RequestContext, context_of
from mrs.server.request_limits import check_limits
from mrs.server.served_model import ServedModel
from mrs.server.settings import RequestLimits
from mrs.server.streaming import EventStream, error_event, keep_alive_event

logger = logging.getLogger(__name__)
Result = TypeVar("Result")

# Rendering and tokenizing are bound by the CPU, which the engine needs as well.
_PREPARING_THREADS = anyio.CapacityLimiter(2)


async def run_preparation(function: Callable[[], Result], in_thread: bool) -> Result:
    """Call what parses, renders or tokenizes; in a thread if it could stall other streams."""
    if not in_thread:
        return function()
    return await anyio.to_thread.run_sync(
        function, abandon_on_cancel=True, limiter=_PREPARING_THREADS
    )


class Tally:
    """Counts tokens and ended choices, and notices failures.

    ``completion_tokens`` counts every token that was drawn, the end-of-sequence token and those
    of a stop string included: it is what was computed, streamed or not. ``cached_tokens`` are
    those of the prompt that were not; ``dropped_tokens`` those that a prompt lost because it was
    too long. ``times`` begins with this object.
    """

    def __init__(self, prompt_tokens: int, choices: int) -> None:
        self.times = AnswerTimes()
        self._sent_tokens = prompt_tokens
        self.completion_tokens = 0
        self.cached_tokens = 0
        self.dropped_tokens = 0
        self._open_choices = choices

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt as the model sees it."""
        return self._sent_tokens - self.dropped_tokens

    def count(self, deltas: tuple[GenerationDelta, ...]) -> None:
        """Take note of deltas.

        Raises:
            GenerationFailedError: a choice ended without being complete.
        """
        self.times.arrived(sum(len(delta.token_ids) for delta in deltas))
        for delta in deltas:
            self.completion_tokens += len(delta.token_ids)
            self.cached_tokens = max(self.cached_tokens, delta.cached_tokens)
            self.dropped_tokens = max(self.dropped_tokens, delta.dropped_tokens)
            if delta.finish_reason is not None:
                self._open_choices -= 1
                _require_success(delta)

    def require_complete(self) -> None:
        """Check that all choices have ended.

        Raises:
            GenerationFailedError: one has not.
        """
        if self._open_choices:
            raise GenerationFailedError(f"{self._open_choices} choices were left unfinished.")


class BatchTally(Tally):
    """The same for several requests: each has cached and dropped tokens of its own."""

    def __init__(self, requests: Sequence[GenerationRequest]) -> None:
        super().__init__(
            sum(len(request.prompt_ids) for request in requests),
            sum(request.n for request in requests),
        )
        self._request_of = [i for i, request in enumerate(requests) for _ in range(request.n)]
        self._cached = [0] * len(requests)
        self._dropped = [0] * len(requests)

    def count(self, deltas: tuple[GenerationDelta, ...]) -> None:
        """Take note of deltas; see `Tally.count`."""
        for delta in deltas:
            request = self._request_of[delta.index]
            self._cached[request] = max(self._cached[request], delta.cached_tokens)
            self._dropped[request] = max(self._dropped[request], delta.dropped_tokens)
        super().count(deltas)
        self.cached_tokens = sum(self._cached)
        self.dropped_tokens = sum(self._dropped)


class Answer(Protocol):
    """One dialect's form of one answer."""

    @property
    def generation(self) -> GenerationRequest | tuple[GenerationRequest, ...]:
        """What to ask of the engine; the choices of several requests are counted through."""

    @property
    def streamed(self) -> bool:
        """Whether the client wants events."""

    def add(self, deltas: tuple[GenerationDelta, ...]) -> bytes:
        """Take deltas; return the events for them, or nothing."""

    def close(self, tally: Tally) -> bytes:
        """Return the last events of a streamed answer, or the body of a whole one."""


@dataclass(frozen=True)
class GenerationContext:
    """What generating needs of the server."""

    models: ModelCatalog
    lifecycle: Lifecycle
    keep_alive_interval: float
    limits: RequestLimits = field(default_factory=RequestLimits)

    async def parse(self, parse: Callable[[], Result], in_thread: bool) -> Result:
        """Parse a body and check what it makes against the server's limits; see `run_preparation`.

        Raises:
            RequestError: whatever ``parse`` raises, or the request holds too many of something.
        """
        request = await run_preparation(parse, in_thread)
        check_limits(request, self.limits)
        return request


class ModelRequest(Protocol):
    """A parsed request body."""

    @property
    def model(self) -> str | None:
        """The model it is for."""


Parsed = TypeVar("Parsed", bound=ModelRequest)


class GenerationResponse(Response, Generic[Parsed]):
    """Prepares an answer, has it generated, and sends it, for as long as its client listens.

    Args:
        server: the parts of the server.
        parse: makes a request of the body; may raise anything of the error tree.
        prepare: renders and tokenizes it for the model that it means; the same.
        in_thread: whether these may take long enough to stall other streams.
    """

    def __init__(
        self,
        server: GenerationContext,
        parse: Callable[[], Parsed],
        prepare: Callable[[Parsed, ServedModel], Answer],
        *,
        in_thread: bool,
    ) -> None:
        super().__init__()
        self._server = server
        self._parse = parse
        self._prepare = prepare
        self._in_thread = in_thread

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request whose body has been read."""
        context = context_of(scope)
        keep_alive = keep_alive_event(context.dialect)
        events = EventStream(send, self._server.keep_alive_interval, keep_alive)
        with self._server.lifecycle.request() as shutdown:
            work = self._work(scope, receive, send, events)
            interruption = await run_interruptible(work, receive, shutdown)
            if interruption is Interruption.DISCONNECT:
                context.disconnected = True
            elif interruption is Interruption.SHUTDOWN:
                await _fail(events, context, _stopped())

    async def _work(self, scope: Scope, receive: Receive, send: Send, events: EventStream) -> None:
        request = await self._server.parse(self._parse, self._in_thread)
        async with self._server.models.lease(request.model) as model:
            prepare = partial(self._prepare, request, model)
            answer = await run_preparation(prepare, self._in_thread)
            await _prepare_engine(model.engine, answer.generation)
            stream, tally = _submit(model.engine, answer.generation)
            await self._send(stream, tally, answer, events, scope, receive, send)

    async def _send(
        self,
        stream: GenerationStream,
        tally: Tally,
        answer: Answer,
        events: EventStream,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        context = context_of(scope)
        context.prompt_tokens = tally.prompt_tokens
        try:
            if answer.streamed:
                await _stream(stream, answer, tally, events, context)
            else:
                body = await _collect(stream, answer, tally)
                await Response(body, media_type="application/json")(scope, receive, send)
        except BaseException:
            stream.cancel()
            raise
        finally:
            context.completion_tokens = tally.completion_tokens


async def _prepare_engine(
    engine: GenerationEngine, asked: GenerationRequest | tuple[GenerationRequest, ...]
) -> None:
    # Those of a batch have the same grammar.
    await engine.prepare(asked if isinstance(asked, GenerationRequest) else asked[0])


def _submit(
    engine: GenerationEngine, asked: GenerationRequest | tuple[GenerationRequest, ...]
) -> tuple[GenerationStream, Tally]:
    if isinstance(asked, GenerationRequest):
        return engine.submit(asked), Tally(len(asked.prompt_ids), asked.n)
    return GenerationBatch(engine, asked), BatchTally(asked)


async def _collect(stream: GenerationStream, answer: Answer, tally: Tally) -> bytes:
    async for deltas in stream:
        tally.count(deltas)
        answer.add(deltas)
    tally.require_complete()
    return answer.close(tally)


async def _stream(
    stream: GenerationStream,
    answer: Answer,
    tally: Tally,
    events: EventStream,
    context: RequestContext,
) -> None:
    async with events:
        try:
            async for deltas in stream:
                tally.count(deltas)
                if frames := answer.add(deltas):
                    await events.send(frames)
            tally.require_complete()
            await events.finish(answer.close(tally))
        except Exception as error:
            stream.cancel()
            await _fail(events, context, error)


async def _fail(events: EventStream, context: RequestContext, error: Exception) -> None:
    """End a response with an error: as a whole response if it can still be one.

    Without the dialect's end mark (``[DONE]``), so that no client takes the text for complete.
    """
    if not events.started:
        raise error
    await events.finish(error_event(reply_to(error, context.request_id, context.dialect)))


def _require_success(delta: GenerationDelta) -> None:
    if delta.finish_reason is FinishReason.ERROR:
        raise GenerationFailedError("The engine could not go on.") from delta.error
    if delta.finish_reason is FinishReason.CANCELLED:
        raise _stopped()


def _stopped() -> ShuttingDownError:
    return ShuttingDownError("The server stopped before the answer was complete.")
