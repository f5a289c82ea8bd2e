"""Whose trace a request is a part of: the header ``traceparent``.

https://www.w3.org/TR/trace-context/
"""

from __future__ import annotations

import re

from starlette.types import Scope

_TRACEPARENT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


def trace_id_of(scope: Scope) -> str:
    """The id of the trace that the client named, as 32 hex digits; empty if it named none."""
    found = [value for name, value in scope["headers"] if name == b"traceparent"]
    if len(found) != 1:
        return ""
    match = _TRACEPARENT.fullmatch(found[0].strip())
    if match is None:
        return ""
    version, trace, parent, _, more = match.groups()
    # Version ff is invalid, 00 has no more fields, and ids of zeros stand for none.
    if version == b"ff" or (version == b"00" and more):
        return ""
    if not (trace.strip(b"0") and parent.strip(b"0")):
        return ""
    return str(trace, "ascii")
