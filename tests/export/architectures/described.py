"""Specs of models that are described by their metadata alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from mrs.export.architectures.huggingface import open_huggingface
from mrs.export.architectures.registry import decoder_spec
from mrs.export.architectures.spec import AttentionSpec, DecoderSpec
from mrs.export.checkpoints.checkpoint import MetadataValue
from tests.export.memory_checkpoint import MemoryCheckpoint


def spec_of_config(folder: Path, config: dict[str, Any]) -> DecoderSpec:
    """What ``config.json`` says, beside an embedding of 8 tokens."""
    (folder / "config.json").write_text(json.dumps(config))
    embedding = np.zeros((8, 4), np.float32)
    save_file({"model.embed_tokens.weight": embedding}, folder / "model.safetensors")
    checkpoint = open_huggingface(folder)
    try:
        return decoder_spec(checkpoint)
    finally:
        checkpoint.close()


def spec_of_gguf(name: str, keys: dict[str, MetadataValue]) -> DecoderSpec:
    """What metadata says under ``<name>.``, beside an embedding of 8 tokens."""
    usual: dict[str, MetadataValue] = {
        "context_length": 4096,
        "embedding_length": 2048,
        "block_count": 8,
        "feed_forward_length": 4096,
        "attention.head_count": 8,
        "attention.head_count_kv": 4,
        "attention.layer_norm_rms_epsilon": 1e-6,
    }
    metadata = {f"{name}.{key}": value for key, value in {**usual, **keys}.items()}
    return decoder_spec(
        MemoryCheckpoint({"token_embd.weight": np.zeros((8, 4), np.float32)}, metadata, name)
    )


def attentions(spec: DecoderSpec) -> list[AttentionSpec]:
    """The attention of each layer."""
    found = [layer.attention for layer in spec.layers]
    return [attention for attention in found if isinstance(attention, AttentionSpec)]
