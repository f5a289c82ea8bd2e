"""Regenerate tests/data/reference/samplers.npz with transformers' processors. Never run by tests.

pip install torch transformers
python -m tests.reference.generate_samplers
"""

from __future__ import annotations

import numpy as np
import torch
from transformers.generation.logits_process import (
    LogitsProcessor,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)

from tests.reference.generate import FOLDER

PROCESSORS: dict[str, LogitsProcessor] = {
    "top_k_7": TopKLogitsWarper(7),
    "top_p_0.6": TopPLogitsWarper(0.6),
    "min_p_0.1": MinPLogitsWarper(0.1),
    "typical_0.5": TypicalLogitsWarper(0.5),
    "repetition_1.3": RepetitionPenaltyLogitsProcessor(1.3),
}


def main() -> None:
    rng = np.random.default_rng(5)
    logits = (2 * rng.standard_normal((8, 400))).astype(np.float32)
    tokens = rng.integers(0, 400, (8, 30))
    found = {"logits": logits, "tokens": tokens}
    for name, processor in PROCESSORS.items():
        made = processor(torch.from_numpy(tokens), torch.from_numpy(logits.copy()))
        found[name] = made.numpy()
    np.savez_compressed(FOLDER / "samplers.npz", **found)


if __name__ == "__main__":
    main()
