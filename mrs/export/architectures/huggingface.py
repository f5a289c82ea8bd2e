"""A Hugging Face folder as a checkpoint with canonical names."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from mrs.errors import CorruptCheckpointError
from mrs.export.architectures.config_metadata import config_metadata
from mrs.export.architectures.encoder_family import EncoderFamily
from mrs.export.architectures.family import Family, HuggingFaceForm
from mrs.export.architectures.registry import (
    ENCODER_MODEL_TYPES,
    MODEL_TYPES,
    unsupported_model_type,
)
from mrs.export.architectures.tensor_names import canonical_name, is_ignored
from mrs.export.checkpoints.checkpoint import CheckpointFormat, MetadataValue, TensorInfo
from mrs.export.checkpoints.hf_config import HfConfig, read_hf_config
from mrs.export.checkpoints.safetensors_reader import SafetensorsFolder, open_safetensors

_ITEM_BYTES = {"F32": 4, "F16": 2, "BF16": 2}
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
    family = MODEL_TYPES.get(name) or ENCODER_MODEL_TYPES.get(name)
    if family is None or family.huggingface is None:
        raise unsupported_model_type(name, config.wants_remote_code)
    metadata = config_metadata(family.name, family.huggingface, config)
    stored = open_safetensors(folder)
    try:
        return HuggingFaceCheckpoint(family, metadata, stored, _is_tied(config, family))
    except BaseException:
        stored.close()
        raise


@dataclass(frozen=True)
class _Place:
    """Where a canonical tensor is: in one stored tensor, or in several that are stacked."""

    sources: tuple[str, ...]
    transposed: bool


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
        stored: SafetensorsFolder,
        tied: bool,
    ) -> None:
        assert family.huggingface is not None
        self._stored = stored
        self._architecture = family.name
        self._metadata = MappingProxyType(dict(metadata))
        self._places = _places(stored.tensors, family.huggingface)
        if tied:
            self._places.pop(_HEAD, None)
        self._tensors = MappingProxyType(
            {name: self._info(name, place) for name, place in sorted(self._places.items())}
        )

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
        place = self._places[name]
        if place.transposed:
            return self._transposed_rows(name, place.sources[0], start, stop)
        if len(place.sources) == 1:
            return self._stored.read_rows(place.sources[0], start, stop)
        count = _rows(self._stored.tensors[place.sources[0]].shape)
        pieces = [
            self._stored.read_rows(
                source, max(start - at * count, 0), min(stop - at * count, count)
            )
            for at, source in enumerate(place.sources)
            if start < (at + 1) * count and stop > at * count
        ]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def close(self) -> None:
        """Unmap the files."""
        self._stored.close()

    def _transposed_rows(self, name: str, source: str, start: int, stop: int) -> NDArray[np.uint8]:
        info = self._stored.tensors[source]
        item = _ITEM_BYTES[info.dtype]
        whole = self._stored.read_rows(source, 0, info.shape[0])
        items = whole.reshape(info.shape[0], info.shape[1], item)
        turned = np.ascontiguousarray(items[:, start:stop].swapaxes(0, 1))
        return turned.reshape(stop - start, info.shape[0] * item)

    def _info(self, name: str, place: _Place) -> TensorInfo:
        first = self._stored.tensors[place.sources[0]]
        shape = first.shape
        if place.transposed:
            if len(shape) != 2 or first.dtype not in _ITEM_BYTES:
                raise CorruptCheckpointError(
                    f"The tensor {place.sources[0]!r:.120} is {first.dtype} of shape "
                    f"{list(shape)}; it should be a matrix of floats.",
                    hint="Download the model again.",
                )
            shape = shape[::-1]
        for source in place.sources[1:]:
            other = self._stored.tensors[source]
            if (other.shape, other.dtype) != (first.shape, first.dtype):
                raise CorruptCheckpointError(
                    f"The tensors {place.sources[0]!r:.120} and {source!r:.120} differ in shape "
                    "or type.",
                    hint="Download the model again.",
                )
        if len(place.sources) > 1:
            shape = (len(place.sources), *shape)
        return TensorInfo(name, shape, first.dtype)


def _places(tensors: Mapping[str, TensorInfo], form: HuggingFaceForm) -> dict[str, _Place]:
    alone: dict[str, _Place] = {}
    stacks: dict[str, dict[int, str]] = {}
    for name in tensors:
        if is_ignored(name, form):
            continue
        canonical = canonical_name(name, form)
        if canonical is None:
            alone[name] = _Place((name,), transposed=False)
        elif canonical.index is not None:
            stacks.setdefault(canonical.name, {})[canonical.index] = name
        elif canonical.name in alone:
            first = alone[canonical.name].sources[0]
            raise CorruptCheckpointError(
                f"The tensors {first!r:.120} and {name!r:.120} are the same part of the model.",
                hint="Leave only the files of one model in the folder.",
            )
        else:
            turned = canonical.stem in form.transposed and canonical.name.endswith(".weight")
            alone[canonical.name] = _Place((name,), turned)
    return alone | {name: _stack(name, members) for name, members in stacks.items()}


def _stack(name: str, members: Mapping[int, str]) -> _Place:
    if sorted(members) != list(range(len(members))):
        missing = next(index for index in range(len(members)) if index not in members)
        raise CorruptCheckpointError(
            f"Of the {len(members)} tensors that make up {name}, number {missing} is missing.",
            hint="Download the model again.",
        )
    return _Place(tuple(members[index] for index in range(len(members))), transposed=False)


def _is_tied(config: HfConfig, family: Family | EncoderFamily) -> bool:
    """transformers ties the head if the configuration says so, whatever is stored."""
    assert family.huggingface is not None
    default = family.huggingface.defaults.get("tie_word_embeddings")
    tied = config.optional_flag("tie_word_embeddings")
    return bool(default if tied is None else tied)


def _rows(shape: tuple[int, ...]) -> int:
    return math.prod(shape[:-1])
