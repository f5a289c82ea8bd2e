"""float32 weights to 4-bit blocks of 32, by a search for the scale and minimum of each block.

A block keeps 16 levels ``scale * code + minimum``. For given codes the best scale and minimum are a
weighted least-squares fit; for a given scale and minimum the best codes are the nearest levels. The
codes to start from come from grids somewhat coarser than the block's range over 15: what clips or
wastes a level at the ends can fit the rest better. The grids near the best of three are tried as
well, and one or two more turns of codes and fit follow. (llama.cpp's ``make_qkx2_quants`` tries 21
grids from one end; fewer, refined, come out nearer to the weights.)

Errors count by ``|w| + rms``, so that large weights, which carry most of a product, err less; or,
where it is known how large the activations of each column are, by their mean square as llama.cpp
does, ``importance * sqrt(2 rms^2 + w^2)``.

Where offsets are not possible, the minimum is a multiple of the scale.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mrs.export.quantization.blocks import (
    Bytes,
    Floats,
    QuantizedBlocks,
    blocks_with_minimum,
)

BLOCK_SIZE = 32
_LARGEST_CODE = 15
_MIDDLE = 8
# Levels that a first grid has beyond 16, and how far its neighbours are.
_GRIDS = (-2.2, -1.1, 0.0)
_NEIGHBOURS = 0.45
# Blocks of a tile: its arrays stay in a core's cache. The last one is filled up, so that sums are
# taken in the same order wherever a block is.
_TILE = 1024


def search_int4(
    values: Floats, importance: Floats | None = None, *, offsets: bool = True
) -> QuantizedBlocks:
    """Quantize rows to 4 bits.

    Args:
        values: float32 ``[rows, columns]``; columns divide by 32.
        importance: of each column, float32 ``[columns]`` or ``[rows, columns]``; above 0.
        offsets: whether blocks may have offsets.

    Returns:
        blocks of 32; one with NaN or infinity has such a scale.
    """
    rows, columns = values.shape
    weights = None
    if importance is not None:
        weights = np.broadcast_to(importance, (rows, columns)).reshape(-1, BLOCK_SIZE)
    blocks = values.reshape(-1, BLOCK_SIZE)
    codes = np.empty(blocks.shape, dtype=np.uint8)
    scales = np.empty(len(blocks), dtype=np.float32)
    minimums = np.empty(len(blocks), dtype=np.float32)
    tile = _Tile(offsets=offsets)
    for part in _tiles(len(blocks)):
        count = len(blocks[part])
        tile.load(blocks[part], None if weights is None else weights[part])
        tile.search()
        codes[part] = tile.codes.T[:count]
        scales[part], minimums[part] = tile.scales[:count], tile.minimums[:count]
    shape = (rows, columns // BLOCK_SIZE)
    return _assemble(
        codes.reshape(*shape, BLOCK_SIZE), scales.reshape(shape), minimums.reshape(shape), offsets
    )


def _assemble(codes: Bytes, scales: Floats, minimums: Floats, offsets: bool) -> QuantizedBlocks:
    with np.errstate(invalid="ignore"):
        if offsets:
            return blocks_with_minimum(codes, scales, -minimums, bits=4)
        ratio = np.divide(-minimums, scales, out=np.full_like(scales, _MIDDLE), where=scales > 0)
        zero_points = np.clip(np.rint(np.nan_to_num(ratio)), 0, _LARGEST_CODE)
    return QuantizedBlocks(4, codes, scales, zero_points.astype(np.uint8))


def _tiles(blocks: int) -> Iterator[slice]:
    for start in range(0, blocks, _TILE):
        yield slice(start, min(start + _TILE, blocks))


class _Tile:
    """Blocks side by side, ``[BLOCK_SIZE, _TILE]``: a sum over a block adds whole rows.

    Args:
        offsets: whether minimums are free, or multiples of the scale.
    """

    def __init__(self, *, offsets: bool) -> None:
        shape = (BLOCK_SIZE, _TILE)
        self._offsets = offsets
        self._values, self._above, self._codes = (np.zeros(shape, np.float32) for _ in range(3))
        self._weights, self._weighted = (np.zeros(shape, np.float32) for _ in range(2))
        self._products = np.zeros((3, *shape), np.float32)
        self.scales: Floats
        self.minimums: Floats

    @property
    def codes(self) -> Bytes:
        """uint8 ``[BLOCK_SIZE, _TILE]``."""
        return self._codes.astype(np.uint8)

    def load(self, blocks: Floats, importance: Floats | None) -> None:
        """Take at most `_TILE` blocks ``[blocks, BLOCK_SIZE]``; the rest is zeros."""
        count = len(blocks)
        self._values[:, :count] = blocks.T
        self._values[:, count:] = 0
        self._normalize()
        self._weigh(None if importance is None else importance.T, count)
        # Uneven weights move the best grid further from where it starts.
        self._turns = 1 if importance is None else 2
        np.multiply(self._weights, self._values, out=self._weighted)
        self._sum_weights = np.add.reduce(self._weights, axis=0)
        self._sum_weighted = np.add.reduce(self._weighted, axis=0)
        self._low = self._values.min(axis=0)
        high = self._values.max(axis=0)
        if not self._offsets:  # Zero must be a level.
            self._low, high = np.minimum(self._low, 0), np.maximum(high, 0)
        self._per_step = _inverse(high - self._low)
        np.subtract(self._values, self._low, out=self._above)

    def search(self) -> None:
        """Find `scales`, `minimums` and `codes`."""
        self._begin()
        for levels in _GRIDS:
            self._try_grid(np.full(_TILE, levels, dtype=np.float32))
        near = self._levels.copy()
        for step in (-_NEIGHBOURS, _NEIGHBOURS):
            self._try_grid(near + np.float32(step))
        for _ in range(self._turns):
            self._nearest_codes()
            self._fit(self._levels)
        self._nearest_codes()
        self.scales = np.ldexp(self._scales, self._exponents)
        self.minimums = np.ldexp(self._minimums, self._exponents)
        self.scales[self._spoilt] = np.nan

    def _normalize(self) -> None:
        """Divide each block by a power of two, so that no square over- or underflows."""
        largest = np.maximum(self._values.max(axis=0), -self._values.min(axis=0))
        self._spoilt = ~np.isfinite(largest)
        if self._spoilt.any():
            self._values[:, self._spoilt] = 0
            largest[self._spoilt] = 0
        self._exponents = np.frexp(largest)[1]
        np.ldexp(self._values, -self._exponents, out=self._values)

    def _weigh(self, importance: Floats | None, count: int) -> None:
        squares = self._products[0]
        np.multiply(self._values, self._values, out=squares)
        mean = np.add.reduce(squares, axis=0) / np.float32(BLOCK_SIZE)
        if importance is None:
            np.abs(self._values, out=self._weights)
            self._weights += np.sqrt(mean)
            return
        squares += 2 * mean
        np.sqrt(squares, out=self._weights)
        self._weights[:, :count] *= importance

    def _begin(self) -> None:
        """Before any grid the best is the mean, with all codes 0."""
        mean = self._sum_weighted * _inverse(self._sum_weights)
        self._scales = np.zeros(_TILE, dtype=np.float32)
        self._minimums = mean if self._offsets else np.zeros_like(mean)
        self._levels = np.zeros(_TILE, dtype=np.float32)
        # What the fit explains of the weighted squares: all but the error.
        self._explained = self._minimums * self._sum_weighted

    def _try_grid(self, levels: Floats) -> None:
        per_step = self._per_step * (_LARGEST_CODE + levels)
        np.multiply(self._above, per_step, out=self._codes)
        if not self._offsets:
            # Codes count from the level that is nearest to the minimum.
            first = self._low * per_step
            self._codes += first - np.rint(first)
        np.rint(self._codes, out=self._codes)
        np.clip(self._codes, 0, _LARGEST_CODE, out=self._codes)
        self._fit(levels, None if self._offsets else np.rint(-self._low * per_step))

    def _fit(self, levels: Floats, zero_points: Floats | None = None) -> None:
        """Fit scale and minimum to the codes, and keep them where they are better."""
        if self._offsets:
            scales, minimums, explained = self._fit_line()
        else:
            scales, minimums, explained = self._fit_scale(zero_points)
        better = explained > self._explained
        for best, found in (
            (self._explained, explained),
            (self._scales, scales),
            (self._minimums, minimums),
            (self._levels, levels),
        ):
            np.copyto(best, found, where=better)

    def _fit_line(self) -> tuple[Floats, Floats, Floats]:
        weighted, squared, crossed = self._products
        np.multiply(self._weights, self._codes, out=weighted)
        np.multiply(weighted, self._codes, out=squared)
        np.multiply(self._weighted, self._codes, out=crossed)
        codes, squares, cross = np.add.reduce(self._products, axis=1)
        inverse = _inverse(self._sum_weights * squares - codes * codes)
        scales = (self._sum_weights * cross - self._sum_weighted * codes) * inverse
        minimums = (squares * self._sum_weighted - codes * cross) * inverse
        return scales, minimums, scales * cross + minimums * self._sum_weighted

    def _fit_scale(self, zero_points: Floats | None) -> tuple[Floats, Floats, Floats]:
        """The scale alone: the minimum is that many steps below zero."""
        if zero_points is None:
            zero_points = np.rint(-self._minimums * _inverse(self._scales))
        zero_points = np.clip(zero_points, 0, _LARGEST_CODE)
        centred, squared, crossed = self._products
        np.subtract(self._codes, zero_points, out=centred)
        np.multiply(centred, centred, out=squared)
        squared *= self._weights
        np.multiply(self._weighted, centred, out=crossed)
        squares, cross = np.add.reduce(self._products[1:], axis=1)
        scales = cross * _inverse(squares)
        return scales, -zero_points * scales, scales * cross

    def _nearest_codes(self) -> None:
        inverse = _inverse(self._scales)
        np.multiply(self._values, inverse, out=self._codes)
        self._codes -= self._minimums * inverse
        np.rint(self._codes, out=self._codes)
        np.clip(self._codes, 0, _LARGEST_CODE, out=self._codes)


def _inverse(values: Floats) -> Floats:
    """``1 / values``, and 0 where that is not a positive number of float32."""
    tiny = np.finfo(np.float32).tiny
    return np.divide(1, values, out=np.zeros_like(values), where=values >= tiny)
