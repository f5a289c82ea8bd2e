"""Clients that do not read, and more of them than there is room for, with a tiny model."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx
import pytest

from mrs.export.pipeline import ExportRequest, export_model
from mrs.export.progress import SilentProgress
from mrs.model_repo.repository import ModelRepository
from tests.e2e.server_process import ServerProcess
from tests.export.gguf_files import LlamaSize, write_llama

SLOTS, QUEUE, CLIENTS = 4, 64, 200


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A random llama of two layers with little room."""
    folder = tmp_path_factory.mktemp("chaos")
    path = write_llama(folder / "tiny.gguf", size=LlamaSize(context=1024))
    request = ExportRequest(str(path), quant="fp32")
    version = export_model(request, ModelRepository(folder / "repo"), SilentProgress()).version
    options = ("--max-seqs", str(SLOTS), "--max-waiting", str(QUEUE), "--log-level", "warning")
    server = ServerProcess.start(version.path, folder / "log", *options)
    yield server
    assert server.stop() == 0
    assert "Traceback" not in (folder / "log").read_text()


def body(tokens: int, **fields: object) -> dict[str, object]:
    """A request for an answer of so many tokens."""
    messages = [{"role": "user", "content": "hello"}]
    return {"messages": messages, "max_tokens": tokens, "ignore_eos": True, **fields}


def assert_idle(server: ServerProcess) -> None:
    """An answer is out a moment before its slot is free."""
    for _ in range(10_000):
        health = server.health()
        if not health["running"] and not health["waiting"]:
            return
    raise AssertionError(f"still busy: {health}")


def test_a_client_that_does_not_read_delays_nobody(server: ServerProcess) -> None:
    """Its answer, of some megabytes, fills all buffers on the way while others come and go."""
    payload = json.dumps(
        body(600, stream=True, n=SLOTS - 1, logprobs=True, top_logprobs=20)
    ).encode()
    address = urlsplit(server.url)
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.settimeout(60)
    with slow, httpx.Client(base_url=server.url, timeout=60) as client:
        slow.connect((address.hostname, address.port))
        head = (
            "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(payload)}\r\n\r\n"
        )
        slow.sendall(head.encode() + payload)
        received = slow.recv(1)
        for _ in range(20):
            answer = client.post("/v1/chat/completions", json=body(20)).raise_for_status().json()
            assert answer["usage"]["completion_tokens"] == 20
            received += slow.recv(1)
        assert_idle(server)  # All of it was generated, though hardly any of it was read.
        while piece := slow.recv(1 << 16):
            received += piece
    assert received.startswith(b"HTTP/1.1 200 OK")
    assert len(received) > 2_000_000
    assert b"data: [DONE]" in received[-100:]
    assert received.count(b'"finish_reason":"length"') == SLOTS - 1


async def _ask_at_once(url: str) -> list[httpx.Response]:
    limits = httpx.Limits(max_connections=CLIENTS)
    async with httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as client:
        asked = (client.post("/v1/chat/completions", json=body(60)) for _ in range(CLIENTS))
        return await asyncio.gather(*asked)


def test_of_more_requests_than_there_is_room_for_the_rest_finish(server: ServerProcess) -> None:
    answers = asyncio.run(_ask_at_once(server.url))
    counts = Counter(answer.status_code for answer in answers)
    assert set(counts) == {200, 429}
    # Those who came late found room that others had left.
    assert SLOTS + QUEUE <= counts[200] < CLIENTS
    for answer in answers:
        if answer.status_code == 200:
            assert answer.json()["usage"]["completion_tokens"] == 60
        else:
            assert int(answer.headers["retry-after"]) >= 1
    assert_idle(server)


async def _refusals_of_a_full_server(url: str) -> list[float]:
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        choices = (16, 16, 16, 16, SLOTS + QUEUE - 64)
        filling = [
            asyncio.create_task(client.post("/v1/chat/completions", json=body(900, n=count)))
            for count in choices
        ]
        while (await client.get("/health")).json()["waiting"] < QUEUE:
            assert not any(task.done() for task in filling)
        took = []
        for _ in range(10):
            began = time.perf_counter()
            answer = await client.post("/v1/chat/completions", json=body(60))
            took.append(time.perf_counter() - began)
            assert answer.status_code == 429
        for task in filling:
            task.cancel()
        await asyncio.wait(filling)
        return took


def test_a_full_server_refuses_in_milliseconds(server: ServerProcess) -> None:
    """At its quickest: the machine may have much else to do."""
    assert min(asyncio.run(_refusals_of_a_full_server(server.url))) < 0.1
    assert_idle(server)


def test_clients_that_leave_make_room(server: ServerProcess) -> None:
    def leave(_: int) -> None:
        with (
            httpx.Client(base_url=server.url, timeout=60) as client,
            client.stream("POST", "/v1/chat/completions", json=body(900, stream=True)) as response,
        ):
            next(response.iter_bytes())

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(leave, range(32)))
    assert_idle(server)
