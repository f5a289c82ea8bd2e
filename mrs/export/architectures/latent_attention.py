"""Family, metadata and tensors -> LatentAttentionSpec."""

from __future__ import annotations

import math
from dataclasses import replace

from mrs.errors import CorruptCheckpointError, UnsupportedArchitectureError
from mrs.export.architectures.metadata import ArchitectureMetadata
from mrs.export.architectures.rope_scaling import rope_scaling
from mrs.export.architectures.spec import (
    LatentAttentionSpec,
    RopeLayout,
    RopeScaling,
    RopeSpec,
    YarnScaling,
)
from mrs.export.checkpoints.checkpoint import Checkpoint, CheckpointFormat

# The norms of what is compressed have this epsilon in transformers, whatever the others have.
_TRANSFORMERS_EPSILON = 1e-6


def latent_attention_spec(
    checkpoint: Checkpoint, metadata: ArchitectureMetadata, block: int
) -> LatentAttentionSpec:
    """The attention of a block.

    Raises:
        CorruptCheckpointError: metadata is missing or contradicts itself.
        UnsupportedArchitectureError: sizes that are not exported.
    """
    if metadata.optional_number("attention.temperature_scale") is not None:
        raise UnsupportedArchitectureError(
            "The attention of this checkpoint changes its temperature with the position.",
            hint="Export another model.",
        )
    rotated = metadata.size("rope.dimension_count")
    # Newer GGUF files tell the sizes of the expanded heads apart from those of the compressed.
    key = metadata.optional_size("attention.key_length_mla") or metadata.size(
        "attention.key_length"
    )
    value = metadata.optional_size("attention.value_length_mla") or metadata.size(
        "attention.value_length"
    )
    if rotated >= key:
        raise CorruptCheckpointError(
            f"{rotated} of {key} dimensions of a key are rotated; some should not be.",
            hint="Convert the model again with a current converter.",
        )
    if rotated % 16:
        raise UnsupportedArchitectureError(
            f"{rotated} dimensions of a key are rotated; that must be a multiple of 16.",
            hint="Export a model with another rotary size.",
        )
    scaling = rope_scaling(checkpoint, metadata, rotated)
    scale, scaling = _scaled(checkpoint, metadata, key**-0.5, scaling)
    interleaved = metadata.flag("rope.interleaved", True)
    whole_query = f"blk.{block}.attn_q.weight" in checkpoint.tensors
    huggingface = checkpoint.format is CheckpointFormat.HUGGING_FACE
    return LatentAttentionSpec(
        num_heads=metadata.size("attention.head_count"),
        query_rank=None if whole_query else metadata.size("attention.q_lora_rank"),
        kv_rank=metadata.size("attention.kv_lora_rank"),
        plain_dim=key - rotated,
        rope=RopeSpec(
            base=metadata.number("rope.freq_base", 10000.0),
            dims=rotated,
            layout=RopeLayout.PAIRS if interleaved else RopeLayout.HALVES,
            scaling=scaling,
        ),
        value_dim=value,
        scale=scale,
        norm_epsilon=_TRANSFORMERS_EPSILON
        if huggingface
        else metadata.number("attention.layer_norm_rms_epsilon"),
    )


def _scaled(
    checkpoint: Checkpoint,
    metadata: ArchitectureMetadata,
    scale: float,
    scaling: RopeScaling | None,
) -> tuple[float, RopeScaling | None]:
    """YaRN's factor is in the scale of the products, instead of in cosines and sines.

    GGUF's key for it is 0.1 times ``mscale_all_dim`` of ``config.json``. With it, llama.cpp takes
    ``mscale`` to be the same, which leaves cosines and sines as they are.
    """
    multiplier = metadata.optional_number("rope.scaling.yarn_log_multiplier")
    if not isinstance(scaling, YarnScaling) or multiplier is None:
        return scale, scaling
    if scaling.factor > 1:
        scale *= (1.0 + multiplier * math.log(scaling.factor)) ** 2
    if checkpoint.format is CheckpointFormat.GGUF:
        scaling = replace(scaling, attention_factor=1.0)
    return scale, scaling
