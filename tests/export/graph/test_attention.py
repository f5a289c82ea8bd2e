from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from mrs.errors import CorruptCheckpointError
from mrs.export.architectures.registry import decoder_spec
from mrs.export.graph.attention import rope_weights
from tests.export.gguf_files import LlamaSize
from tests.export.graph.decoders import building, tiny_llama


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
        with pytest.raises(CorruptCheckpointError, match=r"'blk\.0\.attn_k\.weight' has shape"):
            rope_weights(weights, decoder_spec(hostile))
        assert weights.builder.weights.size == 0


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
        rope_weights(weights, decoder_spec(hostile))


def test_tables_span_the_context(tmp_path: Path) -> None:
    checkpoint = tiny_llama(LlamaSize(context=200))
    with building(checkpoint, tmp_path, "fp32") as weights:
        tables = rope_weights(weights, decoder_spec(checkpoint))
    assert [list(table.shape or ()) for table in tables] == [[200, 8], [200, 8]]
