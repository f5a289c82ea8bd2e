"""A checkpoint's weights as they enter the graph: stored in a format, and recorded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from mrs.errors import UnsupportedArchitectureError
from mrs.export.checkpoints.checkpoint import Checkpoint
from mrs.export.graph.builder import GraphBuilder
from mrs.export.graph.experts import StoredExperts
from mrs.export.graph.matrix_formats import MatrixFormats
from mrs.export.graph.row_source import RowSource, expert_rows, matrix, vector
from mrs.export.graph.stored_matrix import StoredMatrix
from mrs.model_repo.lock import TensorRecord


@dataclass
class Weights:
    """Puts checkpoint tensors into a graph.

    Attributes:
        checkpoint: where they come from.
        format: how matrices are stored.
        builder: the graph.
        records: how each checkpoint tensor ended up, by its name.
    """

    checkpoint: Checkpoint
    format: MatrixFormats
    builder: GraphBuilder
    records: dict[str, TensorRecord] = field(default_factory=dict)

    def rows(self, name: str, shape: tuple[int, int]) -> RowSource:
        """The matrix ``<name>.weight``, which must have this shape; see `row_source.matrix`."""
        return matrix(self.checkpoint, f"{name}.weight", shape)

    def store(self, name: str, parts: list[RowSource], *, gathered: bool = False) -> StoredMatrix:
        """Write matrices of equal width below one another."""
        stored, records = self.format.store(self.builder, name, parts, gathered=gathered)
        self.records.update(records)
        return stored

    def linear(self, name: str, x: ir.Value, parts: list[RowSource]) -> ir.Value:
        """``x`` times the parts, with their biases where the checkpoint has any."""
        product = self.store(f"{name}.weight", parts).multiply(self.builder, x, name)
        if not any(_bias_name(part) in self.checkpoint.tensors for part in parts):
            return product
        bias = np.concatenate([self._bias(part) for part in parts])
        return self.builder.op(
            "Add", [product, self.builder.weight(f"{name}.bias", bias)], f"{name}.biased"
        )

    def expert_rows(self, name: str, shape: tuple[int, int, int]) -> RowSource:
        """``<name>.weight`` of all experts, a tensor of this shape ``[experts, rows, columns]``.

        A tensor that holds gate and up is taken twice, with an ``order`` that picks the rows of
        each: ``dataclasses.replace(rows, rows=len(order), order=order)``.
        """
        return expert_rows(self.checkpoint, f"{name}.weight", shape)

    def experts(
        self, name: str, experts: int, inner: Sequence[RowSource], down: RowSource
    ) -> StoredExperts:
        """Write the matrices of a layer's experts, with their biases where there are any.

        They are stored as ``--quant`` says, in blocks for QMoE or as float32 for MoE; the result's
        `StoredExperts.mix` makes the node.

        Args:
            name: of the initializers, such as ``blk.0.ffn_exps``.
            experts: how many.
            inner: gate and up, or up alone, as `expert_rows` gives them.
            down: the same for the way back.
        """
        biases = self._expert_bias(experts, inner), self._expert_bias(experts, [down])
        stored, records = self.format.store_experts(
            self.builder, name, experts, inner, down, biases
        )
        self.records.update(records)
        return stored

    def _expert_bias(self, experts: int, parts: Sequence[RowSource]) -> NDArray[np.float32] | None:
        """The biases ``[experts, rows]`` of parts whose rows are stored in turn, or None."""
        names = [_bias_name(part) for part in parts]
        if not any(name in self.checkpoint.tensors for name in names):
            return None
        found = [self._expert_bias_of(experts, part) for part in parts]
        return np.stack(found, axis=-1).reshape(experts, -1)

    def _expert_bias_of(self, experts: int, part: RowSource) -> NDArray[np.float32]:
        name = _bias_name(part)
        if name not in self.checkpoint.tensors:
            return np.zeros(part.rows, dtype=np.float32)
        rows = math.prod(self.checkpoint.tensors[part.name].shape[:-1])
        values = self.table(name, (experts, rows // experts)).reshape(-1)
        return values if part.order is None else values[part.order]

    def vector(self, name: str, length: int, stored_as: str = "float32") -> NDArray[np.float32]:
        """A 1-D tensor, which must have this length, as it will be in the graph."""
        values = vector(self.checkpoint, name, length)
        source_type = self.checkpoint.tensors[name].dtype
        self.records[name] = TensorRecord(source_type=source_type, stored_as=stored_as, exact=True)
        return values

    def table(self, name: str, shape: tuple[int, int]) -> NDArray[np.float32]:
        """A small matrix, which must have this shape, as it will be in the graph."""
        rows = matrix(self.checkpoint, name, shape)
        self.records[name] = TensorRecord(source_type=rows.dtype, stored_as="float32", exact=True)
        return np.concatenate(list(rows.float_chunks()))

    def refuse_unused(self, needless: tuple[str, ...] = ()) -> None:
        """Refuse a checkpoint with tensors that the graph did not take.

        They belong to a variant of the family, whose model would be exported as another one.

        Args:
            needless: patterns (`fnmatch`) of tensors that may be left out.

        Raises:
            UnsupportedArchitectureError: naming the first of them.
        """
        unused = [
            name
            for name in sorted(self.checkpoint.tensors.keys() - self.records.keys())
            if not any(fnmatchcase(name, pattern) for pattern in needless)
        ]
        if unused:
            others = f" and {len(unused) - 1} more" if len(unused) > 1 else ""
            raise UnsupportedArchitectureError(
                f"The {self.checkpoint.architecture} model of mrs has no use for the tensor "
                f"{unused[0]!r:.80}{others}.",
                hint="Export a model of a supported family, without additions to it.",
            )

    def _bias(self, part: RowSource) -> NDArray[np.float32]:
        """A part's bias, in the order of its rows; zeros where it has none."""
        name = _bias_name(part)
        if name not in self.checkpoint.tensors:
            return np.zeros(part.rows, dtype=np.float32)
        values = self.vector(name, part.rows)
        return values if part.order is None else values[part.order]


def _bias_name(part: RowSource) -> str:
    return part.name.removesuffix("weight") + "bias"
