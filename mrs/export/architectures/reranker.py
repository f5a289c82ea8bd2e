"""Rerankers: encoders whose head tells how well two texts belong together (cross-encoders).

Nogueira and Cho, Passage Re-ranking with BERT (arXiv:1901.04085). In transformers they are the
``ForSequenceClassification`` models with one label.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from mrs.errors import CorruptCheckpointError, UnsupportedArchitectureError
from mrs.export.architectures.embedding_spec import (
    DenseSpec,
    EmbeddingHead,
    Pooling,
    ScoreActivation,
)
from mrs.export.architectures.encoder_family import ClassifierForm, EncoderFamily
from mrs.export.checkpoints.checkpoint import Checkpoint, TensorInfo
from mrs.export.checkpoints.hf_config import HfConfig, read_hf_config

_CLASS = "ForSequenceClassification"
_DENSE, _OUTPUT = "cls", "cls_output"
_GGUF_OUTPUT = "cls.output"
_POOLER = "*pooler.dense.*"

_ACTIVATIONS: Mapping[str, ScoreActivation] = {
    "Sigmoid": ScoreActivation.SIGMOID,
    "Identity": ScoreActivation.IDENTITY,
}


def is_classifier(config: HfConfig) -> bool:
    """Whether a folder holds a model with a head for labels."""
    return any(name.endswith(_CLASS) for name in config.architectures)


def with_classifier(family: EncoderFamily) -> EncoderFamily:
    """The family as it is stored with its head for labels."""
    form, head = family.huggingface, family.classifier
    ignored = form.ignored
    if head.dense.startswith("pooler."):
        ignored = tuple(pattern for pattern in ignored if pattern != _POOLER)
    tensors = {**form.tensors, head.dense: _DENSE, head.output: _OUTPUT}
    return replace(family, huggingface=replace(form, tensors=tensors, ignored=ignored))


def folder_reranker_head(
    folder: Path, checkpoint: Checkpoint, family: EncoderFamily
) -> EmbeddingHead:
    """The head of a folder's reranker.

    Raises:
        UnsupportedArchitectureError: it has several labels, or another activation.
        CorruptCheckpointError: tensors of it are missing.
    """
    head = _head(checkpoint, family.classifier, _OUTPUT)
    return replace(head, score=_activation(read_hf_config(folder)))


def gguf_reranker_head(checkpoint: Checkpoint, family: EncoderFamily) -> EmbeddingHead:
    """The head of a reranker in GGUF. The file does not say what becomes of the logit.

    Raises:
        UnsupportedArchitectureError: it has several labels.
        CorruptCheckpointError: tensors of it are missing.
    """
    if f"{_DENSE}.weight" not in checkpoint.tensors:
        raise UnsupportedArchitectureError(
            f"This {family.name} reranker lacks the layer {_DENSE}, without which its scores are "
            "others.",
            hint="Export the Hugging Face folder that it was made from.",
        )
    return _head(checkpoint, family.classifier, _GGUF_OUTPUT)


def unsupported_classifier(architecture: str) -> UnsupportedArchitectureError:
    """The error for a decoder with a head for labels."""
    return UnsupportedArchitectureError(
        f"This {architecture} model classifies texts; of such models only rerankers made from "
        "encoders are supported.",
        hint="Export a reranker made from BERT or XLM-RoBERTa, such as bge-reranker-v2-m3.",
    )


def _head(checkpoint: Checkpoint, form: ClassifierForm, output: str) -> EmbeddingHead:
    labels, *_ = (1, *_tensor(checkpoint, f"{output}.weight").shape)[-2:]
    if labels != 1:
        raise UnsupportedArchitectureError(
            f"This {checkpoint.architecture} model tells {labels} labels apart; supported are "
            "rerankers, which have one.",
            hint="Export a model that was made to rank texts.",
        )
    width = _tensor(checkpoint, f"{_DENSE}.weight").shape[0]
    for stem in (_DENSE, output):
        _tensor(checkpoint, f"{stem}.bias")
    return EmbeddingHead(
        Pooling.CLS,
        (DenseSpec(_DENSE, width, width, form.activation), DenseSpec(output, width, 1)),
        normalize=False,
        score=ScoreActivation.SIGMOID,
    )


def _tensor(checkpoint: Checkpoint, name: str) -> TensorInfo:
    info = checkpoint.tensors.get(name)
    if info is None or not info.shape:
        raise CorruptCheckpointError(
            f"The checkpoint lacks {name}, a part of the head that makes the score.",
            hint="Download the model again.",
        )
    return info


def _activation(config: HfConfig) -> ScoreActivation:
    """What sentence-transformers makes of the logit: a sigmoid, unless the model says otherwise."""
    section = config.optional_section("sentence_transformers")
    name = None if section is None else section.optional_text("activation_fn")
    name = name or config.optional_text("sbert_ce_default_activation_function") or "Sigmoid"
    activation = _ACTIVATIONS.get(name.rsplit(".", 1)[-1])
    if activation is None:
        raise UnsupportedArchitectureError(
            f"The activation {name!r:.80} of this reranker's score is not supported; supported: "
            f"{', '.join(sorted(_ACTIVATIONS))}.",
            hint="Export a reranker with one of these.",
        )
    return activation
