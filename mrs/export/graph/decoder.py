"""DecoderSpec and tensors -> the decoder graph that docs/architecture.md defines."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from mrs.export.architectures.spec import DecoderSpec
from mrs.export.graph.attention import AttentionInputs, LayerCache
from mrs.export.graph.block import Block, Residual, check_projections
from mrs.export.graph.builder import int64s
from mrs.export.graph.norm import norm
from mrs.export.graph.positions import position_ids, rope_tables
from mrs.export.graph.stored_matrix import StoredMatrix
from mrs.export.graph.weights import Weights

WINDOWED_CAPACITY = "capacity_of_window_"
"""How the capacity of a cache is called in layers with a window, whose size follows."""


def build_decoder(
    spec: DecoderSpec, weights: Weights, on_layer: Callable[[], None] = lambda: None
) -> ir.Model:
    """Build the decoder graph, writing weights as it goes.

    Args:
        spec: what the decoder is made of.
        weights: its tensors, over an empty graph.
        on_layer: called after each layer, for progress.

    Raises:
        CorruptCheckpointError: a tensor is missing or has another shape.
        UnsupportedTensorTypeError: a tensor's storage type cannot be read.
        UnsupportedArchitectureError: there are tensors that the decoder has no use for.
    """
    return _DecoderGraph(spec, weights).build(on_layer)


class _DecoderGraph:
    def __init__(self, spec: DecoderSpec, weights: Weights) -> None:
        self._spec = spec
        self._weights = weights
        self._builder = weights.builder
        self._inputs: list[ir.Value] = []
        self._presents: list[ir.Value] = []

    def build(self, on_layer: Callable[[], None]) -> ir.Model:
        ids = self._input("input_ids", ir.DataType.INT64, "batch", "sequence")
        query_seqlens = self._input("query_seqlens", ir.DataType.INT32, "batch")
        seqlens_k = self._input("seqlens_k", ir.DataType.INT32, "batch")
        total_length = self._input("total_sequence_length", ir.DataType.INT32)
        indices = self._input("logits_indices", ir.DataType.INT64, "rows")
        check_projections(self._weights, self._spec)
        tables = rope_tables(self._weights, self._spec)
        shared = AttentionInputs(ids, query_seqlens, seqlens_k, total_length, tables)

        embedding = self._vocabulary_matrix("embedding", "token_embd", gathered=True)
        residual = Residual(self._weights, self._spec, self._embed(ids, shared, embedding))
        for index, layer in enumerate(self._spec.layers):
            block = Block(self._weights, self._spec, layer, f"blk.{index}")
            block.append_to(residual, shared, self._cache(index))
            on_layer()
        logits = self._logits(residual.total(), indices, embedding)
        self._weights.refuse_unused(self._spec.needless)
        return self._builder.model(
            self._spec.architecture, self._inputs, [logits, *self._presents], producer="mrs"
        )

    def _embed(self, ids: ir.Value, shared: AttentionInputs, embedding: StoredMatrix) -> ir.Value:
        hidden = embedding.gather(self._builder, ids, "embedding")
        hidden = self._builder.scaled(hidden, self._spec.embedding_scale, "embedding")
        if self._spec.learned_positions:
            context = self._spec.context_length
            shape = (self._spec.learned_positions, self._spec.hidden_size)
            table = self._weights.table("position_embd.weight", shape)
            positions = position_ids(
                self._builder, ids, shared.query_seqlens, shared.seqlens_k, context
            )
            stored = self._builder.weight("position_embedding.weight", table[:context])
            places = self._builder.op("Gather", [stored, positions], "position_embedding")
            hidden = self._builder.op("Add", [hidden, places], "embedding.placed")
        return hidden

    def _logits(self, hidden: ir.Value, indices: ir.Value, embedding: StoredMatrix) -> ir.Value:
        """Only the wanted positions pass the final norm and the output head."""
        builder, spec = self._builder, self._spec
        flat_shape = builder.constant("flat_shape", int64s(-1, spec.hidden_size))
        flat = builder.op("Reshape", [hidden, flat_shape], "flat_hidden")
        wanted = builder.op("Gather", [flat, indices], "wanted_hidden")
        normed = norm(self._weights, wanted, "output_norm", spec.hidden_size, spec.norm)
        head = embedding if spec.tied_embeddings else self._vocabulary_matrix("head", "output")
        normed.shape = ir.Shape(("rows", spec.hidden_size))
        normed.type = ir.TensorType(ir.DataType.FLOAT)
        logits = head.multiply(builder, normed, "head")
        if "output.bias" in self._weights.checkpoint.tensors:
            bias = builder.weight("head.bias", self._weights.vector("output.bias", spec.vocab_size))
            logits = builder.op("Add", [logits, bias], "head.biased")
        logits = builder.scaled(logits, spec.logit_scale, "head")
        if spec.logit_softcap:
            logits = builder.scaled(logits, 1 / spec.logit_softcap, "softcap.inner")
            logits = builder.op("Tanh", [logits], "softcap.tanh")
            logits = builder.scaled(logits, spec.logit_softcap, "softcap.outer")
        logits.name = "logits"
        logits.shape = ir.Shape(("rows", spec.vocab_size))
        logits.type = ir.TensorType(ir.DataType.FLOAT)
        return logits

    def _vocabulary_matrix(self, name: str, tensor: str, *, gathered: bool = False) -> StoredMatrix:
        shape = (self._spec.vocab_size, self._spec.hidden_size)
        rows = self._weights.rows(tensor, shape)
        return self._weights.store(f"{name}.weight", [rows], gathered=gathered)

    def _cache(self, layer: int) -> LayerCache:
        spec = self._spec
        window = spec.windows[layer]
        # The name tells the window: the runtime need not hold more than that, and not less.
        capacity = "capacity" if window is None else f"{WINDOWED_CAPACITY}{window}"
        shape = ("batch", spec.num_kv_heads, capacity, spec.head_dim)
        past = [
            self._input(f"past_key_values.{layer}.{which}", ir.DataType.FLOAT, *shape)
            for which in ("key", "value")
        ]
        present = [
            _value(f"present.{layer}.{which}", ir.DataType.FLOAT, *shape)
            for which in ("key", "value")
        ]
        self._presents.extend(present)
        return LayerCache(*past, *present)

    def _input(self, name: str, dtype: ir.DataType, *shape: int | str) -> ir.Value:
        value = _value(name, dtype, *shape)
        self._inputs.append(value)
        return value


def _value(name: str, dtype: ir.DataType, *shape: int | str) -> ir.Value:
    return ir.Value(name=name, shape=ir.Shape(shape), type=ir.TensorType(dtype))
