"""Decode and prefill against other engines on the same GGUF file, in turns.

    mrs export MODEL.gguf --repo /tmp/models
    python -m benchmarks.against_peers /tmp/models/NAME/1 MODEL.gguf --rounds 5 --depth 0 2048 \\
        --peer llamacpp=/envs/llamacpp/bin/python --peer openvino=/envs/openvino/bin/python

Peers are llama-cpp-python, OpenVINO GenAI, mistral.rs (``pip install llama-cpp-python``,
``openvino-genai``, ``mistralrs``), and the graph of mobius-onnx on ONNX Runtime, each in an
environment of its own whose interpreter is named. Each round runs each contender once, in a process
of its own, so that neither's threads or memory disturb the other. Ratios are taken within rounds;
medians are over rounds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from dataclasses import dataclass, field

from benchmarks.contenders import CONTENDERS


@dataclass
class Contender:
    """One engine, and what it did at each depth."""

    name: str
    python: str
    model: str
    rates: dict[int, list[dict[str, float]]] = field(default_factory=dict)

    def measure(self, depth: int, repetitions: int) -> None:
        command = [self.python, "-m", "benchmarks.contenders", self.name, self.model]
        command += ["--depth", str(depth), "--repetitions", str(repetitions)]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        if found.returncode:
            sys.exit(f"{self.name}: {found.stderr[-2000:]}")
        self.rates.setdefault(depth, []).append(json.loads(found.stdout.splitlines()[-1]))


def peer(argument: str, gguf: str) -> Contender:
    """``NAME=PYTHON`` or ``NAME=PYTHON=MODEL``."""
    name, python, *model = argument.split("=")
    if name not in CONTENDERS:
        sys.exit(f"--peer names {name!r}, which is none of {', '.join(CONTENDERS)}")
    return Contender(name, python, model[0] if model else gguf)


def rows(contenders: list[Contender], depth: int) -> list[str]:
    ours = contenders[0].rates[depth]
    lines = []
    for contender in contenders:
        cells = [f"{contender.name:10}", f"{depth:6}"]
        for kind in ("decode", "prefill"):
            theirs = contender.rates[depth]
            median = statistics.median(rates[kind] for rates in theirs)
            ratio = statistics.median(
                mine[kind] / other[kind] for mine, other in zip(ours, theirs, strict=True)
            )
            cells.append(f"{median:9.1f} {ratio:9.2f}")
        if "eval" in contender.rates[depth][0]:
            evaluated = statistics.median(rates["eval"] for rates in contender.rates[depth])
            ratio = statistics.median(
                mine["decode"] / other["eval"]
                for mine, other in zip(ours, contender.rates[depth], strict=True)
            )
            cells.append(f"   (without its sampler {evaluated:.1f}: {ratio:.2f})")
        lines.append(" ".join(cells))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("version", help="folder of an exported version")
    parser.add_argument("gguf", help="the file it was exported from")
    parser.add_argument("--peer", action="append", required=True, metavar="NAME=PYTHON[=MODEL]")
    parser.add_argument("--depth", type=int, nargs="+", default=[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repetitions", type=int, default=3, help="of each test in a round")
    arguments = parser.parse_args()
    contenders = [
        Contender("mrs", sys.executable, arguments.version),
        *(peer(argument, arguments.gguf) for argument in arguments.peer),
    ]
    for number in range(arguments.rounds):
        for depth in arguments.depth:
            for contender in contenders:
                contender.measure(depth, arguments.repetitions)
            figures = "  ".join(
                contender.name + " " + "/".join(
                    f"{rate:.1f}" for rate in contender.rates[depth][-1].values()
                )
                for contender in contenders
            )  # fmt: skip
            print(f"round {number + 1}, depth {depth}: {figures}", file=sys.stderr)
    print(f"{'':10} {'depth':>6} {'decode':>9} {'mrs is x':>9} {'prefill':>9} {'mrs is x':>9}")
    for depth in arguments.depth:
        print("\n".join(rows(contenders, depth)))


if __name__ == "__main__":
    main()
