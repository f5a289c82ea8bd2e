"""A tiny embedding model as a GGUF file, the way llama.cpp's converter stores it.

`tests.reference.check_gguf_embeddings` shows that llama.cpp makes the reference's vectors of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrs.export.checkpoints.checkpoint import Checkpoint
from mrs.export.opened_model import open_model
from tests.export.gguf_files import write_gguf
from tests.reference.tiny_embedding import VOCABULARY, TinyEmbedding, write_reference_model
from tests.reference.tiny_reranker import TinyReranker, write_reference_reranker

Array = NDArray[np.float32]
_POOLINGS = {"mean_tokens": 1, "cls_token": 2, "lasttoken": 3}
# Keys that only a configuration has.
_OURS = (
    *("hidden_activation", "position_embedding_type", "padding_token_id", "is_decoder"),
    *("attention.sliding_window_pattern", "attention.scale", "rope.freq_base_swa"),
)


def write_gguf_embedding(model: TinyEmbedding, folder: Path) -> Path:
    """Write ``model.gguf`` beside the Hugging Face form."""
    checkpoint = open_model(write_reference_model(model, folder)).checkpoint
    assert model.gguf is not None
    metadata = _metadata(checkpoint, model.gguf)
    metadata[f"{model.gguf}.pooling_type"] = _POOLINGS[model.pooling]
    if model.gguf == "bert":
        metadata["bert.attention.causal"] = False
        metadata["tokenizer.ggml.token_type_count"] = model.config.get("type_vocab_size", 1)
    tensors = {name: _as_stored(checkpoint, name) for name in checkpoint.tensors}
    padding = checkpoint.metadata.get("roberta.padding_token_id")
    if isinstance(padding, int):
        cut = tensors["position_embd.weight"][padding + 1 :]
        tensors["position_embd.weight"] = np.ascontiguousarray(cut)
        metadata["bert.context_length"] = len(cut)
    for index, dense in enumerate(model.dense, 2):
        metadata[f"{model.gguf}.dense_{index}_feat_in"] = dense.inputs
        metadata[f"{model.gguf}.dense_{index}_feat_out"] = dense.outputs
    return write_gguf(folder / "model.gguf", metadata, tensors)


def write_gguf_reranker(
    model: TinyReranker,
    folder: Path,
    *,
    squeezed: bool = False,
    vocabulary: Mapping[str, Any] | None = None,
    left_out: Sequence[str] = (),
) -> Path:
    """The same for a reranker made from RoBERTa.

    Args:
        model: the one.
        folder: where.
        squeezed: the output layer is a vector, as old converters store it.
        vocabulary: metadata of one; by default there is none.
        left_out: tensors that are not stored.
    """
    checkpoint = open_model(write_reference_reranker(model, folder)).checkpoint
    metadata = {**_metadata(checkpoint, "bert"), "bert.pooling_type": 4}
    metadata["bert.attention.causal"] = False
    metadata.update(vocabulary or {})
    metadata["tokenizer.ggml.token_type_count"] = 1
    metadata["bert.classifier.output_labels"] = ["LABEL_0"]
    tensors = {
        name.replace("cls_output", "cls.output"): _as_stored(checkpoint, name)
        for name in checkpoint.tensors
    }
    cut = tensors["position_embd.weight"][int(model.config["pad_token_id"]) + 1 :]
    tensors["position_embd.weight"] = np.ascontiguousarray(cut)
    metadata["bert.context_length"] = len(cut)
    for name in left_out:
        del tensors[name]
    if squeezed:
        tensors["cls.output.weight"] = tensors["cls.output.weight"].reshape(-1)
    return write_gguf(folder / "model.gguf", metadata, tensors)


def _metadata(checkpoint: Checkpoint, name: str) -> dict[str, Any]:
    prefix = f"{checkpoint.architecture}."
    kept = {
        f"{name}.{key.removeprefix(prefix)}": value
        for key, value in checkpoint.metadata.items()
        if key.removeprefix(prefix) not in _OURS
    }
    # llama.cpp knows by the architecture.
    kept.pop("gemma-embedding.attention.causal", None)
    kept[f"{name}.vocab_size"] = VOCABULARY
    if f"{name}.attention.key_length" in kept:
        kept[f"{name}.attention.value_length"] = kept[f"{name}.attention.key_length"]
    return {"general.architecture": name, "tokenizer.ggml.model": "no_vocab", **kept}


def _as_stored(checkpoint: Checkpoint, name: str) -> Array:
    info = checkpoint.tensors[name]
    rows = int(np.prod(info.shape[:-1]))
    values = checkpoint.read_rows(name, 0, rows).view("<f4").reshape(info.shape)
    if checkpoint.architecture.startswith("gemma") and name.endswith("norm.weight"):
        return values + np.float32(1)
    return values
