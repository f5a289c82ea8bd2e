"""Encoder family, metadata and tensors -> EncoderSpec."""

from __future__ import annotations

from mrs.errors import CorruptCheckpointError, UnsupportedArchitectureError
from mrs.export.architectures.embedding_spec import EncoderSpec
from mrs.export.architectures.encoder_family import EncoderFamily
from mrs.export.architectures.metadata import ArchitectureMetadata
from mrs.export.architectures.spec import (
    LARGEST_CONTEXT,
    Activation,
    MlpSpec,
    NormKind,
    NormSpec,
)
from mrs.export.checkpoints.checkpoint import Checkpoint

_POSITIONS = "position_embd.weight"
# A quarter of them is for single distances, of which 128 are told apart.
_MOST_BUCKETS = 256


def describe_encoder(family: EncoderFamily, checkpoint: Checkpoint) -> EncoderSpec:
    """Describe a checkpoint of a family, under canonical names.

    Raises:
        CorruptCheckpointError: metadata is missing or contradicts itself or the tensors.
        UnsupportedArchitectureError: a variant that is not exported.
    """
    metadata = ArchitectureMetadata(checkpoint)
    _refuse_variants(family, metadata)
    hidden, heads = metadata.size("embedding_length"), metadata.size("attention.head_count")
    if hidden % heads:
        raise CorruptCheckpointError(
            f"{heads} attention heads cannot share a width of {hidden}.",
            hint="Convert the model again with a current converter.",
        )
    first = _first_position(family, metadata, checkpoint)
    rows = _rows(checkpoint, _POSITIONS)
    if not first < rows <= LARGEST_CONTEXT:
        raise CorruptCheckpointError(
            f"The position table {_POSITIONS} has {rows} rows, of which the first {first} stand "
            "for no position.",
            hint="Download the model again.",
        )
    return EncoderSpec(
        architecture=family.name,
        hidden_size=hidden,
        vocab_size=_rows(checkpoint, "token_embd.weight"),
        context_length=rows - first,
        first_position=first,
        num_layers=metadata.size("block_count"),
        num_heads=heads,
        norm=NormSpec(NormKind.LAYER, metadata.number("attention.layer_norm_epsilon")),
        mlp=MlpSpec(
            width=metadata.size("feed_forward_length"),
            activation=_activation(family, metadata),
            gated=False,
        ),
        distance_buckets=_distance_buckets(family, metadata),
    )


def _activation(family: EncoderFamily, metadata: ArchitectureMetadata) -> Activation:
    name = metadata.text("hidden_activation", family.activation.value)
    if name not in {member.value for member in Activation}:
        raise UnsupportedArchitectureError(
            f"The activation {name!r:.80} of this {family.name} model is not supported.",
            hint="Export a model with gelu or relu.",
        )
    return Activation(name)


def _distance_buckets(family: EncoderFamily, metadata: ArchitectureMetadata) -> int:
    buckets = metadata.optional_size("distance_buckets") or 0
    if buckets and not 4 <= buckets <= _MOST_BUCKETS:
        raise UnsupportedArchitectureError(
            f"This {family.name} model has {buckets} classes of distance; 4 to {_MOST_BUCKETS} are "
            "supported.",
            hint="Export a model of a supported family.",
        )
    return buckets


def _refuse_variants(family: EncoderFamily, metadata: ArchitectureMetadata) -> None:
    kind = metadata.text("position_embedding_type", "absolute")
    if kind != "absolute":
        raise UnsupportedArchitectureError(
            f"The position embedding {kind!r:.80} of this {family.name} model is not supported; "
            "supported is: absolute.",
            hint="Export a model of a supported family.",
        )
    if metadata.flag("is_decoder", False) or metadata.flag("attention.causal", False):
        raise UnsupportedArchitectureError(
            f"This {family.name} model attends in one direction; only encoders are supported.",
            hint="Export a model that was made for embeddings.",
        )


def _first_position(
    family: EncoderFamily, metadata: ArchitectureMetadata, checkpoint: Checkpoint
) -> int:
    """RoBERTa's positions start behind the id of the padding token."""
    key = f"{family.name}.padding_token_id"
    if key not in checkpoint.metadata:
        return 0
    padding = checkpoint.metadata[key]
    return 1 if padding == 0 else metadata.size("padding_token_id") + 1


def _rows(checkpoint: Checkpoint, name: str) -> int:
    table = checkpoint.tensors.get(name)
    if table is None or len(table.shape) != 2:
        raise CorruptCheckpointError(
            f"The checkpoint lacks the matrix {name}.",
            hint="Convert the model again with a current converter.",
        )
    return table.shape[0]
