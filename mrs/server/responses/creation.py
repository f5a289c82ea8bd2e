"""A response that is asked for: whole, streamed, or in the background."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager, AsyncExitStack
from dataclasses import dataclass
from functools import partial

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mrs.server.generation import GenerationContext, Tally, run_preparation
from mrs.server.interruption import Interruption, run_interruptible
from mrs.server.request_context import RequestContext, context_of
from mrs.server.responses.answer import Frames, ResponseAnswer
from mrs.server.responses.errors import ResponseStoreError
from mrs.server.responses.event_log import EventLog
from mrs.server.responses.json_bytes import to_json
from mrs.server.responses.preparation import PreparedResponse, Turn, prepare_response
from mrs.server.responses.replay import EventReplay
from mrs.server.responses.request import parse_responses_request
from mrs.server.responses.run import Keeping, ResponseRun, nowhere
from mrs.server.responses.runs import ResponseRuns, stopped
from mrs.server.responses.schemas import ResponsesRequest
from mrs.server.responses.store import ResponseStore
from mrs.server.responses.turns import find_turn
from mrs.server.served_model import ServedModel
from mrs.server.streaming import EventStream

# A stored item takes at least so many bytes in a body.
_ITEM_BYTES = 64


@dataclass(frozen=True)
class ResponsesContext:
    """What the endpoints need of the server.

    Attributes:
        server: models and lifecycle.
        store: responses that have ended, and in the background.
        runs: responses that have not ended.
        inline_body_bytes: see `ServerSettings`.
    """

    server: GenerationContext
    store: ResponseStore
    runs: ResponseRuns
    inline_body_bytes: int

    async def parse(self, body: bytes) -> ResponsesRequest:
        """Parse and check a body; see `parse_responses_request` and `GenerationContext.parse`."""
        in_thread = len(body) > self.inline_body_bytes
        return await self.server.parse(partial(parse_responses_request, body), in_thread)

    async def find_turn(self, request: ResponsesRequest, owner: str) -> Turn:
        """Fetch what a request refers to; see `find_turn`."""
        return await find_turn(request, self.store, self.runs, owner)

    async def prepare(self, turn: Turn, size: int, model: ServedModel) -> PreparedResponse:
        """Render and tokenize a turn whose body has so many bytes; see `prepare_response`."""
        size += len(turn.context) * _ITEM_BYTES
        in_thread = size > self.inline_body_bytes
        return await run_preparation(partial(prepare_response, turn, model), in_thread)


class ResponseCreation(Response):
    """Has a response generated and sends it, for as long as its client listens.

    In the background it is generated whether or not anybody listens. A client that leaves any other
    stream cancels it: what there is of it is kept, since the client knows its id.

    Args:
        context: the parts of the server.
        body: of the request.
    """

    def __init__(self, context: ResponsesContext, body: bytes) -> None:
        super().__init__()
        self._context = context
        self._request_body = body
        self._run: ResponseRun | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request whose body has been read."""
        server, context = self._context.server, context_of(scope)
        events = EventStream(send, server.keep_alive_interval)
        with server.lifecycle.request() as shutdown:
            work = self._work(scope, receive, send, events)
            interruption = await run_interruptible(work, receive, shutdown)
            if interruption is Interruption.DISCONNECT:
                context.disconnected = True
                if self._run is not None and events.started:
                    with self._known(self._run), contextlib.suppress(ResponseStoreError):
                        await self._run.cancel(nowhere)
            elif interruption is Interruption.SHUTDOWN:
                await self._fail(stopped(), events)

    async def _work(self, scope: Scope, receive: Receive, send: Send, events: EventStream) -> None:
        request = await self._context.parse(self._request_body)
        owner = owner_of(scope)
        turn = await self._context.find_turn(request, owner)
        async with AsyncExitStack() as held:
            lease = self._context.server.models.lease(request.model)
            model = await held.enter_async_context(lease)
            prepared = await self._context.prepare(turn, len(self._request_body), model)
            await model.engine.prepare(prepared.generation)
            run = self._submit(turn, prepared, model, owner, context_of(scope))
            if request.background:
                reply = await self._go_on_in_background(run, held.pop_all(), request)
                await reply(scope, receive, send)
                return
            try:
                if request.stream:
                    await self._stream(run, events)
                else:
                    await run.generate(nowhere)
                    await _resource_reply(run)(scope, receive, send)
            finally:
                context_of(scope).completion_tokens = run.tally.completion_tokens

    def _submit(
        self,
        turn: Turn,
        prepared: PreparedResponse,
        model: ServedModel,
        owner: str,
        context: RequestContext,
    ) -> ResponseRun:
        request = turn.request
        generation = prepared.generation
        tally = Tally(len(generation.prompt_ids), 1)
        context.prompt_tokens = tally.prompt_tokens
        answer = ResponseAnswer(prepared.resource, prepared.form, tally)
        keeping = Keeping(self._context.store, owner, turn.context, prepared.inputs)
        return ResponseRun(
            answer,
            model.engine.submit(generation),
            tally,
            keeping if request.keeps else None,
            context.request_id,
            EventLog() if request.keeps and (request.stream or request.background) else None,
        )

    async def _go_on_in_background(
        self, run: ResponseRun, held: AsyncExitStack, request: ResponsesRequest
    ) -> Response:
        try:
            await run.keep(running=True)
        except BaseException:
            run.stream.cancel()
            # The client may have left while it was stored; nobody knows its id.
            self._context.store.delete_soon(run.answer.id, run.owner)
            await held.aclose()
            raise
        reply = _resource_reply(run)
        self._context.runs.start(run, held)
        if not request.stream:
            return reply
        assert run.log is not None
        return EventReplay(run.log, self._context.server.keep_alive_interval)

    async def _stream(self, run: ResponseRun, events: EventStream) -> None:
        async def publish(frames: Frames) -> None:
            if frames:
                await events.send(b"".join(frames))

        self._run = run
        with self._known(run):
            async with events:
                try:
                    await run.generate(publish)
                except Exception as error:
                    await self._fail(error, events)
                await events.finish(b"")

    def _known(self, run: ResponseRun) -> AbstractContextManager[None]:
        """Let others look at a response that is to be stored."""
        if run.keeping is None:
            return contextlib.nullcontext()
        return self._context.runs.attended(run)

    async def _fail(self, error: Exception, events: EventStream) -> None:
        """End with an error: as a whole response if it can still be one."""
        if self._run is None or not events.started:
            raise error

        async def publish(frames: Frames) -> None:
            await events.send(b"".join(frames))

        with contextlib.suppress(ResponseStoreError):
            await self._run.fail(error, publish)
        await events.finish(b"")


def owner_of(scope: Scope) -> str:
    """Whose responses a request may see; empty where there is no authentication."""
    return str(getattr(context_of(scope), "principal", None) or "")


def _resource_reply(run: ResponseRun) -> Response:
    return Response(to_json(run.resource), media_type="application/json")
