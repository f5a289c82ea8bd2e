"""Linear layers of compressed-tensors checkpoints in the format ``pack-quantized``, exactly.

Codes of 4 or 8 bits, moved up so that none is negative, lie in a row one after another, the first
in the lowest bits of its word; a zero point, where there is one, lies with those of the outputs
around it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mrs.export.checkpoints.checkpoint import TensorInfo
from mrs.export.checkpoints.grouped_linear import (
    SCALE_TYPES,
    Bytes,
    Floats,
    GroupedLinear,
    ReadRows,
)
from mrs.export.quantization.bit_packing import unpack_codes
from mrs.export.quantization.blocks import zero_point_middle
from mrs.export.quantization.dequantize import dequantize

_WORD_BITS = 32


class CompressedLinear(GroupedLinear):
    """A layer of ``weight_packed``, ``weight_scale`` and, if not symmetric, ``weight_zero_point``.

    Args:
        stem: of the tensors' names.
        bits: width of the codes, 4 or 8.
        group: inputs that share a scale; -1 for all of them.
        symmetric: the zero points are the middle of the codes, and not stored.
        tensors: of the checkpoint.
        read: their rows.

    Raises:
        CorruptCheckpointError: a tensor is missing, or their shapes do not fit.
    """

    _group_index = "weight_g_idx"

    def __init__(
        self,
        stem: str,
        bits: int,
        group: int,
        symmetric: bool,
        tensors: Mapping[str, TensorInfo],
        read: ReadRows,
    ) -> None:
        super().__init__(stem, bits, tensors, read)
        self._symmetric = symmetric
        outputs, words = self._shape("weight_packed", ("I32",), 2)
        self._shape("weight_shape", ("I64", "I32"), 1)
        inputs = words * _WORD_BITS // bits
        self._set_shape(outputs, inputs, group)
        if self._stored_shape() != (outputs, inputs):
            # The last word of a row may be filled up; then no group divides the inputs either.
            raise self._corrupt("weight_shape", f"says {list(self._stored_shape())}")
        self._require("weight_scale", SCALE_TYPES, (outputs, self._groups))
        if not symmetric:
            zero_words = -(-outputs * bits // _WORD_BITS)
            self._require("weight_zero_point", ("I32",), (zero_words, self._groups))

    def _stored_shape(self) -> tuple[int, ...]:
        name = f"{self._stem}.weight_shape"
        kind = "<i8" if self._tensors[name].dtype == "I64" else "<i4"
        stored = np.ascontiguousarray(self._read(name, 0, 1))
        return tuple(int(size) for size in stored.view(kind).reshape(-1))

    def _codes(self, start: int, stop: int) -> Bytes:
        packed = self._read(f"{self._stem}.weight_packed", start, stop)
        return unpack_codes(packed, self._bits, self._inputs)

    def _scales(self, start: int, stop: int) -> Floats:
        name = f"{self._stem}.weight_scale"
        return dequantize(self._read(name, start, stop), self._tensors[name].dtype)

    def _zero_points(self, start: int, stop: int) -> Bytes:
        if self._symmetric:
            middle = zero_point_middle(self._bits)
            return np.full((stop - start, self._groups), middle, dtype=np.uint8)
        per_word = _WORD_BITS // self._bits
        first, last = start // per_word, -(-stop // per_word)
        stored = self._read(f"{self._stem}.weight_zero_point", first, last)
        # Each word is a column of outputs: byte by byte, and code by code in a byte.
        words = stored.reshape(last - first, self._groups, 4)
        codes = unpack_codes(words, self._bits, per_word).transpose(0, 2, 1)
        rows = codes.reshape(-1, self._groups)
        return np.ascontiguousarray(rows[start - first * per_word : stop - first * per_word])
