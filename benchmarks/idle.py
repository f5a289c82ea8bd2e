"""What a server costs while nobody asks it: ``python -m benchmarks.idle VERSION_FOLDER``.

Prints its CPU time as a share of one processor, and its resident memory, twice: when it has just
become ready, and after requests that ran at once have ended. Processes and seconds are the
kernel's: utime + stime of /proc/PID/stat, VmRSS of /proc/PID/status.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from benchmarks.server_process import serving

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and all its threads."""
    # The second field is the program's name in parentheses and may hold anything.
    fields = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def resident_megabytes(pid: int) -> float:
    status = Path("/proc", str(pid), "status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024 / 1e6


def observe(label: str, pid: int, seconds: float) -> None:
    started, used = time.monotonic(), cpu_seconds(pid)
    time.sleep(seconds)
    share = (cpu_seconds(pid) - used) / (time.monotonic() - started)
    print(f"{label:12} CPU {share:6.2%} of one processor   memory {resident_megabytes(pid):.0f} MB")


def ask_at_once(url: str, requests: int) -> None:
    body = {
        "messages": [{"role": "user", "content": "Write a story about a lighthouse."}],
        "max_tokens": 48,
    }

    def ask(_: int) -> None:
        httpx.post(f"{url}/v1/chat/completions", json=body, timeout=300).raise_for_status()

    with ThreadPoolExecutor(requests) as pool:
        list(pool.map(ask, range(requests)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("version", type=Path, help="folder of an exported version")
    parser.add_argument("--seconds", type=float, default=30, help="length of each observation")
    parser.add_argument("--requests", type=int, default=16, help="requests at once between them")
    arguments = parser.parse_args()
    with serving(arguments.version.resolve()) as server:
        observe("just ready", server.pid, arguments.seconds)
        ask_at_once(server.url, arguments.requests)
        observe("after work", server.pid, arguments.seconds)


if __name__ == "__main__":
    main()
