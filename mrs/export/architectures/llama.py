"""The Llama family (Touvron et al., arXiv:2302.13971): Llama 1-3.x, SmolLM and their kin."""

from __future__ import annotations

from mrs.errors import CorruptCheckpointError, UnsupportedArchitectureError
from mrs.export.architectures.metadata import ArchitectureMetadata
from mrs.export.architectures.spec import (
    LARGEST_CONTEXT,
    AttentionSpec,
    DecoderSpec,
    RopeLayout,
    RopeSpec,
)
from mrs.export.checkpoints.checkpoint import Checkpoint

ROPE_FACTORS_TENSOR = "rope_freqs.weight"


def llama_spec(checkpoint: Checkpoint) -> DecoderSpec:
    """Describe a llama checkpoint.

    Raises:
        CorruptCheckpointError: metadata is missing or contradicts itself.
        UnsupportedArchitectureError: a variant that is not exported (experts, YaRN, encoders).
    """
    metadata = ArchitectureMetadata(checkpoint)
    if experts := metadata.optional_size("expert_count"):
        raise UnsupportedArchitectureError(
            f"This llama checkpoint has {experts} experts; mixtures of experts are not supported.",
            hint="Export a dense model.",
        )
    if checkpoint.metadata.get(f"{checkpoint.architecture}.attention.causal") is False:
        raise UnsupportedArchitectureError(
            "This llama checkpoint attends in both directions; only causal models are supported.",
            hint="Export a model that generates text.",
        )
    hidden = metadata.size("embedding_length")
    return DecoderSpec(
        architecture=checkpoint.architecture,
        hidden_size=hidden,
        intermediate_size=metadata.size("feed_forward_length"),
        num_layers=metadata.size("block_count"),
        vocab_size=_vocab_size(checkpoint),
        context_length=metadata.size("context_length", largest=LARGEST_CONTEXT),
        norm_epsilon=metadata.number("attention.layer_norm_rms_epsilon"),
        attention=_attention(checkpoint, metadata, hidden),
        tied_embeddings="output.weight" not in checkpoint.tensors,
    )


def _attention(
    checkpoint: Checkpoint, metadata: ArchitectureMetadata, hidden: int
) -> AttentionSpec:
    heads = metadata.size("attention.head_count")
    kv_heads = metadata.size("attention.head_count_kv", heads)
    if heads % kv_heads:
        raise CorruptCheckpointError(
            f"{heads} query heads cannot be shared out to {kv_heads} key/value heads.",
            hint="Convert the model again with a current converter.",
        )
    head_dim = metadata.size("attention.key_length", max(1, hidden // heads))
    if head_dim % 8:
        raise UnsupportedArchitectureError(
            f"The head size is {head_dim}; ONNX Runtime's attention needs a multiple of 8.",
            hint="Export a model with another head size.",
        )
    return AttentionSpec(heads, kv_heads, head_dim, _rope(checkpoint, metadata, head_dim))


def _rope(checkpoint: Checkpoint, metadata: ArchitectureMetadata, head_dim: int) -> RopeSpec:
    dims = metadata.size("rope.dimension_count", head_dim)
    if dims % 16 or dims > head_dim:
        raise UnsupportedArchitectureError(
            f"{dims} of {head_dim} dimensions are rotated; that must be a multiple of 16 "
            f"and at most the head size.",
            hint="Export a model with another rotary size.",
        )
    return RopeSpec(
        base=metadata.number("rope.freq_base", 10000.0),
        dims=dims,
        layout=RopeLayout.PAIRS,
        scale=_position_scale(metadata),
        factors=ROPE_FACTORS_TENSOR if ROPE_FACTORS_TENSOR in checkpoint.tensors else None,
    )


def _position_scale(metadata: ArchitectureMetadata) -> float:
    """What positions are divided by; a factor without a type is linear, as llama.cpp reads it."""
    scaling = metadata.text("rope.scaling.type", "linear")
    if scaling not in ("none", "linear"):
        raise UnsupportedArchitectureError(
            f"The rope scaling {scaling!r:.80} is not supported; supported are: none, linear, "
            f"and frequency factors ({ROPE_FACTORS_TENSOR}).",
            hint="Export a model with one of these.",
        )
    if scaling == "none":
        return 1.0
    factor = metadata.optional_number("rope.scaling.factor")
    # Files of 2023 call it otherwise.
    return factor or metadata.optional_number("rope.scale_linear") or 1.0


def _vocab_size(checkpoint: Checkpoint) -> int:
    embedding = checkpoint.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise CorruptCheckpointError(
            "The checkpoint lacks the matrix token_embd.weight.",
            hint="Convert the model again with a current converter.",
        )
    return embedding.shape[0]
