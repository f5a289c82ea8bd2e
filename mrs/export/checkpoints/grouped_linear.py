"""Linear layers in codes with a scale and a zero point for each group of inputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mrs.errors import CorruptCheckpointError
from mrs.export.checkpoints.checkpoint import TensorInfo
from mrs.export.quantization.blocks import QuantizedBlocks
from mrs.export.quantization.group_types import GroupType, pack_groups

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
ReadRows = Callable[[str, int, int], Bytes]

SCALE_TYPES = ("F16", "BF16", "F32")


class GroupedLinear(ABC):
    """A linear layer ``[outputs, inputs]``.

    Rows are of a `GroupType`. Where the groups are not of neighbouring inputs (act-order) or do not
    divide the inputs, they are float32.

    Args:
        stem: of the tensors' names (``model.layers.0.mlp.up_proj``).
        bits: width of the codes.
        tensors: of the checkpoint.
        read: their rows.
    """

    # The tensor that tells the group of each input, where there is one.
    _group_index: str

    def __init__(
        self, stem: str, bits: int, tensors: Mapping[str, TensorInfo], read: ReadRows
    ) -> None:
        self._stem = stem
        self._bits = bits
        self._tensors = tensors
        self._read = read
        self._outputs, self._inputs, self._group, self._groups = 0, 0, 0, 0

    def _set_shape(self, outputs: int, inputs: int, group: int) -> None:
        """``group`` is -1 for one group of all inputs."""
        self._outputs, self._inputs = outputs, inputs
        self._group = inputs if group == -1 else group
        self._groups = -(-inputs // self._group)

    @property
    def shape(self) -> tuple[int, int]:
        """``[outputs, inputs]``."""
        return self._outputs, self._inputs

    @property
    def dtype(self) -> str:
        """Storage type of the rows."""
        if self._scattered is not None:
            return "F32"
        return GroupType(self._bits, self._group).name

    def read_rows(self, start: int, stop: int) -> Bytes:
        """Rows ``start:stop``, uint8 ``[rows, bytes_per_row]``."""
        codes, scales = self._codes(start, stop), self._scales(start, stop)
        zeros = self._zero_points(start, stop)
        if self._scattered is not None:
            group = self._scattered
            centred = codes.astype(np.float32) - zeros[:, group]
            values = np.ascontiguousarray(centred * scales[:, group], dtype="<f4")
            return values.view(np.uint8)
        blocks = codes.reshape(len(codes), self._groups, self._group)
        return pack_groups(QuantizedBlocks(self._bits, blocks, scales, zeros))

    @abstractmethod
    def _codes(self, start: int, stop: int) -> Bytes:
        """Of rows ``start:stop``, uint8 ``[rows, inputs]``."""

    @abstractmethod
    def _scales(self, start: int, stop: int) -> Floats:
        """Of rows ``start:stop``, float32 ``[rows, groups]``."""

    @abstractmethod
    def _zero_points(self, start: int, stop: int) -> Bytes:
        """Of rows ``start:stop``, uint8 ``[rows, groups]``."""

    @cached_property
    def _scattered(self) -> NDArray[np.int64] | None:
        """The group of each input, where groups are not equal runs of neighbours."""
        inputs = np.arange(self._inputs) // self._group
        even = self._inputs % self._group == 0
        name = f"{self._stem}.{self._group_index}"
        if name not in self._tensors:
            return None if even else inputs
        self._require(self._group_index, ("I32",), (self._inputs,))
        found = self._read(name, 0, 1).view("<i4").reshape(-1).astype(np.int64)
        if found.min() < 0 or found.max() >= self._groups:
            message = f"names groups beyond the {self._groups} there are"
            raise self._corrupt(self._group_index, message)
        return None if even and np.array_equal(found, inputs) else found

    def _require(self, which: str, dtypes: tuple[str, ...], shape: tuple[int, ...]) -> None:
        if self._shape(which, dtypes, len(shape)) != shape:
            found = list(self._tensors[f"{self._stem}.{which}"].shape)
            raise self._corrupt(which, f"has shape {found} where {list(shape)} would fit")

    def _shape(self, which: str, dtypes: tuple[str, ...], rank: int) -> tuple[int, ...]:
        """The shape of a tensor of this rank and one of these types, without an empty side."""
        info = self._tensors.get(f"{self._stem}.{which}")
        if info is None:
            raise self._corrupt(which, "is missing")
        if info.dtype not in dtypes or len(info.shape) != rank or 0 in info.shape:
            raise self._corrupt(which, f"is {info.dtype} of shape {list(info.shape)}")
        return info.shape

    def _corrupt(self, which: str, what: str) -> CorruptCheckpointError:
        return CorruptCheckpointError(
            f"The tensor '{self._stem:.100}.{which}' {what}.",
            hint="Download the model again; its config.json must be the one of these weights.",
        )
