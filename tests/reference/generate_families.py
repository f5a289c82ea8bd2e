"""Regenerate tests/data/reference/families/*.npz with transformers. Never run by the tests.

    pip install torch transformers safetensors
    python -m tests.reference.generate_families [name or start of names ...]

Weights follow from the tensors' names, logits are computed in float64, so that only mrs' rounding
is measured.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.numpy import save_file
from transformers import AutoConfig, AutoModelForCausalLM

from tests.reference.families import CASES
from tests.reference.tiny_model import BASE, Reference, TinyModel


def reference(case: TinyModel, folder: Path) -> Reference:
    config = AutoConfig.for_model(case.model_type, **{**BASE, **case.config})
    model = AutoModelForCausalLM.from_config(config)
    model.save_pretrained(folder)
    stored = folder / "model.safetensors"
    with safe_open(stored, "numpy") as file:
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    save_file(case.weights(shapes), stored, metadata={"format": "pt"})
    loaded: Any = AutoModelForCausalLM.from_pretrained(
        folder,
        dtype=torch.float64,
        attn_implementation="eager",
        experts_implementation="eager",
    ).eval()
    with torch.no_grad():
        logits = loaded(torch.tensor([case.prompt()])).logits[0]
    return Reference(
        config=json.loads((folder / "config.json").read_text()),
        shapes=shapes,
        logits=logits.float().numpy(),
    )


def main(names: list[str]) -> None:
    for case in CASES:
        if names and not any(case.name.startswith(name) for name in names):
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = reference(case, Path(folder))
        found.save(case)
        print(f"{case.name:24} logits {found.logits.min():8.3f} to {found.logits.max():8.3f}")


if __name__ == "__main__":
    main(sys.argv[1:])
