"""Servers under load, in turns: mrs, and any other OpenAI-compatible server that a command starts.

    python -m benchmarks.serving /tmp/models/NAME/1 --streams 1 4 16 64 --rounds 3 \\
        --peer "llamacpp=/envs/llamacpp/bin/python -m llama_cpp.server --model MODEL.gguf \\
                --n_threads 2 --n_ctx 4096 --port {port}"

Each round starts each server, waits until it lists its models, and sends `mrs bench --serve`
requests of 128 words that are answered with 128 tokens. Medians are over rounds.
"""

from __future__ import annotations

import argparse
import json
import shlex
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from typing import Any

PATIENCE = 300
POLL = 0.2


@dataclass
class Server:
    """One contender: how it is started, and what was measured at each number of streams."""

    name: str
    command: list[str]
    rows: dict[int, list[dict[str, Any]]] = field(default_factory=dict)

    def measure(self, streams: list[int], tokens: int, requests: int | None) -> None:
        port = free_port()
        command = [part.replace("{port}", str(port)) for part in self.command]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            url = f"http://127.0.0.1:{port}"
            wait_until_ready(url, process)
            for count in streams:
                found = bench(url, count, tokens, requests)
                self.rows.setdefault(count, []).append(found)
        finally:
            process.terminate()
            process.wait()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def wait_until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SystemExit(f"the server ended with {process.returncode}")
        try:
            with urllib.request.urlopen(f"{url}/v1/models", timeout=5):
                return
        except OSError:
            time.sleep(POLL)
    raise SystemExit("the server was not ready in time")


def bench(url: str, streams: int, tokens: int, requests: int | None) -> dict[str, Any]:
    command = [
        *(sys.executable, "-m", "mrs", "bench", "--serve", url, "--streams", str(streams)),
        *("-p", str(tokens), "-n", str(tokens), "--json"),
    ]
    if requests is not None:
        command += ["--requests", str(max(requests, streams))]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, Any] = json.loads(output)["results"][0]
    return found


def median(rows: list[dict[str, Any]], *path: str) -> float:
    def value(row: Any) -> float:
        for step in path:
            row = row[step]
        return float(row)

    return statistics.median(value(row) for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("version", help="folder of an exported version")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--tokens", type=int, default=128, help="of prompts and of answers")
    parser.add_argument("--requests", type=int, help="of each test; see `mrs bench --help`")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--max-seqs", type=int, default=16, help="slots of mrs")
    arguments = parser.parse_args()
    ours = [
        *(sys.executable, "-m", "mrs", "serve", arguments.version, "--port", "{port}"),
        *("--max-seqs", str(arguments.max_seqs), "--responses-db", ":memory:"),
    ]
    servers = [Server("mrs", ours)]
    for peer in arguments.peer:
        name, _, command = peer.partition("=")
        servers.append(Server(name, shlex.split(command)))
    for number in range(arguments.rounds):
        for server in servers:
            server.measure(arguments.streams, arguments.tokens, arguments.requests)
            figures = ", ".join(
                f"{count}: {rows[-1]['tokens_per_second']:.1f}"
                for count, rows in server.rows.items()
            )
            print(f"round {number + 1}, {server.name}: {figures}", file=sys.stderr)
    print(
        f"{'':10} {'streams':>7} {'failed':>6} {'tok/s':>8} {'TTFT p50':>9} {'p99':>8} "
        f"{'ITL p50':>8} {'p99':>8}   (milliseconds)"
    )
    for count in arguments.streams:
        for server in servers:
            rows = server.rows[count]
            print(
                f"{server.name:10} {count:7} {sum(row['failed'] for row in rows):6} "
                f"{median(rows, 'tokens_per_second'):8.1f} "
                f"{median(rows, 'time_to_first_token', 'p50'):9.0f} "
                f"{median(rows, 'time_to_first_token', 'p99'):8.0f} "
                f"{median(rows, 'inter_token_latency', 'p50'):8.1f} "
                f"{median(rows, 'inter_token_latency', 'p99'):8.1f}"
            )


if __name__ == "__main__":
    main()
