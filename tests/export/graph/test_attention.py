from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mrs.errors import CorruptCheckpointError
from mrs.export.architectures.registry import decoder_spec
from mrs.export.graph.block import check_projections
from mrs.export.graph.positions import rope_tables
from tests.export.gguf_files import LlamaSize
from tests.export.graph.decoders import build, building, logits, tiny_llama
from tests.export.memory_checkpoint import MemoryCheckpoint


def test_no_rotary_table_is_written_for_a_head_size_that_no_tensor_has(tmp_path: Path) -> None:
    """Its header may ask for tables of many terabytes."""
    checkpoint = tiny_llama()
    metadata = {
        **checkpoint.metadata,
        "llama.attention.key_length": 1 << 28,
        "llama.rope.dimension_count": 1 << 28,
        "llama.context_length": 1 << 22,
    }
    hostile = dataclasses.replace(checkpoint, metadata=metadata)
    with building(hostile, tmp_path, "fp32") as weights:
        with pytest.raises(CorruptCheckpointError, match=r"'blk\.0\.attn_q\.weight' has shape"):
            check_projections(weights, decoder_spec(hostile))
        assert weights.builder.weight_file.size == 0


@pytest.mark.parametrize("factor", [0.0, -1.0, np.nan])
def test_frequency_factors_must_be_above_zero(tmp_path: Path, factor: float) -> None:
    checkpoint = tiny_llama()
    factors = np.array([1, factor, 1, 1, 1, 1, 1, 1], dtype=np.float32)
    stored = {**checkpoint.stored, "rope_freqs.weight": factors}
    hostile = dataclasses.replace(checkpoint, stored=stored)
    with (
        building(hostile, tmp_path, "fp32") as weights,
        pytest.raises(CorruptCheckpointError, match=r"'rope_freqs\.weight' holds"),
    ):
        rope_tables(weights, decoder_spec(hostile))


@pytest.mark.parametrize(
    "keys",
    [
        {"scaling.type": "yarn", "scaling.factor": 4.0, "freq_base": 1.0},
        {"scaling.type": "dynamic", "scaling.factor": 1e30},
        {"scaling.type": "dynamic", "scaling.factor": 2.0, "dimension_count": 2},
    ],
    ids=lambda keys: f"{keys['scaling.type']} {len(keys)}",
)
def test_numbers_that_make_no_rotation_together_are_refused(
    tmp_path: Path, keys: dict[str, Any]
) -> None:
    checkpoint = tiny_llama()
    metadata = {**checkpoint.metadata, **{f"llama.rope.{key}": keys[key] for key in keys}}
    hostile = dataclasses.replace(checkpoint, metadata=metadata)
    with (
        building(hostile, tmp_path, "fp32") as weights,
        pytest.raises(CorruptCheckpointError, match="gives no finite frequencies"),
    ):
        rope_tables(weights, decoder_spec(hostile))


def test_tables_span_the_context(tmp_path: Path) -> None:
    checkpoint = tiny_llama(LlamaSize(context=200))
    with building(checkpoint, tmp_path, "fp32") as weights:
        [tables] = rope_tables(weights, decoder_spec(checkpoint)).values()
    assert [list(table.shape or ()) for table in tables] == [[200, 8], [200, 8]]


# --- one rotation told in two ways ----------------------------------------------------------------

BASE = 10000.0
NEVER = 1e30  # A frequency divided by this turns nothing.
HEAD_OF_32 = LlamaSize(layers=1, heads=2, kv_heads=1)


def rotated(folder: Path, factors: NDArray[np.float64] | None, **header: float) -> NDArray[Any]:
    """Logits of 40 tokens with these frequency factors and ``llama.rope.*`` keys."""
    folder.mkdir()
    checkpoint = tiny_llama(HEAD_OF_32)
    keys = {f"llama.rope.{key.replace('__', '.')}": value for key, value in header.items()}
    stored = dict(checkpoint.stored)
    if factors is not None:
        stored["rope_freqs.weight"] = factors.astype(np.float32)
    changed = MemoryCheckpoint(stored, {**checkpoint.metadata, **keys})
    return logits(build(changed, folder).path, range(100, 140))


def test_rotating_half_of_a_head_is_rotating_all_of_it_with_half_of_the_pairs_at_rest(
    tmp_path: Path,
) -> None:
    pairs = np.arange(8)
    wanted, given = BASE ** (-2 * pairs / 16), BASE ** (-2 * pairs / 32)
    factors = np.concatenate([given / wanted, np.full(8, NEVER)])
    whole = rotated(tmp_path / "whole", factors, dimension_count=32)
    half = rotated(tmp_path / "half", None, dimension_count=16)
    plain = rotated(tmp_path / "plain", None)
    np.testing.assert_allclose(half, whole, rtol=0, atol=2e-5)
    assert np.abs(half - plain).max() > 0.01


def test_linear_scaling_divides_every_frequency(tmp_path: Path) -> None:
    divided = rotated(tmp_path / "divided", np.full(16, 4.0))
    scaled = rotated(tmp_path / "scaled", None, scaling__factor=4.0)
    plain = rotated(tmp_path / "plain", None)
    np.testing.assert_allclose(scaled, divided, rtol=0, atol=2e-5)
    assert np.abs(scaled - plain).max() > 0.01
