"""How far OpenVINO's answers to a GGUF file are from the file's own float32 values, beside ours.

    python -m benchmarks.openvino_fidelity MODEL.gguf PYTHON --reference /models/FP32/1 \\
        --version /models/AUTO/1 --version /models/W8A8/1

PYTHON has openvino-genai, which reads the file and says what it makes of it; `--reference` is a
version that was exported with `--quant fp32`. Mean KL divergence, agreement and perplexity are over
the first 1,024 tokens of the text that each export is measured on.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

TOKENS = 1024

Logits = NDArray[np.float32]


def openvino_logits(folder: Path) -> None:
    """In the environment that has it: saves the logits of `ids.json` beside it."""
    import openvino as ov
    import openvino_genai as genai

    [gguf] = folder.glob("*.gguf")
    genai.LLMPipeline(str(gguf), "CPU", enable_save_ov_model=True)
    model = ov.Core().compile_model(str(folder / "openvino_model.xml"), "CPU")
    ids = np.array([json.loads((folder / "ids.json").read_text())], dtype=np.int64)
    found = model.create_infer_request().infer(
        {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "position_ids": np.arange(ids.shape[1])[None],
            "beam_idx": np.zeros(1, np.int32),
        }
    )
    [logits] = found.values()
    np.save(folder / "logits.npy", logits[0].astype(np.float32))


def ask_openvino(gguf: Path, python: str, ids: list[int]) -> Logits:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(gguf, folder)
        (folder / "ids.json").write_text(json.dumps(ids))
        subprocess.run([python, "-m", "benchmarks.openvino_fidelity", "--in", name], check=True)
        logits: Logits = np.load(folder / "logits.npy")
        return logits


def our_logits(version: Path, ids: list[int]) -> Logits:
    from mrs.cpu import usable_cpus
    from mrs.export.parity.graph_runner import GraphRunner

    graph = version / "cpu" / "model.onnx"
    return GraphRunner(graph, capacity=len(ids), threads=usable_cpus()).run(np.array(ids), 0, 0)


def compare(name: str, logits: Logits, reference: Logits, ids: list[int]) -> None:
    from mrs.export.parity.divergence import DivergenceMeter

    meter = DivergenceMeter()
    meter.add(reference, logits, np.array(ids[1:]))
    found = meter.result()
    print(
        f"{name:24} KL {found.mean_kl:.4f}  top-1 {found.top1:.1f} %  "
        f"perplexity {found.perplexity:.2f}"
    )


def main() -> None:
    if sys.argv[1:2] == ["--in"]:
        openvino_logits(Path(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gguf", type=Path)
    parser.add_argument("python", help="interpreter with openvino-genai")
    parser.add_argument("--reference", type=Path, required=True, help="version of --quant fp32")
    parser.add_argument("--version", type=Path, action="append", default=[])
    arguments = parser.parse_args()
    from tokenizers import Tokenizer

    from mrs.export.parity.text import bundled_text

    tokenizer = Tokenizer.from_file(str(arguments.reference / "tokenizer.json"))
    ids = tokenizer.encode(bundled_text()).ids[:TOKENS]
    reference = our_logits(arguments.reference, ids)
    compare("float32", reference, reference, ids)
    for version in arguments.version:
        compare(f"mrs {version.parent.name}", our_logits(version, ids), reference, ids)
    compare("OpenVINO", ask_openvino(arguments.gguf, arguments.python, ids), reference, ids)


if __name__ == "__main__":
    main()
