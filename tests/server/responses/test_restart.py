"""Stored responses outlive the process, also one that is killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.server.fake_engine import TIMEOUT
from tests.server.responses.events import parse_events


@contextmanager
def serving(path: Path) -> Iterator[httpx.Client]:
    """A server, killed at the end without a warning."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.server.responses.serve_stored", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        with httpx.Client(base_url=f"http://127.0.0.1:{port}/v1", timeout=TIMEOUT) as client:
            yield client
    finally:
        process.kill()
        process.communicate()


def create(client: httpx.Client, said: str, **fields: Any) -> httpx.Response:
    reply = client.post("/responses", json={"input": said, **fields})
    assert reply.status_code == 200, reply.text
    return reply


def test_what_was_stored_survives_a_kill_and_what_ran_has_failed(tmp_path: Path) -> None:
    path = tmp_path / "responses.db"
    with serving(path) as client:
        whole = create(client, "One").json()
        events = parse_events(create(client, "Two", stream=True).content)
        next_turn = create(client, "Three", previous_response_id=whole["id"]).json()
        running = create(client, "for ever", background=True).json()
        while client.get(f"/responses/{running['id']}").json()["status"] == "queued":
            pass
    with serving(path) as client:
        assert client.get(f"/responses/{whole['id']}").json() == whole
        streamed = events[-1]["response"]
        assert client.get(f"/responses/{streamed['id']}").json() == streamed
        replayed = client.get(f"/responses/{streamed['id']}", params={"stream": "true"})
        assert parse_events(replayed.content) == events
        items = client.get(f"/responses/{next_turn['id']}/input_items").json()["data"]
        assert [item["content"][0]["text"] for item in items] == ["Three", "Hello", "One"]
        create(client, "Four", previous_response_id=next_turn["id"])
        failed = client.get(f"/responses/{running['id']}").json()
        assert failed["status"] == "failed"
        assert failed["error"]["message"] == (
            "The server stopped before the response was complete."
        )
        assert client.post(f"/responses/{running['id']}/cancel").json() == failed


def test_two_servers_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "responses.db"
    with serving(path) as one:
        running = create(one, "for ever", background=True).json()["id"]
        with serving(path) as other:
            stored = create(other, "One").json()
            assert one.get(f"/responses/{stored['id']}").json() == stored
            assert other.get(f"/responses/{running}").json()["status"] == "queued"
            assert other.post(f"/responses/{running}/cancel").status_code == 409
            assert one.post(f"/responses/{running}/cancel").json()["status"] == "cancelled"
            assert other.get(f"/responses/{running}").json()["status"] == "cancelled"
