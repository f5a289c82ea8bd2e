"""What is known of one HTTP request while it is handled."""

from __future__ import annotations

import re
import time
import uuid
from contextvars import ContextVar
from dataclasses import dataclass, field

from starlette.types import Scope

from mrs.server.dialect import Dialect, dialect_of
from mrs.server.trace_context import trace_id_of

STATUS_CLIENT_GONE = 499
_STATE_KEY = "mrs_request"
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,128}")


@dataclass
class RequestContext:
    """One request, as the access log tells of it.

    Attributes:
        request_id: the client's ``x-request-id``, or one of ours.
        dialect: the API that it speaks.
        started: monotonic seconds.
        status: status of the response, None before it starts.
        prompt_tokens: length of the encoded prompt, if there was one.
        completion_tokens: tokens drawn so far, over all choices.
        principal: whose key the request came with, as a stable name; empty without a key.
        model: the model that answers it, once that is known.
        read_timeout: seconds that its body may take to arrive.
        log_payload: its body is to be logged.
        trace_id: of the trace that the client named; empty if it named none.
        disconnected: the client went away before the response was complete.
    """

    request_id: str
    dialect: Dialect = Dialect.OPENAI
    started: float = field(default_factory=time.perf_counter)
    status: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    principal: str = ""
    model: str = ""
    read_timeout: float | None = None
    log_payload: bool = False
    trace_id: str = ""
    disconnected: bool = False

    @property
    def elapsed(self) -> float:
        """Seconds since it began."""
        return time.perf_counter() - self.started

    @property
    def final_status(self) -> int:
        """What the response came to: its status, or 499 if the client left."""
        return STATUS_CLIENT_GONE if self.disconnected else self.status or 0


_CURRENT: ContextVar[RequestContext | None] = ContextVar("mrs_request", default=None)


def open_context(scope: Scope) -> RequestContext:
    """Make the context of a request; keep it in its scope and for its task."""
    context = RequestContext(_request_id(scope), dialect_of(scope))
    context.trace_id = trace_id_of(scope)
    scope.setdefault("state", {})[_STATE_KEY] = context
    _CURRENT.set(context)
    return context


def current_context() -> RequestContext | None:
    """The context of the request whose task, or a task of whose, this is; None elsewhere."""
    return _CURRENT.get()


def context_of(scope: Scope) -> RequestContext:
    """Return the context that `open_context` made."""
    context = scope["state"][_STATE_KEY]
    assert isinstance(context, RequestContext)
    return context


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        # What does not match could forge log lines or response headers: it is not echoed.
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return str(value, "ascii")
    return uuid.uuid4().hex
