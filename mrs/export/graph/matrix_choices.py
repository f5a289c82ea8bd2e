"""What each quantization means for one matrix of the checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mrs.export.graph.block_matrix import BlockLayout, Offsets
from mrs.export.graph.channel_matrix import ChannelLayout
from mrs.export.graph.float32_matrix import Float32Layout
from mrs.export.graph.row_source import Chunk, RowSource
from mrs.export.graph.stored_matrix import StoredPart
from mrs.export.quantization.block_types import BlockType, block_type
from mrs.export.quantization.blocks import QuantizedBlocks
from mrs.export.quantization.dequantize import dequantize
from mrs.export.quantization.hadamard import LARGEST_GROUP
from mrs.export.quantization.importance import TensorImportance
from mrs.export.quantization.int4_search import search_int4
from mrs.export.quantization.offset_columns import BLOCK_SIZE, MOST_COPIES, copies_of_sums
from mrs.export.quantization.rounding import round_to_int8

# Measured: in smaller products 8-bit blocks are faster than the operators that offsets need, and
# nearer to the checkpoint than offset columns.
SMALLEST_WITH_COLUMNS = 400_000
# The largest blocks that the kernels of every width are fast at.
_LARGEST_BLOCK = 128


@dataclass(frozen=True)
class Use:
    """What a matrix is for.

    Attributes:
        gathered: its rows are looked up, as in an embedding.
        vocabulary: it is an embedding or an output head.
        weights: of the whole product that it is a part of.
        experts: it holds those of several experts, whose operator takes no offsets.
        named: its quantization was asked for it in particular, by a pattern.
        whole_texts: the model reads texts at once and never goes on from one, token by token.
        importance: how much an error in each column counts; see `quantization.importance`.
    """

    gathered: bool
    vocabulary: bool
    weights: int
    experts: bool = False
    named: bool = False
    whole_texts: bool = False
    importance: TensorImportance | None = None

    @property
    def takes_columns(self) -> bool:
        """Whether offsets as columns are possible, and worth their operators."""
        possible = not self.gathered and not self.experts
        return possible and self.weights >= SMALLEST_WITH_COLUMNS


Choice = Callable[[RowSource, Use], StoredPart]


def fp32(source: RowSource, use: Use) -> StoredPart:
    """Every value as float32."""
    return StoredPart(source, Float32Layout(), None, exact=True)


def keep(source: RowSource, use: Use) -> StoredPart:
    """The checkpoint's codes with all that belongs to them; float32 where it has none."""
    kind = block_type(source.dtype)
    if kind is None or (kind.offsets and use.experts):
        return fp32(source, use)
    return _kept(source, kind, Offsets.EXACT if kind.offsets else Offsets.NONE)


def q8(source: RowSource, use: Use) -> StoredPart:
    """Blocks of 8 bits: codes without offsets in them, everything else rounded."""
    kind = block_type(source.dtype)
    if kind is None or kind.offsets:
        return _rounded(source, use)
    size = min(kind.block_size, _LARGEST_BLOCK)

    def widen(chunk: Chunk) -> QuantizedBlocks:
        return kind.unpack(chunk.stored).split(size).widen(8)

    return StoredPart(source, BlockLayout(8, size), widen, exact=True)


def auto(source: RowSource, use: Use) -> StoredPart:
    """The checkpoint's codes where that runs well, else 8 bits."""
    kind = block_type(source.dtype)
    if kind is None:
        return _eight_bits(source, use)
    if not kind.offsets:
        return _kept(source, kind, Offsets.NONE)
    if use.takes_columns and _takes_columns(source, kind):
        return _kept(source, kind, Offsets.COLUMNS)
    return _eight_bits(source, use)


def _eight_bits(source: RowSource, use: Use) -> StoredPart:
    """In blocks, or by channel where that is as exact in the end, and faster.

    Measured on MiniLM: the same cosine similarities to float32, 1.3 to 1.7 times as fast. Widths
    with smaller groups to turn are less exact, and stay as in `q8`.
    """
    wide = source.columns % LARGEST_GROUP == 0
    return w8a8(source, use) if use.whole_texts and wide else q8(source, use)


def q4(source: RowSource, use: Use) -> StoredPart:
    """Blocks of 4 bits: codes of 4 bits or fewer as `auto`, everything else by a search.

    The vocabulary has 8 bits, and so has what is too small for offset columns. Where columns are
    impossible, the blocks do without offsets.
    """
    kind = block_type(source.dtype)
    # Errors in the vocabulary reach every token.
    if (use.vocabulary and not use.named) or source.columns % BLOCK_SIZE:
        return auto(source, use)
    if kind is not None and kind.bits <= 4:
        return auto(source, use)
    narrow = copies_of_sums(source.columns // BLOCK_SIZE) > MOST_COPIES
    if use.takes_columns and not narrow:
        return _searched(source, use, Offsets.COLUMNS)
    if use.gathered or use.experts or (narrow and use.weights >= SMALLEST_WITH_COLUMNS):
        return _searched(source, use, Offsets.NONE)
    return q8(source, use)


def _searched(source: RowSource, use: Use, offsets: Offsets) -> StoredPart:
    def encode(chunk: Chunk) -> QuantizedBlocks:
        importance = None
        if use.importance is not None:
            importance = use.importance.of_rows(chunk.rows, source.rows)
        values = dequantize(chunk.stored, chunk.dtype)
        return search_int4(values, importance, offsets=offsets is not Offsets.NONE)

    return StoredPart(source, BlockLayout(4, BLOCK_SIZE, offsets), encode, exact=False)


def w8a8(source: RowSource, use: Use) -> StoredPart:
    """int8 activations and weights with one scale for each row; vocabulary and experts as in `q8`.

    Errors in the vocabulary reach every token, and the experts' operator takes blocks.
    """
    if use.gathered or use.experts or (use.vocabulary and not use.named):
        return q8(source, use)
    return StoredPart(source, ChannelLayout(), None, exact=False)


def _takes_columns(source: RowSource, kind: BlockType) -> bool:
    wanted = (kind.bits, kind.block_size) == (4, BLOCK_SIZE)
    return wanted and copies_of_sums(source.columns // BLOCK_SIZE) <= MOST_COPIES


def _kept(source: RowSource, kind: BlockType, offsets: Offsets) -> StoredPart:
    size = min(kind.block_size, _LARGEST_BLOCK)

    def unpack(chunk: Chunk) -> QuantizedBlocks:
        return kind.unpack(chunk.stored).split(size)

    layout = BlockLayout(kind.bits, size, offsets)
    return StoredPart(source, layout, unpack, exact=offsets is not Offsets.COLUMNS)


def _rounded(source: RowSource, use: Use) -> StoredPart:
    """8 bits in blocks of 32; rows that do not divide into them stay float32."""
    if source.columns % BLOCK_SIZE:
        return fp32(source, use)

    def encode(chunk: Chunk) -> QuantizedBlocks:
        return round_to_int8(dequantize(chunk.stored, chunk.dtype), BLOCK_SIZE)

    return StoredPart(source, BlockLayout(8, BLOCK_SIZE), encode, exact=False)


CHOICES: Mapping[str, Choice] = {
    "auto": auto,
    "keep": keep,
    "fp32": fp32,
    "q8": q8,
    "q4": q4,
    "w8a8": w8a8,
}
