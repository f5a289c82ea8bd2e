from __future__ import annotations

import pytest

from mrs.server.trace_context import trace_id_of

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"


def found(*values: str) -> str:
    return trace_id_of({"headers": [(b"traceparent", value.encode()) for value in values]})


@pytest.mark.parametrize(
    "value", [f"00-{TRACE}-{PARENT}-01", f"cc-{TRACE}-{PARENT}-00-what-the-future-will-be"]
)
def test_a_trace_is_found(value: str) -> None:
    assert found(value) == TRACE


# Those of the specification, section "Relationship between the headers" and its test suite.
@pytest.mark.parametrize(
    "value",
    [
        "",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{PARENT}-01",
        f"00-{TRACE[:-1]}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01-more",
        f"00-{TRACE}-{PARENT}-0",
        f"00-{TRACE}-{PARENT}",
        "x" * 10_000,
    ],
)
def test_a_malformed_header_counts_for_nothing(value: str) -> None:
    assert found(value) == ""


def test_two_headers_count_for_nothing() -> None:
    assert found(f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-01") == ""
