"""What HTTP costs: streams through `mrs serve` against the engine alone, in turns.

    python -m benchmarks.http_overhead /tmp/models/NAME/1 --streams 1 16 --rounds 5

The engine runs in a process of its own, as the server does. Each stream is one request of 128
tokens; the rate is all tokens over the time from the first token to the last of the slowest. The
client reads raw bytes from its sockets and does no more than count, since it shares the
processors with the server.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.server_process import serving
from benchmarks.versions import open_version

TOKENS = 128
QUESTION = "Write a long story about a lighthouse and the people who live near it."


async def engine_rate(folder: Path, streams: int) -> float:
    """Tokens per second of the engine as the server uses it."""
    from mrs.runtime.generation import GenerationRequest, SamplingParams
    from mrs.runtime.loading import load_served

    loaded = load_served(open_version(folder), prefix_cache_bytes=0)
    prompt = loaded.prompts.encode_chat([{"role": "user", "content": QUESTION}])
    request = GenerationRequest(
        prompt, SamplingParams(temperature=0.0, max_tokens=TOKENS, ignore_eos=True)
    )

    async def one() -> tuple[float, float]:
        stamps = [time.perf_counter() async for _ in loaded.engine.submit(request)]
        return stamps[0], stamps[-1]

    try:
        await one()
        return rate(await asyncio.gather(*(one() for _ in range(streams))))
    finally:
        loaded.close()


def rate(spans: list[tuple[float, float]]) -> float:
    """Tokens per second over spans of first and last token."""
    return len(spans) * TOKENS / (max(end for _, end in spans) - min(start for start, _ in spans))


async def http_span(url: str) -> tuple[float, float]:
    """When the first and the last token of one stream arrived."""
    body = json.dumps(
        {
            "messages": [{"role": "user", "content": QUESTION}],
            "max_tokens": TOKENS,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
        }
    ).encode()
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    )
    first, tail = 0.0, b""
    while chunk := await reader.read(1 << 16):
        tail = (tail + chunk)[-4096:]
        if not first and b"data:" in tail:
            first = time.perf_counter()
        if b"data: [DONE]" in tail:
            last = time.perf_counter()
    writer.close()
    return first, last


async def http_rate(url: str, streams: int) -> float:
    """Tokens per second through HTTP."""
    await http_span(url)
    return rate(await asyncio.gather(*(http_span(url) for _ in range(streams))))


def measure_http(folder: Path, streams: int) -> float:
    with serving(folder, "--prefix-cache-bytes", "0") as server:
        return asyncio.run(http_rate(server.url, streams))


def measure_engine(folder: Path, streams: int) -> float:
    command = [sys.executable, "-m", "benchmarks.http_overhead", str(folder), "--engine"]
    output = subprocess.run(
        [*command, str(streams)], check=True, capture_output=True, text=True
    ).stdout
    return float(output)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("version", type=Path, help="folder of an exported version")
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--engine", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    folder = arguments.version.resolve()
    if arguments.engine:
        print(asyncio.run(engine_rate(folder, arguments.engine)))
        return
    for streams in arguments.streams:
        engine, http = [], []
        for number in range(arguments.rounds):
            engine.append(measure_engine(folder, streams))
            http.append(measure_http(folder, streams))
            print(f"round {number + 1}: {engine[-1]:.1f} {http[-1]:.1f}", file=sys.stderr)
        ratio = statistics.median(a / b for a, b in zip(http, engine, strict=True))
        print(
            f"{streams:3} streams: engine {statistics.median(engine):7.1f} tok/s   "
            f"http {statistics.median(http):7.1f} tok/s   ratio {ratio:.2f}"
        )


if __name__ == "__main__":
    main()
