"""A server under mixed load for a while: does anything grow that should not?

    python -m benchmarks.soak MODEL [--minutes 30] [--clients 24] [--options "--max-seqs 8"]

MODEL is what `mrs serve` takes. Clients ask for streams and whole answers, with short and long
prompts, turn after turn; every fifth leaves at a random moment. Memory, file descriptors, threads
and the server's gauges are sampled; the first fifth of the time is warm-up. Exit code 1 tells that
something grew, failed, or was left over.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shlex
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

_LEAVERS = 0.2
_WARM_UP = 0.2
_MOST_GROWTH = 0.05
_SLACK_BYTES = 32 << 20
_SLACK_COUNT = 3
_FEWEST_SAMPLES = 9
_SETTLE_SECONDS = 60.0
_WORDS = ("time", "house", "river", "light", "stone", "green", "paper", "music", "table", "north")


@dataclass(frozen=True)
class Sample:
    """What the server takes at one moment.

    Attributes:
        seconds: since the start.
        rss: resident memory in bytes.
        cache: the part of it that is the KV cache.
        fds: open file descriptors.
        threads: of the process.
        tasks: of the event loop.
        running: sequences that are being generated.
        waiting: sequences in the queue.
    """

    seconds: float
    rss: int
    cache: int
    fds: int
    threads: int
    tasks: int
    running: int
    waiting: int

    @property
    def memory(self) -> int:
        """Resident memory but for the KV cache, which is as large as its rows are."""
        return self.rss - self.cache


@dataclass
class Load:
    """Clients without an end.

    Attributes:
        outcomes: how requests ended.
        failures: the first sentences about those that failed.
    """

    url: str
    longest: int
    clients: int
    until: float
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    async def client(self, number: int) -> None:
        """One client: conversations of a few turns, one after the other."""
        rng = random.Random(number)
        async with httpx.AsyncClient(base_url=self.url, timeout=600) as http:
            while time.monotonic() < self.until:
                messages = [_message(rng, self.longest)]
                for _ in range(rng.randint(1, 3)):
                    await self._turn(http, rng, messages)
                    if time.monotonic() >= self.until:
                        break

    async def _turn(
        self, http: httpx.AsyncClient, rng: random.Random, messages: list[dict[str, str]]
    ) -> None:
        body = {
            "messages": messages,
            "max_tokens": rng.choice([4, 32, 96]),
            "stream": rng.random() < 0.6,
            "temperature": rng.choice([0.0, 0.8]),
            "seed": rng.randrange(1 << 30),
            "truncate_sequence": True,
        }
        leaves = rng.random() < _LEAVERS
        try:
            async with asyncio.timeout(rng.expovariate(1.0) if leaves else None):
                answer = await self._ask(http, body)
        except TimeoutError:
            self.outcomes["left"] += 1
        except (httpx.HTTPError, ValueError, KeyError) as error:
            self.outcomes["failed"] += 1
            self.failures.append(f"{type(error).__name__}: {error}")
        else:
            messages += [{"role": "assistant", "content": answer}, _message(rng, 20)]

    async def _ask(self, http: httpx.AsyncClient, body: dict[str, Any]) -> str:
        """The text of the answer."""
        path = "/v1/chat/completions"
        if not body["stream"]:
            response = await http.post(path, json=body)
            if response.status_code == 429:
                return await self._refused()
            response.raise_for_status()
            self.outcomes["whole"] += 1
            return str(response.json()["choices"][0]["message"]["content"])
        async with http.stream("POST", path, json=body) as response:
            if response.status_code == 429:
                return await self._refused()
            response.raise_for_status()
            lines = [line async for line in response.aiter_lines() if line.startswith("data: ")]
        if lines[-1] != "data: [DONE]":
            raise ValueError(f"a stream ended with {lines[-1]:.200}")
        self.outcomes["streamed"] += 1
        return "".join(_piece(line) for line in lines[:-1])

    async def _refused(self) -> str:
        self.outcomes["refused"] += 1
        await asyncio.sleep(1.0)
        return "..."


def _piece(line: str) -> str:
    choices = json.loads(line.removeprefix("data: "))["choices"]
    return str(choices[0]["delta"].get("content") or "") if choices else ""


def _message(rng: random.Random, longest: int) -> dict[str, str]:
    words = rng.choice([4, 20, longest])
    return {"role": "user", "content": " ".join(rng.choices(_WORDS, k=max(1, words)))}


class Server:
    """An `mrs serve` process."""

    def __init__(self, model: str, options: Sequence[str]) -> None:
        command = [sys.executable, "-m", "mrs", "serve", model, "--json", "--port", "0"]
        self._process = subprocess.Popen(
            [*command, "--log-level", "warning", *options], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("The server did not start.")
        event = json.loads(line)
        self.url: str = event["url"]
        self.longest: int = event["max_model_len"]
        self._folder = Path("/proc") / str(event["pid"])
        self._began = time.monotonic()

    async def sample(self, http: httpx.AsyncClient) -> Sample:
        """What it takes now."""
        health = (await http.get("/health")).json()
        status = dict(
            line.split(":", 1) for line in (self._folder / "status").read_text().splitlines()
        )
        return Sample(
            seconds=time.monotonic() - self._began,
            rss=int(status["VmRSS"].split()[0]) * 1024,
            cache=health["kv_bytes"],
            fds=sum(1 for _ in (self._folder / "fd").iterdir()),
            threads=int(status["Threads"]),
            tasks=await _tasks(http),
            running=health["running"],
            waiting=health["waiting"],
        )

    def stop(self) -> int:
        """End it; gives its exit code."""
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


async def _tasks(http: httpx.AsyncClient) -> int:
    lines = (await http.get("/metrics")).text.splitlines()
    values = [line.split()[1] for line in lines if line.startswith("mrs_asyncio_tasks ")]
    return int(float(values[0]))


@dataclass(frozen=True)
class Run:
    """What came of a run.

    Attributes:
        load: what its clients saw.
        first: the server before the load.
        samples: under load.
        last: when all is quiet again.
    """

    load: Load
    first: Sample
    samples: Sequence[Sample]
    last: Sample


async def soak(server: Server, minutes: float, clients: int) -> Run:
    """Put the server under load."""
    until = time.monotonic() + 60 * minutes
    load = Load(server.url, min(server.longest // 4, 600), clients, until)
    samples: list[Sample] = []
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as http:
        first = await server.sample(http)
        busy = [asyncio.create_task(load.client(number)) for number in range(clients)]
        done = asyncio.gather(*busy)
        interval = min(10.0, 60 * minutes / 30)
        while not done.done() and time.monotonic() < load.until:
            samples.append(await server.sample(http))
            print(_line(samples[-1]), dict(load.outcomes), flush=True)
            await asyncio.wait([done], timeout=interval)
        await done
        return Run(load, first, samples, await _settled(server, http))


async def _settled(server: Server, http: httpx.AsyncClient) -> Sample:
    """The server when the last who left are noticed, or after a while."""
    end = time.monotonic() + _SETTLE_SECONDS
    while True:
        sample = await server.sample(http)
        if not (sample.running or sample.waiting) or time.monotonic() > end:
            return sample
        await asyncio.sleep(0.2)


def verdict(run: Run) -> list[str]:
    """What is wrong; nothing where all is well."""
    load, last = run.load, run.last
    wrong = []
    if load.failures:
        wrong.append(f"{len(load.failures)} requests failed, as the first: {load.failures[0]}")
    if last.running or last.waiting:
        wrong.append(f"{last.running} sequences run and {last.waiting} wait, but nobody asks")
    for name in ("fds", "tasks"):
        before, after = getattr(run.first, name), getattr(last, name)
        if after - before > _SLACK_COUNT:
            wrong.append(f"{name} were {before} before and are {after} after")
    steady = [sample for sample in run.samples if sample.seconds >= _WARM_UP * last.seconds]
    if len(steady) < _FEWEST_SAMPLES:
        return [*wrong, f"{len(steady)} samples are too few for a verdict on growth"]
    # How many clients are served at one moment is chance; what leaks does so with each request.
    several = run.load.clients + _SLACK_COUNT
    slacks = {"memory": _SLACK_BYTES, "fds": several, "threads": 1, "tasks": several}
    for name, slack in slacks.items():
        early, late = _medians(getattr(sample, name) for sample in steady)
        if late - early > max(slack, early * _MOST_GROWTH):
            wrong.append(f"{name} grew from {early:,.0f} to {late:,.0f}")
    return wrong


def _medians(values: Iterable[float]) -> tuple[float, float]:
    """Of the first and of the last third."""
    numbers = list(values)
    third = len(numbers) // 3
    return statistics.median(numbers[:third]), statistics.median(numbers[-third:])


def _line(sample: Sample) -> str:
    return (
        f"{sample.seconds:6.0f} s  rss {sample.rss >> 20:5d} MiB  cache {sample.cache >> 20:5d} MiB"
        f"  fds {sample.fds:3d}  threads {sample.threads:3d}  tasks {sample.tasks:3d}"
        f"  running {sample.running:3d}  waiting {sample.waiting:3d} "
    )


def main() -> None:
    """Parse, run, judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--options", default="", help="further options of mrs serve")
    arguments = parser.parse_args()
    server = Server(arguments.model, shlex.split(arguments.options))
    try:
        run = asyncio.run(soak(server, arguments.minutes, arguments.clients))
    finally:
        code = server.stop()
    print(_line(run.last), dict(run.load.outcomes))
    wrong = verdict(run)
    if code:
        wrong.append(f"the server ended with exit code {code}")
    print("\n".join(["WRONG:", *wrong]) if wrong else "Nothing grew, nothing failed, all is quiet.")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
