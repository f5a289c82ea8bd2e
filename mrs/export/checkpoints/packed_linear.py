"""Linear layers of GPTQ and AWQ checkpoints as rows of a `GroupType`, exactly.

Both store codes of 4 or 8 bits in 32-bit words, and a scale and a zero point for each group of
inputs. GPTQ (arXiv:2210.17323) packs neighbouring inputs into a word, AWQ (arXiv:2306.00978)
neighbouring outputs, even ones before odd ones. The words are transposed against a row of the
graph, so rows are unpacked when they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mrs.errors import CorruptCheckpointError
from mrs.export.checkpoints.checkpoint import TensorInfo
from mrs.export.quantization.blocks import QuantizedBlocks
from mrs.export.quantization.dequantize import dequantize
from mrs.export.quantization.group_types import GroupType, pack_groups

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
ReadRows = Callable[[str, int, int], Bytes]

_WORD_BITS = 32
# The output that each 4-bit code of an AWQ word belongs to.
_AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
_SCALE_TYPES = ("F16", "BF16", "F32")


@dataclass(frozen=True)
class Packing:
    """How the layers of a checkpoint are packed.

    Attributes:
        bits: width of the codes, 4 or 8.
        group: inputs that share a scale; -1 for all of them.
        by_output: a word holds codes of several outputs (AWQ), not of several inputs (GPTQ).
        zero_offset: what is to be added to a stored zero point.
    """

    bits: int
    group: int
    by_output: bool
    zero_offset: int

    @property
    def per_word(self) -> int:
        """Codes in a word."""
        return _WORD_BITS // self.bits

    @property
    def order(self) -> NDArray[np.int64]:
        """For each output of a word the place of its code, where a word is of outputs."""
        if not self.by_output:
            return np.arange(self.per_word)
        return np.argsort(_AWQ_ORDER)


class PackedLinear:
    """A linear layer ``[outputs, inputs]``, read row by row.

    Rows are of a `GroupType`. Where the groups are not of neighbouring inputs (act-order with
    ``g_idx``) or do not divide the inputs, they are float32.

    Args:
        stem: of the tensors' names (``model.layers.0.mlp.up_proj``).
        packing: of the checkpoint.
        tensors: of the checkpoint.
        read: their rows.

    Raises:
        CorruptCheckpointError: a tensor is missing, or their shapes do not fit.
    """

    def __init__(
        self, stem: str, packing: Packing, tensors: Mapping[str, TensorInfo], read: ReadRows
    ) -> None:
        self._stem = stem
        self._packing = packing
        self._tensors = tensors
        self._read = read
        weight = self._shape("qweight", ("I32",), 2)
        if 0 in weight:
            raise self._corrupt("qweight", f"has shape {list(weight)}")
        per_word = packing.per_word
        if packing.by_output:
            self._inputs, self._outputs = weight[0], weight[1] * per_word
        else:
            self._inputs, self._outputs = weight[0] * per_word, weight[1]
        self._group = self._inputs if packing.group == -1 else packing.group
        self._groups = -(-self._inputs // self._group)
        self._require("scales", _SCALE_TYPES, (self._groups, self._outputs))
        self._require("qzeros", ("I32",), (self._groups, self._outputs // per_word))
        if self._outputs % per_word:
            raise self._corrupt("qweight", f"has shape {list(weight)}")

    @property
    def shape(self) -> tuple[int, int]:
        """``[outputs, inputs]``."""
        return self._outputs, self._inputs

    @property
    def dtype(self) -> str:
        """Storage type of the rows."""
        if self._scattered is not None:
            return "F32"
        return GroupType(self._packing.bits, self._group).name

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
        return pack_groups(QuantizedBlocks(self._packing.bits, blocks, scales, zeros))

    @cached_property
    def _scattered(self) -> NDArray[np.int64] | None:
        """The group of each input, where groups are not equal runs of neighbours."""
        inputs = np.arange(self._inputs) // self._group
        even = self._inputs % self._group == 0
        name = f"{self._stem}.g_idx"
        if name not in self._tensors:
            return None if even else inputs
        self._require("g_idx", ("I32",), (self._inputs,))
        found = self._read(name, 0, 1).view("<i4").reshape(-1).astype(np.int64)
        if found.min() < 0 or found.max() >= self._groups:
            raise self._corrupt("g_idx", f"names groups beyond the {self._groups} there are")
        return None if even and np.array_equal(found, inputs) else found

    def _codes(self, start: int, stop: int) -> Bytes:
        """uint8 ``[rows, inputs]``."""
        if self._packing.by_output:
            return self._by_output("qweight", start, stop)
        words = self._words("qweight", start, stop)
        return self._spread(words).transpose(2, 0, 1).reshape(stop - start, self._inputs)

    def _zero_points(self, start: int, stop: int) -> Bytes:
        """uint8 ``[rows, groups]``; one beyond the last code wraps to 0, as it did when stored."""
        zeros = self._by_output("qzeros", start, stop)
        return (zeros + np.uint8(self._packing.zero_offset)) & np.uint8(2**self._packing.bits - 1)

    def _by_output(self, which: str, start: int, stop: int) -> Bytes:
        """Codes of outputs ``start:stop`` from words that hold several, uint8 ``[rows, n]``."""
        per_word = self._packing.per_word
        first, last = start // per_word, -(-stop // per_word)
        codes = self._spread(self._words(which, first, last))[:, self._packing.order]
        rows = codes.transpose(2, 1, 0).reshape((last - first) * per_word, -1)
        return rows[start - first * per_word : stop - first * per_word]

    def _spread(self, words: NDArray[np.uint32]) -> Bytes:
        """Words ``[n, m]`` as codes ``[n, per_word, m]``, the lowest bits first."""
        places = np.arange(0, _WORD_BITS, self._packing.bits, dtype=np.uint32)[:, None]
        mask = np.uint32(2**self._packing.bits - 1)
        return ((words[:, None] >> places) & mask).astype(np.uint8)

    def _words(self, which: str, start: int, stop: int) -> NDArray[np.uint32]:
        """Columns ``start:stop`` of a tensor of words."""
        return self._columns(which, start, stop, 4).view("<u4")

    def _scales(self, start: int, stop: int) -> Floats:
        """float32 ``[rows, groups]``."""
        dtype = self._tensors[f"{self._stem}.scales"].dtype
        columns = self._columns("scales", start, stop, 4 if dtype == "F32" else 2)
        return np.ascontiguousarray(dequantize(columns, dtype).T)

    def _columns(self, which: str, start: int, stop: int, item: int) -> Bytes:
        name = f"{self._stem}.{which}"
        whole = self._read(name, 0, self._tensors[name].shape[0])
        return np.ascontiguousarray(whole[:, item * start : item * stop])

    def _require(self, which: str, dtypes: tuple[str, ...], shape: tuple[int, ...]) -> None:
        if self._shape(which, dtypes, len(shape)) != shape:
            found = list(self._tensors[f"{self._stem}.{which}"].shape)
            raise self._corrupt(which, f"has shape {found} where {list(shape)} would fit")

    def _shape(self, which: str, dtypes: tuple[str, ...], rank: int) -> tuple[int, ...]:
        info = self._tensors.get(f"{self._stem}.{which}")
        if info is None:
            raise self._corrupt(which, "is missing")
        if info.dtype not in dtypes or len(info.shape) != rank:
            raise self._corrupt(which, f"is {info.dtype} of shape {list(info.shape)}")
        return info.shape

    def _corrupt(self, which: str, what: str) -> CorruptCheckpointError:
        return CorruptCheckpointError(
            f"The tensor '{self._stem:.100}.{which}' {what}.",
            hint="Download the model again; its config.json must be the one of these weights.",
        )
