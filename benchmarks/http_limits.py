"""What a server's edges cost: the start, the shortest answers, idle streams, refusals.

    python -m benchmarks.http_limits /tmp/models/NAME/1

Printed are the seconds from the start of `mrs serve` until it is ready; requests per second of one
token each, by 1 and 16 clients; the processor time that 1,000 connections take which ask nothing;
the rate of one answer by itself and while 1,000 streams wait for their turn; and how long a refusal
(429) takes while the engine is at work and its queue is full, for one client after the other and
for eight at once. Clients speak HTTP over bare sockets: they share the processors with the server.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import resource
import statistics
import time
from asyncio import StreamReader, StreamWriter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.idle import cpu_seconds
from benchmarks.server_process import ServerProcess, serving

IDLE = 1000
REFUSALS = 200
SECONDS = 20.0
QUESTION = "Write a long story about a lighthouse."

_numbers = itertools.count()


class Connection:
    """One keep-alive connection to a server."""

    def __init__(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, url: str) -> Connection:
        parts = urlsplit(url)
        return cls(*await asyncio.open_connection(parts.hostname, parts.port))

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    def send(self, **fields: Any) -> None:
        """Ask for an answer; no two questions are alike."""
        question = f"{next(_numbers)}. {QUESTION}"
        body = json.dumps({"messages": [{"role": "user", "content": question}], **fields})
        self._writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
            % (len(body), body.encode())
        )

    async def head(self) -> tuple[int, int]:
        """Status and length of the body of an answer, once its head is there."""
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        length = next((line for line in lines if line.startswith("content-length:")), ":0")
        return int(lines[0].split()[1]), int(length.partition(":")[2])

    async def ask(self, **fields: Any) -> int:
        """The status of a whole answer."""
        self.send(**fields)
        status, length = await self.head()
        await self._reader.readexactly(length)
        return status

    async def event_rate(self, seconds: float) -> float:
        """Events of a stream per second, for so long."""
        count, started = 0, time.perf_counter()
        while time.perf_counter() < started + seconds:
            await self._reader.readuntil(b"data: ")
            count += 1
        return count / (time.perf_counter() - started)


async def connections(stack: AsyncExitStack, url: str, count: int) -> list[Connection]:
    return [await stack.enter_async_context(await Connection.open(url)) for _ in range(count)]


async def one_token_rate(url: str, clients: int, seconds: float) -> float:
    """Answers of one token each per second."""
    async with AsyncExitStack() as stack:
        idle = await connections(stack, url, clients)
        deadline = time.perf_counter() + seconds

        async def client(connection: Connection) -> int:
            done = 0
            while time.perf_counter() < deadline:
                assert await connection.ask(max_tokens=1) == 200
                done += 1
            return done

        started = time.perf_counter()
        done = sum(await asyncio.gather(*map(client, idle)))
        return done / (time.perf_counter() - started)


async def share(server: ServerProcess, seconds: float) -> float:
    """Of one processor."""
    started, used = time.monotonic(), cpu_seconds(server.pid)
    await asyncio.sleep(seconds)
    return (cpu_seconds(server.pid) - used) / (time.monotonic() - started)


async def idle_shares(server: ServerProcess, seconds: float) -> tuple[float, float]:
    """With no connection, and with many that have asked once and are kept."""
    await one_token_rate(server.url, 1, 1)
    before = await share(server, seconds)
    async with AsyncExitStack() as stack:
        for connection in await connections(stack, server.url, IDLE):
            assert await connection.ask(max_tokens=1) == 200
        return before, await share(server, seconds)


async def waiting_cost(server: ServerProcess, seconds: float) -> tuple[float, float]:
    """Tokens per second of one answer: by itself, and with many that wait for it."""
    async with AsyncExitStack() as stack:
        (busy,) = await connections(stack, server.url, 1)
        busy.send(stream=True, max_tokens=7000, ignore_eos=True)
        await busy.head()
        alone = await busy.event_rate(seconds)
        for connection in await connections(stack, server.url, IDLE):
            connection.send(stream=True, max_tokens=1)
        await busy.event_rate(seconds / 4)
        return alone, await busy.event_rate(seconds)


async def refusal_times(server: ServerProcess, counts: Sequence[int]) -> list[list[float]]:
    """Seconds until each 429, by so many clients, at a server with room for two answers."""
    async with AsyncExitStack() as stack:
        busy, waiting = await connections(stack, server.url, 2)
        busy.send(stream=True, max_tokens=7000, ignore_eos=True)
        await busy.head()
        waiting.send(stream=True, max_tokens=7000, ignore_eos=True)
        await waiting.head()  # It is sent to those who wait, too.
        return [await _times(await connections(stack, server.url, count)) for count in counts]


async def _times(clients: Sequence[Connection]) -> list[float]:
    async def times(connection: Connection) -> list[float]:
        found = []
        for _ in range(REFUSALS // len(clients)):
            started = time.perf_counter()
            status = await connection.ask(max_tokens=1)
            found.append(time.perf_counter() - started)
            if status != 429:
                raise SystemExit(f"a request was not refused, but answered with {status}")
        return found

    return [one for found in await asyncio.gather(*map(times, clients)) for one in found]


def percentile(values: Sequence[float], share_below: int) -> float:
    return statistics.quantiles(values, n=100)[share_below - 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("version", type=Path, help="folder of an exported version")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each observation")
    arguments = parser.parse_args()
    folder, seconds = arguments.version.resolve(), arguments.seconds
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files[1], files[1]))
    started = time.perf_counter()
    with serving(folder) as server:
        print(f"ready after            {time.perf_counter() - started:.2f} s")
        for clients in (1, 16):
            rate = asyncio.run(one_token_rate(server.url, clients, seconds))
            print(f"answers of one token   {rate:.1f} per second by {clients} clients")
        idle, kept = asyncio.run(idle_shares(server, seconds))
        print(f"idle                   {idle:.2%} of a processor; {kept:.2%} for {IDLE} clients")
    with serving(folder, "--max-seqs", "1", "--max-waiting", str(IDLE)) as server:
        alone, beside = asyncio.run(waiting_cost(server, seconds))
        print(f"one answer             {alone:.1f} tokens/s; {beside:.1f} while {IDLE} wait")
    with serving(folder, "--max-seqs", "1", "--max-waiting", "1") as server:
        counts = (1, 8)
        for clients, seconds_each in zip(
            counts, asyncio.run(refusal_times(server, counts)), strict=True
        ):
            times = [1000 * one for one in seconds_each]
            middle, last = statistics.median(times), percentile(times, 99)
            print(
                f"refusals               p50 {middle:.1f} ms, p99 {last:.1f} ms; {clients} at once"
            )


if __name__ == "__main__":
    main()
