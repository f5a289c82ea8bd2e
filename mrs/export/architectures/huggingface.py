"""A Hugging Face folder as a checkpoint with canonical names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from mrs.export.architectures.canonical_tensors import canonical_tensors
from mrs.export.architectures.config_metadata import config_metadata
from mrs.export.architectures.encoder_family import EncoderFamily
from mrs.export.architectures.family import Family
from mrs.export.architectures.registry import (
    ENCODER_MODEL_TYPES,
    MODEL_TYPES,
    unsupported_model_type,
)
from mrs.export.architectures.reranker import is_classifier, with_classifier
from mrs.export.checkpoints.checkpoint import CheckpointFormat, MetadataValue, TensorInfo
from mrs.export.checkpoints.hf_config import HfConfig, read_hf_config
from mrs.export.checkpoints.quantized_folder import TensorFolder, joined_linears
from mrs.export.checkpoints.safetensors_reader import open_safetensors

_HEAD = "output.weight"


def open_huggingface(folder: Path) -> HuggingFaceCheckpoint:
    """Read a folder's configuration and map its weights; no tensor is read.

    Raises:
        UnsupportedArchitectureError: the model type is unknown; the message lists the known ones.
        CheckpointError: the configuration or a file is not what it should be.
        SourceNotFoundError, StorageError: a file is missing or cannot be read.
    """
    config = read_hf_config(folder)
    name = config.model_type
    family: Family | EncoderFamily | None = MODEL_TYPES.get(name)
    if family is None and (encoder := ENCODER_MODEL_TYPES.get(name)) is not None:
        family = with_classifier(encoder) if is_classifier(config) else encoder
    if family is None or family.huggingface is None:
        raise unsupported_model_type(name, config.wants_remote_code)
    metadata = config_metadata(family.name, family.huggingface, config)
    stored = open_safetensors(folder)
    try:
        linears = joined_linears(stored, config.outer.optional_section("quantization_config"))
        return HuggingFaceCheckpoint(family, metadata, linears, _is_tied(config, family))
    except BaseException:
        stored.close()
        raise


class HuggingFaceCheckpoint:
    """Implements `mrs.export.checkpoints.checkpoint.Checkpoint` over safetensors.

    Args:
        family: of the model.
        metadata: under canonical keys.
        stored: the tensors under their own names.
        tied: the output head is the embedding, whatever else is stored.
    """

    def __init__(
        self,
        family: Family | EncoderFamily,
        metadata: Mapping[str, MetadataValue],
        stored: TensorFolder,
        tied: bool,
    ) -> None:
        assert family.huggingface is not None
        self._stored = stored
        self._architecture = family.name
        self._metadata = MappingProxyType(dict(metadata))
        form = family.huggingface
        layers = metadata.get(f"{family.name}.block_count") if form.extra_layers else None
        self._views = canonical_tensors(
            stored.tensors, stored.read_rows, form, layers if isinstance(layers, int) else None
        )
        if tied:
            self._views.pop(_HEAD, None)
        infos = {
            name: TensorInfo(name, view.shape, view.dtype)
            for name, view in sorted(self._views.items())
        }
        self._tensors = MappingProxyType(infos)

    @property
    def format(self) -> CheckpointFormat:
        """As transformers lays tensors out."""
        return CheckpointFormat.HUGGING_FACE

    @property
    def architecture(self) -> str:
        """The family's name in GGUF."""
        return self._architecture

    @property
    def metadata(self) -> Mapping[str, MetadataValue]:
        """The configuration under canonical keys."""
        return self._metadata

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """All tensors by canonical name; those without one keep their own."""
        return self._tensors

    def read_rows(self, name: str, start: int, stop: int) -> NDArray[np.uint8]:
        """See `mrs.export.checkpoints.checkpoint.Checkpoint.read_rows`."""
        return self._views[name].read_rows(start, stop)

    def close(self) -> None:
        """Unmap the files."""
        self._stored.close()


def _is_tied(config: HfConfig, family: Family | EncoderFamily) -> bool:
    """transformers ties the head if the configuration says so, whatever is stored."""
    assert family.huggingface is not None
    default = family.huggingface.defaults.get("tie_word_embeddings")
    tied = config.optional_flag("tie_word_embeddings")
    return bool(default if tied is None else tied)
