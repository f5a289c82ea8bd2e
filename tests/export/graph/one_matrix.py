"""A stored matrix in a graph of its own, run by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime
from numpy.typing import NDArray

from mrs.export.graph.builder import GraphBuilder
from mrs.export.graph.matrix_choices import Choice, Use
from mrs.export.graph.row_source import RowSource
from mrs.export.graph.stored_matrix import MatrixLayout, StoredMatrix
from mrs.export.graph.weight_file import WeightFile
from mrs.model_repo.lock import TensorRecord
from tests.export.gguf_files import StoredTensor, TensorItem, dequantize
from tests.export.memory_checkpoint import MemoryCheckpoint

Floats = NDArray[np.float32]
Stored = tuple[StoredMatrix, dict[str, TensorRecord]]
Store = Callable[[GraphBuilder, str, Sequence[RowSource]], Stored]
Make = Callable[[GraphBuilder, ir.Value], ir.Value]


@dataclass(frozen=True)
class Part:
    """Rows of a matrix: as a checkpoint stores them, and in which order they are wanted."""

    tensor: TensorItem
    order: NDArray[np.int64] | None = None

    @property
    def values(self) -> Floats:
        """What `gguf` reads out of them, in the wanted order."""
        if isinstance(self.tensor, StoredTensor):
            values = dequantize(self.tensor)
        else:
            values = self.tensor.astype(np.float32)
        return values if self.order is None else values[self.order]


def row_sources(parts: Sequence[Part]) -> list[RowSource]:
    """The parts as `RowSource`s of one checkpoint, named ``part0``, ``part1``, ..."""
    checkpoint = MemoryCheckpoint({f"part{i}": part.tensor for i, part in enumerate(parts)})
    return [
        RowSource(checkpoint, info.name, info.dtype, info.shape[0], info.shape[1], part.order)
        for part, info in zip(parts, checkpoint.tensors.values(), strict=True)
    ]


def stored_by(choice: Choice, *, gathered: bool = False) -> Store:
    """Stores parts, whose layouts must join, as a choice says for a part of a large product."""

    def store(builder: GraphBuilder, name: str, sources: Sequence[RowSource]) -> Stored:
        use = Use(gathered=gathered, vocabulary=False, weights=10**9)
        chosen = [choice(source, use) for source in sources]
        layout: MatrixLayout = chosen[0].layout
        for part in chosen[1:]:
            joined = layout.join(part.layout)
            assert joined is not None
            layout = joined
        records = {part.source.name: part.record for part in chosen}
        return layout.store(builder, name, chosen), records

    return store


def values(parts: Sequence[Part]) -> Floats:
    """The whole matrix."""
    return np.concatenate([part.values for part in parts])


def multiply(folder: Path, store: Store, parts: Sequence[Part], x: Floats) -> Floats:
    """``x @ matrix.T`` as ONNX Runtime computes it."""

    def make(builder: GraphBuilder, given: ir.Value) -> ir.Value:
        matrix, _ = store(builder, "w", row_sources(parts))
        return matrix.multiply(builder, given, "y")

    return run(folder, make, x)


def gather(folder: Path, store: Store, parts: Sequence[Part], ids: NDArray[np.int64]) -> Floats:
    """The rows at ``ids`` as ONNX Runtime looks them up."""

    def make(builder: GraphBuilder, given: ir.Value) -> ir.Value:
        matrix, _ = store(builder, "w", row_sources(parts))
        return matrix.gather(builder, given, "y")

    return run(folder, make, ids)


def records(folder: Path, store: Store, parts: Sequence[Part]) -> list[TensorRecord]:
    """How the lock would describe the parts."""
    with WeightFile(folder / "model.onnx.data") as weight_file:
        _, described = store(GraphBuilder(weight_file), "w", row_sources(parts))
    return [described[f"part{i}"] for i in range(len(parts))]


def run(folder: Path, make: Make, given: NDArray[np.generic]) -> Floats:
    """The output of a graph whose one input is ``given``; only its last dimension is fixed."""
    shape = ir.Shape([f"d{axis}" for axis in range(given.ndim - 1)] + [given.shape[-1]])
    x = ir.Value(name="x", shape=shape, type=ir.TensorType(ir.DataType.from_numpy(given.dtype)))
    with WeightFile(folder / "model.onnx.data") as weight_file:
        builder = GraphBuilder(weight_file)
        y = make(builder, x)
        y.type = ir.TensorType(ir.DataType.FLOAT)
        model = builder.model("one_matrix", [x], [y], producer="test")
    ir.save(model, folder / "model.onnx")
    session = onnxruntime.InferenceSession(folder / "model.onnx", _options())
    product: Floats = session.run(None, {"x": given})[0]
    return product


def _options() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return options
