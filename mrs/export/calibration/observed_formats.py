"""Matrices that tell what they are multiplied with: outputs of the graph that sum up squares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import onnx_ir as ir

from mrs.export.graph.builder import GraphBuilder, int64s
from mrs.export.graph.experts import Biases, StoredExperts
from mrs.export.graph.matrix_formats import MatrixFormats
from mrs.export.graph.row_source import RowSource
from mrs.export.graph.stored_matrix import StoredMatrix
from mrs.model_repo.lock import TensorRecord

PREFIX = "squares."


@dataclass
class Observations:
    """What is observed of each tensor.

    Attributes:
        values: the sums of squared activations, float32 ``[columns]``, by tensor name. Tensors
            that meet the same activations share them.
    """

    values: dict[str, ir.Value] = field(default_factory=dict)

    def observe(
        self, builder: GraphBuilder, x: ir.Value, parts: Sequence[RowSource], columns: int
    ) -> None:
        """Sum up ``x`` for each of the tensors that it is multiplied with."""

        def make() -> ir.Value:
            name = f"{PREFIX}{x.name}"
            shape = builder.constant(f"tokens_of_{columns}", int64s(-1, columns))
            rows = builder.op("Reshape", [x, shape], f"{name}.rows")
            first = builder.constant("first_axis", int64s(0))
            total = builder.op("ReduceSumSquare", [rows, first], name, {"keepdims": 0})
            total.shape = ir.Shape((columns,))
            total.type = ir.TensorType(ir.DataType.FLOAT)
            return total

        total = builder.shared(("squares", x), make)
        self.values.update({part.name: total for part in parts})

    def add_outputs(self, model: ir.Model) -> dict[str, str]:
        """Make the sums outputs of the graph; returns the output of each tensor."""
        model.graph.outputs.extend(dict.fromkeys(self.values.values()))
        return {name: str(value.name) for name, value in self.values.items()}


@dataclass(frozen=True)
class ObservedFormats(MatrixFormats):
    """Stores matrices as `MatrixFormats` does, and observes what they are multiplied with.

    Of experts only what comes to all of them is seen, and not what each makes of it.
    """

    observations: Observations = field(default_factory=Observations)

    def store(
        self, builder: GraphBuilder, name: str, parts: Sequence[RowSource], *, gathered: bool
    ) -> tuple[StoredMatrix, dict[str, TensorRecord]]:
        """Write matrices, and observe their products."""
        matrix, records = super().store(builder, name, parts, gathered=gathered)
        return _ObservedMatrix(matrix, parts, self.observations), records

    def store_experts(
        self,
        builder: GraphBuilder,
        name: str,
        experts: int,
        inner: Sequence[RowSource],
        down: RowSource,
        biases: Biases,
    ) -> tuple[StoredExperts, dict[str, TensorRecord]]:
        """Write the matrices of experts, and observe what comes to them."""
        stored, records = super().store_experts(builder, name, experts, inner, down, biases)
        values = {each.name: getattr(stored, each.name) for each in fields(stored)}
        return _ObservedExperts(**values, parts=inner, observations=self.observations), records


@dataclass(frozen=True)
class _ObservedMatrix:
    matrix: StoredMatrix
    parts: Sequence[RowSource]
    observations: Observations

    def multiply(self, builder: GraphBuilder, x: ir.Value, name: str) -> ir.Value:
        self.observations.observe(builder, x, self.parts, self.parts[0].columns)
        return self.matrix.multiply(builder, x, name)

    def gather(self, builder: GraphBuilder, ids: ir.Value, name: str) -> ir.Value:
        return self.matrix.gather(builder, ids, name)


@dataclass(frozen=True, kw_only=True)
class _ObservedExperts(StoredExperts):
    parts: Sequence[RowSource]
    observations: Observations

    def mix(
        self,
        builder: GraphBuilder,
        x: ir.Value,
        router: ir.Value,
        name: str,
        top_k: int,
        *,
        normalize: bool,
        mixing: ir.Value | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> ir.Value:
        self.observations.observe(builder, x, self.parts, self.parts[0].columns)
        return super().mix(
            builder,
            x,
            router,
            name,
            top_k,
            normalize=normalize,
            mixing=mixing,
            attributes=attributes,
        )
