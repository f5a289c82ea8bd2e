"""What is known of one HTTP request while it is handled."""

from __future__ import annotations

import re
import time
import uuid
from dataclasses import dataclass, field

from starlette.types import Scope

from mrs.server.dialect import Dialect, dialect_of

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
        disconnected: the client went away before the response was complete.
    """

    request_id: str
    dialect: Dialect = Dialect.OPENAI
    started: float = field(default_factory=time.perf_counter)
    status: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    disconnected: bool = False


def open_context(scope: Scope) -> RequestContext:
    """Make the context of a request and keep it in its scope."""
    context = RequestContext(_request_id(scope), dialect_of(scope))
    scope.setdefault("state", {})[_STATE_KEY] = context
    return context


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
