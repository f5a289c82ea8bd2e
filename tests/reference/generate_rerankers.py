"""Regenerate tests/data/reference/rerankers/*.npz. Never run by the tests.

    pip install torch transformers safetensors
    python -m tests.reference.generate_rerankers [name or start of names ...]

Everything is computed by transformers, in float64 and one pair at a time, so that neither padding
nor rounding is in the reference.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from transformers import AutoConfig, AutoModelForSequenceClassification

from tests.reference.tiny_reranker import CASES, RerankerReference, TinyReranker


def reference(case: TinyReranker, folder: Path) -> RerankerReference:
    config = AutoConfig.for_model(case.model_type, **case.config)
    AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)
    with safe_open(folder / "model.safetensors", "numpy") as file:
        shapes = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    written = json.loads((folder / "config.json").read_text())
    case.write(folder, written, shapes)
    model = AutoModelForSequenceClassification.from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float64
    ).eval()
    logits = [logit(case, model, *row) for row in case.rows()]
    return RerankerReference(written, shapes, np.array(logits, dtype=np.float32))


def logit(case: TinyReranker, model: torch.nn.Module, ids: list[int], start: int) -> float:
    features = {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids))}
    if case.config.get("type_vocab_size") == 2:
        features["token_type_ids"] = torch.tensor([[int(i >= start) for i in range(len(ids))]])
    with torch.no_grad():
        return float(model(**features).logits[0, 0])


def main(names: list[str]) -> None:
    for case in CASES:
        if names and not any(case.name.startswith(name) for name in names):
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = reference(case, Path(folder))
        found.save(case)
        print(f"{case.name:28} {found.logits}")


if __name__ == "__main__":
    main(sys.argv[1:])
