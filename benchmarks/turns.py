"""What clients feel of caching and of each other, through `mrs serve`.

    python -m benchmarks.turns /tmp/models/NAME/1 --rounds 3

``next turn``: time to the first token of a conversation of about 2,000 tokens, and of its second
turn, which sends all of it again with a short question more. ``long prompt``: 15 streams, and then
a prompt of about 4,000 tokens among them: their gaps between tokens before it came and while it was
computed.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from benchmarks.server_process import serving
from mrs.load_test.completion import Endpoint, Outcome, Target, complete, event_data
from mrs.load_test.http_stream import ServerAddress, request
from mrs.load_test.prompts import prompt

STREAMS = 15


async def first_token(address: ServerAddress, messages: list[dict[str, str]]) -> tuple[float, str]:
    """Seconds until the first text of an answer, and the answer."""
    body = {"messages": messages, "max_tokens": 32, "temperature": 0, "stream": True}
    start, first, text = time.perf_counter(), 0.0, ""
    pieces = request(address, "POST", "/v1/chat/completions", orjson.dumps(body))
    async for data in event_data(pieces):
        for choice in [] if data == b"[DONE]" else orjson.loads(data)["choices"]:
            if content := choice["delta"].get("content"):
                first = first or time.perf_counter()
                text += content
    return first - start, text


async def next_turn(address: ServerAddress, number: int) -> tuple[float, float]:
    messages = [{"role": "user", "content": prompt(2000, number)}]
    first, answer = await first_token(address, messages)
    messages += [
        {"role": "assistant", "content": answer},
        {"role": "user", "content": "And then?"},
    ]
    second, _ = await first_token(address, messages)
    return first, second


async def long_prompt(address: ServerAddress, number: int) -> tuple[Any, Any, float]:
    """Gaps of the streams before and while, in seconds, and how long the prompt took."""

    def target(tokens: int) -> Target:
        return Target(address, "default", Endpoint.CHAT, tokens)

    streams = [
        asyncio.ensure_future(complete(target(600), prompt(16, 1000 * number + stream)))
        for stream in range(STREAMS)
    ]
    await asyncio.sleep(8)  # All of them decode by then.
    came = time.perf_counter()
    long = await complete(target(1), prompt(4000, 1000 * number + 999))
    outcomes: list[Outcome] = await asyncio.gather(*streams)
    failed = [outcome.error for outcome in [*outcomes, long] if not outcome.ok]
    if failed:
        raise SystemExit(f"failed: {failed[0]}")
    ended = long.arrivals[0]
    before, meanwhile = [], []
    for outcome in outcomes:
        for stamp, gap in zip(outcome.arrivals[1:], outcome.gaps, strict=True):
            if came - 4 < stamp < came:
                before.append(gap)
            elif came < stamp < ended:
                meanwhile.append(gap)
    return np.array(before), np.array(meanwhile), long.time_to_first_token


async def run(address: ServerAddress, rounds: int) -> None:
    turns = [await next_turn(address, number) for number in range(rounds)]
    first = statistics.median(turn[0] for turn in turns)
    second = statistics.median(turn[1] for turn in turns)
    share = statistics.median(turn[1] / turn[0] for turn in turns)
    print(f"next turn: first {first * 1000:.0f} ms, second {second * 1000:.0f} ms: {share:.1%}")
    for number in range(rounds):
        before, meanwhile, took = await long_prompt(address, number + 1)
        if not (len(before) and len(meanwhile)):
            raise SystemExit("the streams ended too early: give the machine more time")
        print(
            f"long prompt: computed in {took:.1f} s; gaps of the streams p50/p99 before "
            f"{np.percentile(before, 50) * 1000:.0f}/{np.percentile(before, 99) * 1000:.0f} ms, "
            f"meanwhile {np.percentile(meanwhile, 50) * 1000:.0f}/"
            f"{np.percentile(meanwhile, 99) * 1000:.0f} ms"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("version", type=Path, help="folder of an exported version")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with serving(arguments.version) as server:
        asyncio.run(run(ServerAddress.from_url(server.url), arguments.rounds))


if __name__ == "__main__":
    main()
