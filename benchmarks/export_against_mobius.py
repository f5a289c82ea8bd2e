"""Time, peak memory and faithfulness of an export, against mobius-onnx on the same GGUF file.

    pip install mobius-onnx==0.1.0
    python -m benchmarks.export_against_mobius MODEL.gguf --mobius path/to/mobius --rounds 3

Both tools run in processes of their own, in turns, into fresh folders, and each at what it offers
for quantized GGUF files (mobius: ``--keep-quantized --ep cpu``); mrs without its parity
measurement, which mobius has not. Then both graphs are compared with mrs' float32 graph of the
file on the bundled text.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from mrs.export.parity.divergence import Divergence, DivergenceMeter
from mrs.export.parity.graph_runner import GraphRunner
from mrs.export.parity.text import tokenize_text

THREADS = 2


@dataclass(frozen=True)
class Cost:
    """What a command took: seconds, and the most memory of its process in MB."""

    seconds: float
    peak: float


def run(command: Sequence[str]) -> Cost:
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
    return Cost(time.perf_counter() - started, usage.ru_maxrss / 1000)


def export(gguf: str, folder: Path, quant: str) -> tuple[Cost, Path]:
    command = [
        sys.executable,
        "-m",
        "mrs",
        "export",
        gguf,
        "--repo",
        str(folder),
        "--name",
        "model",
    ]
    cost = run([*command, "--quant", quant, "--parity", "never"])
    return cost, folder / "model" / "1"


def mobius(gguf: str, folder: Path, program: str) -> tuple[Cost, Path]:
    command = [program, "build-gguf", gguf, "--output", str(folder), "--keep-quantized"]
    return run([*command, "--ep", "cpu"]), folder


class MobiusRunner:
    """Logits of mobius' graph for one window of text, computed in one step."""

    def __init__(self, graph: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = THREADS
        self._session = onnxruntime.InferenceSession(graph, options)

    def run(self, tokens: NDArray[np.int64]) -> NDArray[np.float32]:
        feeds: dict[str, NDArray[Any]] = {
            "input_ids": tokens[None],
            "attention_mask": np.ones((1, len(tokens)), dtype=np.int64),
            "position_ids": np.arange(len(tokens))[None],
        }
        known = {node.name for node in self._session.get_inputs()}
        for node in self._session.get_inputs():
            if node.name.startswith("past_key_values."):
                feeds[node.name] = np.zeros((1, node.shape[1], 0, node.shape[3]), np.float32)
        fed = {name: value for name, value in feeds.items() if name in known}
        logits: NDArray[np.float32] = self._session.run(["logits"], fed)[0][0]
        return logits


def divergences(reference: Path, ours: Path, theirs: Path) -> tuple[Divergence, Divergence]:
    text = tokenize_text(reference / "tokenizer.json", context_length=512, begin_token=None)
    exact, exported = (
        GraphRunner(folder / "cpu" / "model.onnx", capacity=text.longest, threads=THREADS)
        for folder in (reference, ours)
    )
    other = MobiusRunner(theirs / "model.onnx")
    meters = DivergenceMeter(), DivergenceMeter()
    for window in text.windows:
        expected = exact.run(window, 0, 0)
        meters[0].add(expected, exported.run(window, 0, 0), window[1:])
        meters[1].add(expected, other.run(window), window[1:])
    return meters[0].result(), meters[1].result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gguf")
    parser.add_argument("--mobius", default="mobius", help="its program")
    parser.add_argument("--quant", default="auto", help="mrs' quantization")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        costs: tuple[list[Cost], list[Cost]] = ([], [])
        for number in range(arguments.rounds):
            ours_cost, ours = export(arguments.gguf, folder / f"mrs-{number}", arguments.quant)
            their_folder = folder / f"mobius-{number}"
            theirs_cost, theirs = mobius(arguments.gguf, their_folder, arguments.mobius)
            costs[0].append(ours_cost)
            costs[1].append(theirs_cost)
        _, reference = export(arguments.gguf, folder / "reference", "fp32")
        found = divergences(reference, ours, theirs)
    print(f"{'':8} {'seconds':>8} {'peak MB':>8} {'mean KL':>9} {'top-1 %':>8} {'perplexity':>10}")
    for name, taken, parity in zip(("mrs", "mobius"), costs, found, strict=True):
        seconds = statistics.median(cost.seconds for cost in taken)
        peak = statistics.median(cost.peak for cost in taken)
        print(
            f"{name:8} {seconds:8.2f} {peak:8.0f} {parity.mean_kl:9.5f} {parity.top1:8.2f} "
            f"{parity.perplexity:10.3f}"
        )
    print(f"perplexity of the float32 graph: {found[0].reference_perplexity:.3f}")


if __name__ == "__main__":
    main()
