"""A pytest plugin for suites that fetch responses by ids which only their mock server knows.

It stores a response under each of these ids before each test, in the file of a running server. How
to use it: docs/conformance.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mrs.server.responses.database import ResponseDatabase, ResponseRecord
from mrs.server.responses.event_writer import EventWriter

IDS = (
    "resp_677efb5139a88190b512bc3fef8e535d",
    "response_id",
    "previous_response_id",
    "resp_123",
)


@pytest.fixture(scope="session")
def _database() -> Iterator[ResponseDatabase]:
    database = ResponseDatabase(Path(os.environ["MRS_RESPONSES_DB"]))
    yield database
    database.close()


@pytest.fixture(autouse=True)
def _stored_responses(_database: ResponseDatabase) -> None:
    for response_id in IDS:
        resource = _resource(response_id)
        writer = EventWriter()
        kinds = ("response.created", "response.in_progress", "response.completed")
        events = [writer.event(kind, response=resource) for kind in kinds]
        question: dict[str, Any] = {
            "type": "message",
            "id": f"msg_in_{response_id}",
            "status": "completed",
            "role": "user",
            "content": [{"type": "input_text", "text": "Hi"}],
        }
        _database.put(ResponseRecord(resource, inputs=[question], events=events))


def _resource(response_id: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}
    message = {
        "type": "message",
        "id": f"msg_{response_id}",
        "status": "completed",
        "role": "assistant",
        "content": [part],
    }
    return {
        "id": response_id,
        "object": "response",
        "created_at": 1_700_000_000,
        "completed_at": 1_700_000_001,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": "default",
        "output": [message],
        "usage": None,
        "instructions": None,
        # Others cannot be cancelled.
        "background": True,
        "metadata": {},
        "tools": [],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "top_p": 1.0,
    }
