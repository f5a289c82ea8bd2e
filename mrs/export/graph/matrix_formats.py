"""``--quant`` and ``--quant-map``: how each product of the graph is stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mrs.export.graph.block_matrix import BlockLayout
from mrs.export.graph.builder import GraphBuilder
from mrs.export.graph.concatenated_matrix import ConcatenatedMatrix
from mrs.export.graph.experts import Biases, StoredExperts, store_experts
from mrs.export.graph.matrix_choices import CHOICES, Use, fp32
from mrs.export.graph.row_source import RowSource
from mrs.export.graph.stored_matrix import MatrixLayout, StoredMatrix, StoredPart
from mrs.export.quantization.importance import TensorImportance
from mrs.export.quantization.requested import QuantizationMap
from mrs.model_repo.lock import TensorRecord

_HEAD = "output.weight"


@dataclass(frozen=True)
class MatrixFormats:
    """Decides how matrices are stored, and writes them.

    Each tensor has the format that its own type calls for. Tensors that are multiplied with the
    same activations are one product as far as their formats agree: neighbours whose layouts join
    are a run, each run is one matrix, and the products of several runs are put together.

    Attributes:
        requested: the quantization of each tensor by its name.
        importance: of the columns of each tensor by its name, where it is known.
        whole_texts: the model reads texts at once, as those do that make vectors or scores of them.
    """

    requested: QuantizationMap
    importance: Mapping[str, TensorImportance] = field(default_factory=dict)
    whole_texts: bool = False

    def store(
        self, builder: GraphBuilder, name: str, parts: Sequence[RowSource], *, gathered: bool
    ) -> tuple[StoredMatrix, dict[str, TensorRecord]]:
        """Write matrices of equal width below one another.

        Args:
            builder: whose weight file takes the bytes.
            name: of the initializers.
            parts: the matrices.
            gathered: whether rows will be looked up, as in an embedding.

        Returns:
            the stored matrix, and how each checkpoint tensor is held by it.
        """
        runs = self.runs(parts, gathered=gathered)
        records = {part.source.name: part.record for _, run in runs for part in run}
        if len(runs) == 1:
            ((layout, run),) = runs
            return layout.store(builder, name, run), records
        stored = [layout.store(builder, f"{name}.{i}", run) for i, (layout, run) in enumerate(runs)]
        return ConcatenatedMatrix(stored), records

    def runs(
        self, parts: Sequence[RowSource], *, gathered: bool = False
    ) -> list[tuple[MatrixLayout, list[StoredPart]]]:
        """The runs of a product, in the order of its parts.

        Chosen twice, since the size of a run, which a choice may depend on, is that of the parts
        that would join.
        """
        whole = sum(part.rows * part.columns for part in parts)
        first = _join([self.choose(part, whole, gathered=gathered) for part in parts])
        return _join(
            [
                self.choose(part.source, weights, gathered=gathered)
                for _, run in first
                for weights in [sum(part.source.rows * part.source.columns for part in run)]
                for part in run
            ]
        )

    def store_experts(
        self,
        builder: GraphBuilder,
        name: str,
        experts: int,
        inner: Sequence[RowSource],
        down: RowSource,
        biases: Biases,
    ) -> tuple[StoredExperts, dict[str, TensorRecord]]:
        """Write the matrices of a layer's experts; see `experts.store_experts`."""
        use = Use(gathered=False, vocabulary=False, weights=0, experts=True)
        parts = [self._chosen(source, use) for source in (*inner, down)]
        if not all(isinstance(part.layout, BlockLayout) for part in parts):
            parts = [fp32(part.source, use) for part in parts]
        stored = store_experts(builder, name, experts, parts[:-1], parts[-1], biases)
        return stored, {part.source.name: part.record for part in parts}

    def choose(self, source: RowSource, weights: int, *, gathered: bool = False) -> StoredPart:
        """How one tensor is stored that is part of a product of so many weights."""
        return self._chosen(source, Use(gathered, gathered or source.name == _HEAD, weights))

    def _chosen(self, source: RowSource, use: Use) -> StoredPart:
        use = replace(
            use,
            named=self.requested.names(source.name),
            whole_texts=self.whole_texts,
            importance=self.importance.get(source.name),
        )
        return CHOICES[self.requested.of(source.name)](source, use)


def matrix_format(quantization: str) -> MatrixFormats:
    """The formats of one quantization for all tensors."""
    return MatrixFormats(QuantizationMap(quantization))


def _join(parts: Sequence[StoredPart]) -> list[tuple[MatrixLayout, list[StoredPart]]]:
    return list(_runs(parts))


def _runs(parts: Sequence[StoredPart]) -> Iterator[tuple[MatrixLayout, list[StoredPart]]]:
    layout, run = parts[0].layout, [parts[0]]
    for part in parts[1:]:
        joined = layout.join(part.layout)
        if joined is None:
            yield layout, run
            layout, run = part.layout, [part]
        else:
            layout = joined
            run.append(part)
    yield layout, run
