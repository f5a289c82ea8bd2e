"""GGUF files whose queries, keys and values are one tensor, as older converters wrote them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrs.export.architectures.canonical_gguf import open_canonical_gguf
from tests.export.test_parity_families import build, compare
from tests.reference.families import CASES
from tests.reference.gguf_form import Array, write_gguf_form

BY_NAME = {case.name: case for case in CASES}


@pytest.mark.parametrize("name", ["phi-6-2", "phi-odd", "glm", "stablelm", "starcoder2-untied"])
def test_a_fused_tensor_is_taken_apart(name: str, tmp_path: Path) -> None:
    path = write_gguf_form(BY_NAME[name], tmp_path, change=fuse)
    checkpoint = open_canonical_gguf(path)
    assert "blk.0.attn_qkv.weight" in checkpoint.tensors
    compare(BY_NAME[name], build(checkpoint, tmp_path))


def fuse(_metadata: dict[str, Any], tensors: dict[str, Array]) -> None:
    """Put the three below one another."""
    for first in [tensor for tensor in tensors if ".attn_q." in tensor]:
        parts = [tensors.pop(first.replace("attn_q", f"attn_{part}")) for part in "qkv"]
        tensors[first.replace("attn_q", "attn_qkv")] = np.concatenate(parts)
