"""DecoderSpec and tensors -> the decoder graph that docs/architecture.md defines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from mrs.export.architectures.spec import DecoderSpec
from mrs.export.checkpoints.checkpoint import Checkpoint
from mrs.export.graph.builder import GraphBuilder, int64s
from mrs.export.graph.matrix_formats import MatrixFormat, StoredMatrix
from mrs.export.graph.rope import head_row_order, rope_tables
from mrs.export.graph.row_source import RowSource, matrix, vector
from mrs.model_repo.lock import TensorRecord


@dataclass(frozen=True)
class BuiltDecoder:
    """A finished graph, and how each checkpoint tensor is held by it."""

    model: ir.Model
    tensors: dict[str, TensorRecord]


def build_decoder(
    spec: DecoderSpec,
    checkpoint: Checkpoint,
    matrix_format: MatrixFormat,
    builder: GraphBuilder,
    on_layer: Callable[[], None] = lambda: None,
) -> BuiltDecoder:
    """Build the decoder graph, writing weights as it goes.

    Args:
        spec: what the decoder is made of.
        checkpoint: its tensors.
        matrix_format: how matrices are stored.
        builder: an empty builder over the weight file.
        on_layer: called after each layer, for progress.

    Raises:
        CorruptCheckpointError: a tensor is missing or has another shape.
        UnsupportedTensorTypeError: a tensor's storage type cannot be read.
    """
    return _DecoderGraph(spec, checkpoint, matrix_format, builder).build(on_layer)


def _input(name: str, dtype: ir.DataType, *shape: int | str) -> ir.Value:
    return ir.Value(name=name, shape=ir.Shape(shape), type=ir.TensorType(dtype))


@dataclass
class _DecoderGraph:
    spec: DecoderSpec
    checkpoint: Checkpoint
    matrix_format: MatrixFormat
    builder: GraphBuilder
    tensors: dict[str, TensorRecord] = field(default_factory=dict)
    inputs: list[ir.Value] = field(default_factory=list)
    presents: list[ir.Value] = field(default_factory=list)

    def build(self, on_layer: Callable[[], None]) -> BuiltDecoder:
        ids = self._add_input("input_ids", ir.DataType.INT64, "batch", "sequence")
        self.query_seqlens = self._add_input("query_seqlens", ir.DataType.INT32, "batch")
        self.seqlens_k = self._add_input("seqlens_k", ir.DataType.INT32, "batch")
        self.total_length = self._add_input("total_sequence_length", ir.DataType.INT32)
        indices = self._add_input("logits_indices", ir.DataType.INT64, "rows")
        self.cosines, self.sines = self._rope_tables()

        embedding = self._embedding()
        hidden = embedding.gather(self.builder, ids, "embedding")
        for layer in range(self.spec.num_layers):
            hidden = self._layer(layer, hidden)
            on_layer()
        logits = self._logits(hidden, indices, embedding)
        model = self.builder.model(
            self.spec.architecture, self.inputs, [logits, *self.presents], producer="mrs"
        )
        return BuiltDecoder(model, self.tensors)

    # --- the ends -------------------------------------------------------------------------------

    def _embedding(self) -> StoredMatrix:
        shape = (self.spec.vocab_size, self.spec.hidden_size)
        return self._store(
            "embedding.weight", [matrix(self.checkpoint, "token_embd.weight", shape)]
        )

    def _logits(self, hidden: ir.Value, indices: ir.Value, embedding: StoredMatrix) -> ir.Value:
        """Only the wanted positions pass the final norm and the output head."""
        flat_shape = self.builder.constant("flat_shape", int64s(-1, self.spec.hidden_size))
        flat = self.builder.op("Reshape", [hidden, flat_shape], "flat_hidden")
        wanted = self.builder.op("Gather", [flat, indices], "wanted_hidden")
        normed = self._norm(wanted, "output_norm")
        head = embedding
        if not self.spec.tied_embeddings:
            shape = (self.spec.vocab_size, self.spec.hidden_size)
            head = self._store("head.weight", [matrix(self.checkpoint, "output.weight", shape)])
        logits = head.multiply(self.builder, normed, "logits")
        logits.shape = ir.Shape(("rows", self.spec.vocab_size))
        logits.type = ir.TensorType(ir.DataType.FLOAT)
        return logits

    # --- one layer ------------------------------------------------------------------------------

    def _layer(self, layer: int, hidden: ir.Value) -> ir.Value:
        block = f"blk.{layer}"
        attended = self._attention(layer, self._norm(hidden, f"{block}.attn_norm"))
        hidden = self.builder.op("Add", [hidden, attended], f"{block}.attn_residual")
        mixed = self._mlp(block, self._norm(hidden, f"{block}.ffn_norm"))
        return self.builder.op("Add", [hidden, mixed], f"{block}.ffn_residual")

    def _attention(self, layer: int, x: ir.Value) -> ir.Value:
        attention, block = self.spec.attention, f"blk.{layer}"
        past_key, present_key = self._cache(layer, "key")
        past_value, present_value = self._cache(layer, "value")
        attended = self.builder.contrib(
            "GroupQueryAttention",
            [self._qkv(block, x), None, None, past_key, past_value, self.seqlens_k,
             self.total_length, self.cosines, self.sines, None, None, None, None, None, None,
             None, self.query_seqlens],
            f"{block}.attention",
            {
                "num_heads": attention.num_heads,
                "kv_num_heads": attention.num_kv_heads,
                "scale": float(attention.head_dim**-0.5),
                "do_rotary": 1,
            },
            outputs=[ir.Value(name=f"{block}.attended"), present_key, present_value],
        )  # fmt: skip
        width = attention.num_heads * attention.head_dim
        return self._linear(
            f"{block}.attn_output", attended, [self._rows(f"{block}.attn_output", width)]
        )

    def _qkv(self, block: str, x: ir.Value) -> ir.Value:
        """Query, key and value in one product: fewer, larger matmuls keep the threads busy."""
        attention, hidden = self.spec.attention, self.spec.hidden_size
        rope, size = attention.rope, attention.head_dim
        parts = []
        for letter, heads in (
            ("q", attention.num_heads),
            ("k", attention.num_kv_heads),
            ("v", attention.num_kv_heads),
        ):
            order = head_row_order(rope.layout, heads, size, rope.dims) if letter != "v" else None
            name = f"{block}.attn_{letter}.weight"
            parts.append(matrix(self.checkpoint, name, (heads * size, hidden), order))
        return self._linear(f"{block}.attn_qkv", x, parts)

    def _mlp(self, block: str, x: ir.Value) -> ir.Value:
        """SwiGLU (Shazeer, arXiv:2002.05202): down(silu(gate(x)) * up(x))."""
        width, hidden = self.spec.intermediate_size, self.spec.hidden_size
        both = self._linear(
            f"{block}.ffn_gate_up",
            x,
            [matrix(self.checkpoint, f"{block}.ffn_{part}.weight", (width, hidden))
             for part in ("gate", "up")],
        )  # fmt: skip
        gate, up = ir.Value(name=f"{block}.gate"), ir.Value(name=f"{block}.up")
        self.builder.op(
            "Split", [both], f"{block}.split", {"axis": -1, "num_outputs": 2}, outputs=[gate, up]
        )
        # QuickGelu with alpha 1 is x * sigmoid(x), in one pass over the row.
        activated = self.builder.contrib("QuickGelu", [gate], f"{block}.silu", {"alpha": 1.0})
        product = self.builder.op("Mul", [activated, up], f"{block}.gated")
        return self._linear(f"{block}.ffn_down", product, [self._rows(f"{block}.ffn_down", width)])

    # --- pieces ---------------------------------------------------------------------------------

    def _rows(self, name: str, columns: int) -> RowSource:
        return matrix(self.checkpoint, f"{name}.weight", (self.spec.hidden_size, columns))

    def _norm(self, x: ir.Value, name: str) -> ir.Value:
        """RMS norm (Zhang and Sennrich, arXiv:1910.07467)."""
        weight_name = f"{name}.weight"
        values = vector(self.checkpoint, weight_name, self.spec.hidden_size)
        self.tensors[weight_name] = TensorRecord(
            source_type=self.checkpoint.tensors[weight_name].dtype, stored_as="float32", exact=True
        )
        weight = self.builder.weight(weight_name, values)
        attributes = {"axis": -1, "epsilon": self.spec.norm_epsilon}
        return self.builder.op("RMSNormalization", [x, weight], name, attributes)

    def _linear(self, name: str, x: ir.Value, parts: list[RowSource]) -> ir.Value:
        product = self._store(f"{name}.weight", parts).multiply(self.builder, x, name)
        biases = [part.name.removesuffix("weight") + "bias" for part in parts]
        if not any(bias in self.checkpoint.tensors for bias in biases):
            return product
        bias = self.builder.weight(f"{name}.bias", self._bias(parts, biases))
        return self.builder.op("Add", [product, bias], f"{name}.biased")

    def _bias(
        self, parts: list[RowSource], names: list[str]
    ) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
        """Biases below one another like their matrices; zero where a part has none."""
        pieces = []
        for part, name in zip(parts, names, strict=True):
            values = np.zeros(part.rows, dtype=np.float32)
            if name in self.checkpoint.tensors:
                values = vector(self.checkpoint, name, part.rows)
                self.tensors[name] = TensorRecord(
                    source_type=self.checkpoint.tensors[name].dtype, stored_as="float32", exact=True
                )
            pieces.append(values if part.order is None else values[part.order])
        return np.concatenate(pieces)

    def _store(self, name: str, parts: list[RowSource]) -> StoredMatrix:
        stored, records = self.matrix_format.store(self.builder, name, parts)
        self.tensors.update(records)
        return stored

    def _rope_tables(self) -> tuple[ir.Value, ir.Value]:
        rope = self.spec.attention.rope
        factors = None
        if rope.factors is not None:
            factors = vector(self.checkpoint, rope.factors, rope.dims // 2)
            self.tensors[rope.factors] = TensorRecord(
                source_type=self.checkpoint.tensors[rope.factors].dtype,
                stored_as="rotary table",
                exact=True,
            )
        cosines, sines = rope_tables(rope, self.spec.context_length, factors)
        return self.builder.weight("rope.cos", cosines), self.builder.weight("rope.sin", sines)

    def _cache(self, layer: int, which: str) -> tuple[ir.Value, ir.Value]:
        attention = self.spec.attention
        shape = ("batch", attention.num_kv_heads, "capacity", attention.head_dim)
        past = self._add_input(f"past_key_values.{layer}.{which}", ir.DataType.FLOAT, *shape)
        present = _input(f"present.{layer}.{which}", ir.DataType.FLOAT, *shape)
        self.presents.append(present)
        return past, present

    def _add_input(self, name: str, dtype: ir.DataType, *shape: int | str) -> ir.Value:
        value = _input(name, dtype, *shape)
        self.inputs.append(value)
        return value
