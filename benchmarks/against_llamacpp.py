"""Decode and prefill against llama-cpp-python on the same GGUF file, in turns.

    pip install llama-cpp-python
    mrs export MODEL.gguf --repo /tmp/models
    python -m benchmarks.against_llamacpp /tmp/models/NAME/1 MODEL.gguf --rounds 7

Each round runs each contender once in a process of its own, so that neither's threads or memory
disturb the other; medians and ratios are over the rounds. llama-cpp-python may live in another
environment: name its interpreter with --llamacpp-python.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys


def measure(python: str, contender: str, model: str) -> dict[str, float]:
    command = [python, "-m", "benchmarks.rates", contender, model]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(output.splitlines()[-1])  # type: ignore[no-any-return]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("version", nargs="+", help="folders of exported versions")
    parser.add_argument("gguf", help="the file they were exported from")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--llamacpp-python", default=sys.executable)
    arguments = parser.parse_args()
    contenders = [(arguments.llamacpp_python, "llamacpp", arguments.gguf)]
    contenders += [(sys.executable, "mrs", version) for version in arguments.version]
    results: list[list[dict[str, float]]] = [[] for _ in contenders]
    for number in range(arguments.rounds):
        for contender, rates in zip(contenders, results, strict=True):
            rates.append(measure(*contender))
        figures = "  ".join(
            "/".join(f"{rate:.1f}" for rate in rates[-1].values()) for rates in results
        )
        print(f"round {number + 1}: {figures}", file=sys.stderr)
    print(f"{'':40} {'decode tok/s':>14} {'ratio':>6} {'prefill tok/s':>14} {'ratio':>6}")
    for (_, _, model), rates in zip(contenders, results, strict=True):
        cells = []
        for kind in ("decode", "prefill"):
            median = statistics.median(rate[kind] for rate in rates)
            ratio = statistics.median(
                ours[kind] / theirs[kind] for ours, theirs in zip(rates, results[0], strict=True)
            )
            cells.append(f"{median:14.1f} {ratio:6.2f}")
        print(f"{model[-40:]:40} {' '.join(cells)}")
    evaluated = statistics.median(rate["eval"] for rate in results[0])
    print(f"llama-cpp-python without its sampler: {evaluated:.1f} tok/s")


if __name__ == "__main__":
    main()
