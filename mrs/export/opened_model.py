"""A checkpoint of either kind, opened, and whether it generates, embeds or ranks texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mrs.export.architectures.canonical_gguf import open_canonical_gguf
from mrs.export.architectures.embedding import (
    describe_embedding,
    gguf_head,
    is_encoder,
    unknown_pooling,
)
from mrs.export.architectures.embedding_spec import EmbeddingHead, EmbeddingSpec
from mrs.export.architectures.huggingface import open_huggingface
from mrs.export.architectures.registry import ENCODER_ARCHITECTURES, decoder_spec
from mrs.export.architectures.reranker import (
    folder_reranker_head,
    is_classifier,
    unsupported_classifier,
)
from mrs.export.architectures.sentence_transformers import (
    TextRules,
    read_sentence_transformer,
    tokenizer_limit,
)
from mrs.export.architectures.spec import DecoderSpec
from mrs.export.checkpoints.checkpoint import Checkpoint
from mrs.export.checkpoints.hf_config import read_hf_config
from mrs.export.checkpoints.joined_checkpoint import JoinedCheckpoint
from mrs.export.checkpoints.safetensors_reader import SafetensorsFolder, open_safetensors


@dataclass(frozen=True)
class OpenedModel:
    """A checkpoint with its tensors mapped.

    Attributes:
        checkpoint: metadata and tensors.
        head: what makes a vector of a text, or the score of two; None if the model generates text.
        texts: how an embedding model's texts are prepared.
    """

    checkpoint: Checkpoint
    head: EmbeddingHead | None = None
    texts: TextRules = field(default_factory=TextRules)

    def spec(self) -> DecoderSpec | EmbeddingSpec:
        """What the model is made of.

        Raises:
            CheckpointError: something in it is not what it should be, or is not supported.
        """
        if self.head is None:
            return decoder_spec(self.checkpoint)
        return describe_embedding(self.checkpoint, self.head)

    def close(self) -> None:
        """Unmap the files."""
        self.checkpoint.close()


def open_model(path: Path) -> OpenedModel:
    """Open a GGUF file or a Hugging Face folder; no tensor is read.

    Raises:
        CheckpointError: something in it is not what it should be, or is not supported.
        SourceError, StorageError: a file is missing or cannot be read.
    """
    checkpoint: Checkpoint = _open(path)
    try:
        return _of_folder(path, checkpoint) if path.is_dir() else _of_file(checkpoint)
    except BaseException:
        checkpoint.close()
        raise


def _open(path: Path) -> Checkpoint:
    return open_huggingface(path) if path.is_dir() else open_canonical_gguf(path)


def _of_file(checkpoint: Checkpoint) -> OpenedModel:
    return OpenedModel(checkpoint, gguf_head(checkpoint))


def _of_folder(folder: Path, checkpoint: Checkpoint) -> OpenedModel:
    if is_classifier(read_hf_config(folder)):
        return _reranker(folder, checkpoint)
    found = read_sentence_transformer(folder)
    if found is None:
        if is_encoder(checkpoint):
            raise unknown_pooling(checkpoint.architecture)
        return OpenedModel(checkpoint)
    if found.dense_folders:
        checkpoint = JoinedCheckpoint(checkpoint, _open_all(found.dense_folders))
    return OpenedModel(checkpoint, found.head, found.texts)


def _reranker(folder: Path, checkpoint: Checkpoint) -> OpenedModel:
    family = ENCODER_ARCHITECTURES.get(checkpoint.architecture)
    if family is None:
        raise unsupported_classifier(checkpoint.architecture)
    head = folder_reranker_head(folder, checkpoint, family)
    return OpenedModel(checkpoint, head, TextRules(max_length=tokenizer_limit(folder)))


def _open_all(folders: Mapping[str, Path]) -> dict[str, SafetensorsFolder]:
    opened: dict[str, SafetensorsFolder] = {}
    try:
        for stem, folder in folders.items():
            opened[stem] = open_safetensors(folder)
    except BaseException:
        for part in opened.values():
            part.close()
        raise
    return opened
