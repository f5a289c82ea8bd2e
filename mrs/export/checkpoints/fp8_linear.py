"""Linear layers in float8 with a scale for each square of weights, as DeepSeek-V3 stores them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from mrs.errors import CorruptCheckpointError
from mrs.export.checkpoints.checkpoint import TensorInfo

Bytes = NDArray[np.uint8]
ReadRows = Callable[[str, int, int], Bytes]


def _e4m3_values() -> NDArray[np.float32]:
    """The value of each byte as float8 E4M3 without infinities (arXiv:2209.05433)."""
    bits = np.arange(256)
    exponents, mantissas = (bits >> 3) & 15, bits & 7
    normal = np.ldexp(1 + mantissas / 8, exponents - 7)
    values = np.where(exponents == 0, mantissas * 2.0**-9, normal)
    values[(bits & 127) == 127] = np.nan
    return np.where(bits & 128, -values, values).astype(np.float32)


_VALUES = _e4m3_values()


class Fp8Linear:
    """A linear layer whose rows are float32: values times the scale of their square.

    Args:
        name: of the weights (``model.layers.0.mlp.up_proj.weight``).
        square: height and width of a square.
        tensors: of the checkpoint.
        read: their rows.

    Raises:
        CorruptCheckpointError: the scales are missing or do not fit.
    """

    def __init__(
        self,
        name: str,
        square: tuple[int, int],
        tensors: Mapping[str, TensorInfo],
        read: ReadRows,
    ) -> None:
        self._name = name
        self._square = square
        self._read = read
        self._scales_name = f"{name}_scale_inv"
        self._info = tensors[name]
        scales = tensors.get(self._scales_name)
        fits = (
            scales is not None
            and scales.dtype == "F32"
            and len(self._info.shape) == 2
            and scales.shape == tuple(map(_squares, self._info.shape, square))
        )
        if not fits:
            found = "missing" if scales is None else f"{scales.dtype} of {list(scales.shape)}"
            raise CorruptCheckpointError(
                f"The scales {self._scales_name!r:.120} of a weight of shape "
                f"{list(self._info.shape)} are {found}.",
                hint="Download the model again; its config.json must be the one of these weights.",
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """``[outputs, inputs]``."""
        return self._info.shape

    @property
    def dtype(self) -> str:
        """float32."""
        return "F32"

    def read_rows(self, start: int, stop: int) -> Bytes:
        """Rows ``start:stop``, uint8 ``[rows, bytes_per_row]``."""
        height, width = self._square
        values = _VALUES[self._read(self._name, start, stop)]
        first, last = start // height, _squares(stop, height)
        scales = self._read(self._scales_name, first, last).view("<f4")
        rows = np.arange(start, stop) // height - first
        columns = np.arange(self.shape[1]) // width
        values *= scales[rows][:, columns]
        return np.ascontiguousarray(values, dtype="<f4").view(np.uint8)


def _squares(length: int, side: int) -> int:
    return -(-length // side)
