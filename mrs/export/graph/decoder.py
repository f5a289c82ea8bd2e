"""DecoderSpec and tensors -> the decoder graph that docs/architecture.md defines."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from mrs.export.architectures.spec import DecoderSpec
from mrs.export.graph.attention import AttentionInputs, LayerCache, attention, rope_weights
from mrs.export.graph.builder import int64s
from mrs.export.graph.mlp import gated_mlp
from mrs.export.graph.norm import add_rms_norm, rms_norm
from mrs.export.graph.stored_matrix import StoredMatrix
from mrs.export.graph.weights import Weights


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
        self._inputs: list[ir.Value] = []
        self._presents: list[ir.Value] = []

    def build(self, on_layer: Callable[[], None]) -> ir.Model:
        ids = self._input("input_ids", ir.DataType.INT64, "batch", "sequence")
        query_seqlens = self._input("query_seqlens", ir.DataType.INT32, "batch")
        seqlens_k = self._input("seqlens_k", ir.DataType.INT32, "batch")
        total_length = self._input("total_sequence_length", ir.DataType.INT32)
        indices = self._input("logits_indices", ir.DataType.INT64, "rows")
        tables = rope_weights(self._weights, self._spec)
        shared = AttentionInputs(query_seqlens, seqlens_k, total_length, *tables)

        embedding = self._vocabulary_matrix("embedding", "token_embd", gathered=True)
        hidden = embedding.gather(self._weights.builder, ids, "embedding")
        hidden = self._layers(hidden, shared, on_layer)
        logits = self._logits(hidden, indices, embedding)
        self._weights.refuse_unused()
        return self._weights.builder.model(
            self._spec.architecture, self._inputs, [logits, *self._presents], producer="mrs"
        )

    def _layers(
        self, hidden: ir.Value, shared: AttentionInputs, on_layer: Callable[[], None]
    ) -> ir.Value:
        """All layers; each residual sum is taken by the norm that follows it."""
        weights, spec = self._weights, self._spec
        size, epsilon = spec.hidden_size, spec.norm_epsilon
        delta: ir.Value | None = None
        for layer in range(spec.num_layers):
            block = f"blk.{layer}"
            if delta is None:
                normed = rms_norm(weights, hidden, f"{block}.attn_norm", size, epsilon)
            else:
                normed, hidden = add_rms_norm(
                    weights, hidden, delta, f"{block}.attn_norm", size, epsilon
                )
            attended = attention(weights, spec, block, normed, shared, self._cache(layer))
            normed, hidden = add_rms_norm(
                weights, hidden, attended, f"{block}.ffn_norm", size, epsilon
            )
            delta = gated_mlp(weights, spec, block, normed)
            on_layer()
        return weights.builder.op("Add", [hidden, delta], "hidden")

    def _logits(self, hidden: ir.Value, indices: ir.Value, embedding: StoredMatrix) -> ir.Value:
        """Only the wanted positions pass the final norm and the output head."""
        builder, spec = self._weights.builder, self._spec
        flat_shape = builder.constant("flat_shape", int64s(-1, spec.hidden_size))
        flat = builder.op("Reshape", [hidden, flat_shape], "flat_hidden")
        wanted = builder.op("Gather", [flat, indices], "wanted_hidden")
        size, epsilon = spec.hidden_size, spec.norm_epsilon
        normed = rms_norm(self._weights, wanted, "output_norm", size, epsilon)
        head = embedding if spec.tied_embeddings else self._vocabulary_matrix("head", "output")
        logits = head.multiply(builder, normed, "logits", rank=2)
        logits.shape = ir.Shape(("rows", spec.vocab_size))
        logits.type = ir.TensorType(ir.DataType.FLOAT)
        return logits

    def _vocabulary_matrix(self, name: str, tensor: str, *, gathered: bool = False) -> StoredMatrix:
        shape = (self._spec.vocab_size, self._spec.hidden_size)
        rows = self._weights.rows(tensor, shape)
        return self._weights.store(f"{name}.weight", [rows], gathered=gathered)

    def _cache(self, layer: int) -> LayerCache:
        sizes = self._spec.attention
        shape = ("batch", sizes.num_kv_heads, "capacity", sizes.head_dim)
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
