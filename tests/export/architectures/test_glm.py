"""GLM-4 GGUF files of models that see images, and of such that draft tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrs.export.architectures.canonical_gguf import open_canonical_gguf
from mrs.export.architectures.spec import RopeLayout
from mrs.export.checkpoints.checkpoint import MetadataValue
from tests.export.architectures.described import attentions, spec_of_gguf
from tests.export.test_parity_families import build, compare
from tests.reference.families import CASES
from tests.reference.gguf_form import Array, write_gguf_form

[GLM4] = [case for case in CASES if case.name == "glm4"]


@pytest.mark.parametrize(
    ("sections", "layout"),
    [([8, 12, 12, 0], RopeLayout.HALVES), ([0, 0, 0, 0], RopeLayout.PAIRS)],
)
def test_the_sections_of_images_come_with_halves(sections: list[int], layout: RopeLayout) -> None:
    keys: dict[str, MetadataValue] = {
        "rope.dimension_sections": sections,
        "rope.dimension_count": 64,
    }
    [first, *_] = attentions(spec_of_gguf("glm4", keys))
    assert first.rope is not None and first.rope.layout is layout


def test_layers_that_only_draft_are_left_out(tmp_path: Path) -> None:
    path = write_gguf_form(GLM4, tmp_path, change=add_drafting_layer)
    compare(GLM4, build(open_canonical_gguf(path), tmp_path))


def add_drafting_layer(metadata: dict[str, Any], tensors: dict[str, Array]) -> None:
    """A third block, which only drafts tokens."""
    metadata |= {"glm4.block_count": 3, "glm4.nextn_predict_layers": 1}
    tensors["blk.2.nextn.eh_proj.weight"] = np.zeros((192, 384), np.float32)
    tensors["blk.2.attn_norm.weight"] = np.zeros(192, np.float32)
