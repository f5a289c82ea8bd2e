"""Linear layers of GPTQ and AWQ checkpoints as rows of a `GroupType`, exactly.

Both store codes of 4 or 8 bits in 32-bit words, and a scale and a zero point for each group of
inputs. GPTQ (arXiv:2210.17323) packs neighbouring inputs into a word, AWQ (arXiv:2306.00978)
neighbouring outputs, even ones before odd ones. The words are transposed against a row of the
graph, so rows are unpacked when they are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mrs.export.checkpoints.checkpoint import TensorInfo
from mrs.export.checkpoints.grouped_linear import (
    SCALE_TYPES,
    Bytes,
    Floats,
    GroupedLinear,
    ReadRows,
)
from mrs.export.quantization.dequantize import dequantize

_WORD_BITS = 32
_NOTHING = np.uint32(0)
# The output that each 4-bit code of an AWQ word belongs to.
_AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


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


class PackedLinear(GroupedLinear):
    """A layer of ``qweight``, ``qzeros``, ``scales`` and, for GPTQ, ``g_idx``.

    Args:
        stem: of the tensors' names.
        packing: of the checkpoint.
        tensors: of the checkpoint.
        read: their rows.

    Raises:
        CorruptCheckpointError: a tensor is missing, or their shapes do not fit.
    """

    _group_index = "g_idx"

    def __init__(
        self, stem: str, packing: Packing, tensors: Mapping[str, TensorInfo], read: ReadRows
    ) -> None:
        super().__init__(stem, packing.bits, tensors, read)
        self._packing = packing
        per_word = packing.per_word
        first, second = self._shape("qweight", ("I32",), 2)
        if packing.by_output:
            self._set_shape(second * per_word, first, packing.group)
        else:
            self._set_shape(second, first * per_word, packing.group)
        self._require("scales", SCALE_TYPES, (self._groups, self._outputs))
        self._require("qzeros", ("I32",), (self._groups, self._outputs // per_word))
        if self._outputs % per_word:
            raise self._corrupt("qweight", f"has shape {[first, second]}")

    def _codes(self, start: int, stop: int) -> Bytes:
        if self._packing.by_output:
            return self._by_output("qweight", start, stop)
        words = self._words("qweight", start, stop)
        return self._spread(words).transpose(2, 0, 1).reshape(stop - start, self._inputs)

    def _zero_points(self, start: int, stop: int) -> Bytes:
        """What was taken from whole words when they were stored is added to whole words: a zero
        point of 0 has borrowed from its neighbour."""
        places = range(0, _WORD_BITS, self._bits)
        added = sum(self._packing.zero_offset << place for place in places)
        return self._by_output("qzeros", start, stop, np.uint32(added))

    def _scales(self, start: int, stop: int) -> Floats:
        dtype = self._tensors[f"{self._stem}.scales"].dtype
        columns = self._columns("scales", start, stop, 4 if dtype == "F32" else 2)
        return np.ascontiguousarray(dequantize(columns, dtype).T)

    def _by_output(self, which: str, start: int, stop: int, added: np.uint32 = _NOTHING) -> Bytes:
        """Codes of outputs ``start:stop`` from words that hold several, uint8 ``[rows, n]``."""
        per_word = self._packing.per_word
        first, last = start // per_word, -(-stop // per_word)
        words = self._words(which, first, last) + added
        codes = self._spread(words)[:, self._packing.order]
        rows = codes.transpose(2, 1, 0).reshape((last - first) * per_word, -1)
        return rows[start - first * per_word : stop - first * per_word]

    def _spread(self, words: NDArray[np.uint32]) -> Bytes:
        """Words ``[n, m]`` as codes ``[n, per_word, m]``, the lowest bits first."""
        places = np.arange(0, _WORD_BITS, self._bits, dtype=np.uint32)[:, None]
        mask = np.uint32(2**self._bits - 1)
        return ((words[:, None] >> places) & mask).astype(np.uint8)

    def _words(self, which: str, start: int, stop: int) -> NDArray[np.uint32]:
        """Columns ``start:stop`` of a tensor of words."""
        return self._columns(which, start, stop, 4).view("<u4")

    def _columns(self, which: str, start: int, stop: int, item: int) -> Bytes:
        name = f"{self._stem}.{which}"
        whole = self._read(name, 0, self._tensors[name].shape[0])
        return np.ascontiguousarray(whole[:, item * start : item * stop])
