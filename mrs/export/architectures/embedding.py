"""A checkpoint and its head -> EmbeddingSpec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mrs.errors import CorruptCheckpointError, UnsupportedArchitectureError
from mrs.export.architectures.describe import describe_decoder
from mrs.export.architectures.describe_encoder import describe_encoder
from mrs.export.architectures.embedding_spec import (
    DenseSpec,
    EmbeddingHead,
    EmbeddingSpec,
    Pooling,
)
from mrs.export.architectures.gemma_embedding import GEMMA_EMBEDDING
from mrs.export.architectures.registry import (
    EMBEDDING_ARCHITECTURES,
    ENCODER_ARCHITECTURES,
    family_of,
)
from mrs.export.architectures.reranker import gguf_reranker_head
from mrs.export.checkpoints.checkpoint import Checkpoint

# Source: enum llama_pooling_type of llama.cpp.
_GGUF_POOLINGS: Mapping[int, Pooling] = {1: Pooling.MEAN, 2: Pooling.CLS, 3: Pooling.LAST}
_RANK = 4
_DENSE = ("dense_2", "dense_3")


def describe_embedding(checkpoint: Checkpoint, head: EmbeddingHead) -> EmbeddingSpec:
    """Describe an embedding model or a reranker whose head is known.

    Raises:
        UnsupportedArchitectureError: the family is unknown, or a variant that is not exported.
        CorruptCheckpointError: metadata or tensors are missing or contradict each other.
    """
    encoder = ENCODER_ARCHITECTURES.get(checkpoint.architecture)
    if encoder is not None:
        body = describe_encoder(encoder, checkpoint)
        if head.score is not None:
            body = replace(body, second_type=_has_second_type(checkpoint))
        spec = EmbeddingSpec(body, head)
    else:
        family = EMBEDDING_ARCHITECTURES.get(checkpoint.architecture) or family_of(checkpoint)
        spec = EmbeddingSpec(describe_decoder(family, checkpoint, embeds=True), head)
    width = spec.body.hidden_size
    for dense in head.dense:
        if dense.inputs != width:
            raise CorruptCheckpointError(
                f"The linear layer {dense.tensor} takes {dense.inputs} values, but gets {width}.",
                hint="Download the model again.",
            )
        width = dense.outputs
    return spec


def _has_second_type(checkpoint: Checkpoint) -> bool:
    types = checkpoint.tensors.get("token_types.weight")
    return types is not None and len(types.shape) == 2 and types.shape[0] > 1


def is_encoder(checkpoint: Checkpoint) -> bool:
    """Whether a checkpoint cannot generate text."""
    return checkpoint.architecture in ENCODER_ARCHITECTURES


def gguf_head(checkpoint: Checkpoint) -> EmbeddingHead | None:
    """What follows the body in a GGUF file; None if the model generates text.

    GGUF does not say whether vectors are normalised: llama.cpp does so for all models.

    Raises:
        UnsupportedArchitectureError: no pooling is named, or one that mrs does not have.
        CorruptCheckpointError: linear layers are missing.
    """
    name = checkpoint.architecture
    embeds = is_encoder(checkpoint) or name == GEMMA_EMBEDDING.name
    kind = checkpoint.metadata.get(f"{name}.pooling_type", 0)
    if not embeds and kind == 0:
        return None
    if kind == _RANK and is_encoder(checkpoint):
        return gguf_reranker_head(checkpoint, ENCODER_ARCHITECTURES[name])
    if type(kind) is not int or kind not in _GGUF_POOLINGS:
        raise _unsupported_pooling(name, kind)
    return EmbeddingHead(_GGUF_POOLINGS[kind], _gguf_dense(checkpoint))


def unknown_pooling(architecture: str) -> UnsupportedArchitectureError:
    """The error for a folder that only says how token vectors are made."""
    return UnsupportedArchitectureError(
        f"This {architecture} model has no modules.json, which says how the vectors of tokens "
        "become one.",
        hint="Get the model's files for sentence-transformers too (modules.json, 1_Pooling).",
    )


def _gguf_dense(checkpoint: Checkpoint) -> tuple[DenseSpec, ...]:
    shapes = {
        stem: info.shape
        for stem in _DENSE
        if (info := checkpoint.tensors.get(f"{stem}.weight")) is not None and len(info.shape) == 2
    }
    needs_all = checkpoint.architecture == GEMMA_EMBEDDING.name
    if needs_all and len(shapes) < len(_DENSE):
        raise CorruptCheckpointError(
            f"This {checkpoint.architecture} model lacks its linear layers "
            f"({', '.join(stem for stem in _DENSE if stem not in shapes)}), without which its "
            "vectors are others.",
            hint="Convert it with llama.cpp's option --sentence-transformers-dense-modules, or "
            "export the folder that it was made from.",
        )
    return tuple(DenseSpec(stem, shape[1], shape[0]) for stem, shape in shapes.items())


def _unsupported_pooling(name: str, kind: object) -> UnsupportedArchitectureError:
    if kind == _RANK:
        return UnsupportedArchitectureError(
            f"This {name} model ranks pairs of texts; of such models only encoders are supported.",
            hint="Export a reranker made from BERT or XLM-RoBERTa, such as bge-reranker-v2-m3.",
        )
    what = "names no pooling" if kind == 0 else f"has the pooling type {kind!r:.20}"
    return UnsupportedArchitectureError(
        f"This {name} model {what}; supported: 1 (mean), 2 (cls), 3 (last), and of "
        "encoders 4 (rank).",
        hint="Convert it again with its sentence-transformers files (modules.json, 1_Pooling).",
    )
