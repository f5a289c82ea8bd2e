"""Which checkpoints are embedding models, and which of them are refused, by what they lack."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrs.errors import CorruptCheckpointError, MrsError, UnsupportedArchitectureError
from mrs.export.architectures.describe_encoder import describe_encoder
from mrs.export.architectures.embedding import describe_embedding, gguf_head
from mrs.export.architectures.embedding_spec import (
    DenseSpec,
    EmbeddingHead,
    EmbeddingSpec,
    EncoderSpec,
    Pooling,
)
from mrs.export.architectures.registry import ENCODER_ARCHITECTURES, decoder_spec
from mrs.export.architectures.spec import Activation, DecoderSpec
from mrs.export.opened_model import open_model
from tests.export.memory_checkpoint import MemoryCheckpoint
from tests.reference.embedding_cases import CASES
from tests.reference.gguf_embedding_form import write_gguf_embedding
from tests.reference.tiny_embedding import TinyEmbedding, write_reference_model

BY_NAME = {case.name: case for case in CASES}
BERT_KEYS: dict[str, Any] = {
    "bert.embedding_length": 48,
    "bert.block_count": 2,
    "bert.feed_forward_length": 80,
    "bert.attention.head_count": 4,
    "bert.attention.layer_norm_epsilon": 1e-12,
    "bert.attention.causal": False,
    "bert.pooling_type": 1,
}


def bert(**changes: Any) -> MemoryCheckpoint:
    tensors = {
        "token_embd.weight": np.zeros((96, 48), np.float32),
        "position_embd.weight": np.zeros((40, 48), np.float32),
    }
    keys = {f"bert.{key}": value for key, value in changes.items()}
    return MemoryCheckpoint(tensors, {**BERT_KEYS, **keys}, architecture="bert")


def described(checkpoint: MemoryCheckpoint) -> EncoderSpec:
    return describe_encoder(ENCODER_ARCHITECTURES["bert"], checkpoint)


def test_sizes_are_read_off_the_tensors() -> None:
    spec = described(bert(context_length=512, vocab_size=5))
    assert (spec.context_length, spec.vocab_size, spec.head_dim) == (40, 96, 12)
    assert spec.mlp.activation is Activation.GELU
    assert not spec.mlp.gated


def test_heads_must_share_the_width() -> None:
    with pytest.raises(CorruptCheckpointError, match="5 attention heads"):
        described(bert(**{"attention.head_count": 5}))


@pytest.mark.parametrize("key", [key for key in BERT_KEYS if not key.endswith(("causal", "type"))])
def test_a_missing_key_is_named(key: str) -> None:
    checkpoint = bert()
    assert isinstance(checkpoint.metadata, dict)
    del checkpoint.metadata[key]
    with pytest.raises(CorruptCheckpointError, match=key.replace(".", r"\.")):
        described(checkpoint)


@pytest.mark.parametrize("tensor", ["token_embd.weight", "position_embd.weight"])
def test_a_missing_table_is_named(tensor: str) -> None:
    checkpoint = bert()
    assert isinstance(checkpoint.stored, dict)
    del checkpoint.stored[tensor]
    with pytest.raises(CorruptCheckpointError, match=tensor):
        described(checkpoint)


def test_relative_positions_are_refused() -> None:
    with pytest.raises(UnsupportedArchitectureError, match="relative_key"):
        described(bert(position_embedding_type="relative_key"))


@pytest.mark.parametrize("change", [{"is_decoder": True}, {"attention.causal": True}])
def test_a_bert_that_generates_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedArchitectureError, match="one direction"):
        described(bert(**change))


@pytest.mark.parametrize(
    ("kind", "pooling"), [(1, Pooling.MEAN), (2, Pooling.CLS), (3, Pooling.LAST)]
)
def test_gguf_poolings(kind: int, pooling: Pooling) -> None:
    assert gguf_head(bert(pooling_type=kind)) == EmbeddingHead(pooling, (), normalize=True)


@pytest.mark.parametrize(
    ("kind", "message"),
    [(0, "names no pooling"), (4, "lacks the layer cls"), (7, "type 7"), ("x", "'x'")],
)
def test_other_gguf_poolings_are_refused(kind: Any, message: str) -> None:
    with pytest.raises(UnsupportedArchitectureError, match=message):
        gguf_head(bert(pooling_type=kind))


def test_a_generator_in_gguf_is_none() -> None:
    assert gguf_head(MemoryCheckpoint(architecture="qwen3")) is None
    assert (
        gguf_head(MemoryCheckpoint(metadata={"qwen3.pooling_type": 0}, architecture="qwen3"))
        is None
    )


def test_a_ranking_model_of_a_decoder_is_refused() -> None:
    checkpoint = MemoryCheckpoint(metadata={"qwen3.pooling_type": 4}, architecture="qwen3")
    with pytest.raises(UnsupportedArchitectureError, match="ranks pairs"):
        gguf_head(checkpoint)


def test_embeddinggemma_in_gguf_needs_its_linear_layers() -> None:
    metadata = {"gemma-embedding.pooling_type": 1}
    checkpoint = MemoryCheckpoint(metadata=metadata, architecture="gemma-embedding")
    with pytest.raises(CorruptCheckpointError, match="dense_2, dense_3") as caught:
        gguf_head(checkpoint)
    assert "--sentence-transformers-dense-modules" in caught.value.hint


def test_linear_layers_must_fit_each_other() -> None:
    head = EmbeddingHead(Pooling.MEAN, (DenseSpec("dense_2", 48, 8), DenseSpec("dense_3", 9, 4)))
    with pytest.raises(CorruptCheckpointError, match="dense_3 takes 9 values, but gets 8"):
        describe_embedding(bert(), head)


def test_a_vector_is_as_long_as_the_last_layer() -> None:
    head = EmbeddingHead(Pooling.MEAN, (DenseSpec("dense_2", 48, 8), DenseSpec("dense_3", 8, 4)))
    assert describe_embedding(bert(), head).size == 4
    assert describe_embedding(bert(), EmbeddingHead(Pooling.MEAN)).size == 48


def test_an_encoder_without_modules_is_refused(tmp_path: Path) -> None:
    folder = write_reference_model(BY_NAME["bert-mean"], tmp_path)
    (folder / "modules.json").unlink()
    with pytest.raises(UnsupportedArchitectureError, match=r"modules\.json"):
        open_model(folder)


def test_a_decoder_without_modules_generates(tmp_path: Path) -> None:
    folder = write_reference_model(BY_NAME["qwen3-last"], tmp_path)
    assert isinstance(open_model(folder).spec(), EmbeddingSpec)
    (folder / "modules.json").unlink()
    assert isinstance(open_model(folder).spec(), DecoderSpec)


def test_a_decoder_that_sees_both_ways_does_not_generate(tmp_path: Path) -> None:
    folder = write_reference_model(BY_NAME["embeddinggemma-mean"], tmp_path)
    with pytest.raises(UnsupportedArchitectureError, match="both directions"):
        decoder_spec(open_model(folder).checkpoint)


@pytest.mark.parametrize("write", [write_reference_model, write_gguf_embedding])
def test_windows_of_embeddinggemma(
    write: Callable[[TinyEmbedding, Path], Path], tmp_path: Path
) -> None:
    body = open_model(write(BY_NAME["embeddinggemma"], tmp_path)).spec().body  # type: ignore[union-attr]
    assert isinstance(body, DecoderSpec)
    attention = [layer.attention for layer in body.layers]
    assert [part.window for part in attention] == [8, 8, 8, 8, 8, None, 8]  # type: ignore[union-attr]
    assert not any(part.causal for part in attention)  # type: ignore[union-attr]


def test_roberta_counts_from_behind_the_padding(tmp_path: Path) -> None:
    body = open_model(write_reference_model(BY_NAME["xlm-roberta-mean"], tmp_path)).spec().body  # type: ignore[union-attr]
    assert isinstance(body, EncoderSpec)
    assert (body.first_position, body.context_length) == (2, 48)


def test_a_linear_layer_as_pickle_is_refused(tmp_path: Path) -> None:
    folder = write_reference_model(BY_NAME["bert-dense"], tmp_path)
    (folder / "2_Dense" / "model.safetensors").rename(folder / "2_Dense" / "pytorch_model.bin")
    with pytest.raises(MrsError, match="2_Dense"):
        open_model(folder)


@pytest.mark.parametrize("buckets", [1, 3, 257, 100_000])
def test_classes_of_distance_are_bounded(buckets: int) -> None:
    with pytest.raises(UnsupportedArchitectureError, match=f"{buckets} classes of distance"):
        described(bert(distance_buckets=buckets))


def test_an_activation_that_mrs_does_not_have() -> None:
    with pytest.raises(UnsupportedArchitectureError, match="'sinh'"):
        described(bert(hidden_activation="sinh"))


def test_windows_to_both_sides_are_refused(tmp_path: Path) -> None:
    folder = write_reference_model(BY_NAME["qwen2-both-ways"], tmp_path)
    config = json.loads((folder / "config.json").read_text())
    config |= {"use_sliding_window": True, "sliding_window": 8}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnsupportedArchitectureError, match="sliding window"):
        open_model(folder)
