"""Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434), expanded to ordinary heads.

Keys and values come from a narrow vector of each token, and one rotated part of the key is shared
by all heads. They are expanded before they are cached, so that the operator, its cache and the
runtime are those of every other model. In each head the rotated dimensions come first here, where
the operator wants them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from mrs.export.architectures.spec import (
    AttentionSpec,
    DecoderSpec,
    LatentAttentionSpec,
    NormKind,
    NormSpec,
)
from mrs.export.graph.attention import AttentionInputs, LayerCache, grouped_query_attention
from mrs.export.graph.builder import int64s
from mrs.export.graph.norm import norm
from mrs.export.graph.rope import head_row_order
from mrs.export.graph.row_source import RowSource
from mrs.export.graph.turned_rows import turned_rows
from mrs.export.graph.weights import Weights


def latent_attention(
    weights: Weights,
    model: DecoderSpec,
    spec: LatentAttentionSpec,
    block: str,
    x: ir.Value,
    inputs: AttentionInputs,
    cache: LayerCache,
) -> ir.Value:
    """Attention over the cache and the new tokens, with its output projection."""
    graph = _Attention(weights, model, spec, block)
    attended = grouped_query_attention(
        weights,
        AttentionSpec(spec.num_heads, spec.num_heads, spec.head_dim, spec.rope, spec.scale),
        block,
        graph.query_key_value(x),
        inputs.tables[spec.rope],
        inputs,
        cache,
        rotates=True,
    )
    attended = graph.cut(attended)
    width = spec.num_heads * spec.value_dim
    output = weights.rows(f"{block}.attn_output", (model.hidden_size, width))
    return weights.linear(f"{block}.attn_output", attended, [output])


def latent_projections(
    weights: Weights, model: DecoderSpec, spec: LatentAttentionSpec, block: str
) -> list[RowSource]:
    """What the block's input is multiplied with: the query or what it is expanded from, and what
    keys and values are expanded from, with the rotated part of all keys behind it.

    Raises:
        CorruptCheckpointError: a tensor is missing or has another shape.
    """
    rotated = spec.rope.dims
    latent = weights.rows(f"{block}.attn_kv_a_mqa", (spec.kv_rank + rotated, model.hidden_size))
    order = np.concatenate([np.arange(spec.kv_rank), spec.kv_rank + _rotated_order(spec)])
    latent = replace(latent, order=order)
    if spec.query_rank is None:
        return [_query_rows(weights, spec, f"{block}.attn_q", model.hidden_size), latent]
    return [weights.rows(f"{block}.attn_q_a", (spec.query_rank, model.hidden_size)), latent]


@dataclass(frozen=True)
class _Attention:
    weights: Weights
    model: DecoderSpec
    spec: LatentAttentionSpec
    block: str

    def query_key_value(self, x: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
        """All ``[batch, sequence, heads * head_dim]``."""
        spec, weights, block = self.spec, self.weights, self.block
        parts = latent_projections(weights, self.model, spec, block)
        both = weights.linear(f"{block}.attn_compressed", x, parts)
        sizes = [parts[0].rows, spec.kv_rank, spec.rope.dims]
        query, latent, rotated = self._split(both, sizes, ["query", "latent", "rotated"])
        if spec.query_rank is not None:
            query = self._norm(query, "attn_q_a_norm", spec.query_rank)
            rows = _query_rows(weights, spec, f"{block}.attn_q_b", spec.query_rank)
            query = weights.linear(f"{block}.attn_q_b", query, [rows])
        latent = self._norm(latent, "attn_kv_a_norm", spec.kv_rank)
        parts = self._expansion()
        expanded = weights.linear(f"{block}.attn_kv_b", latent, parts)
        for part in parts:  # Rows that were turned have another type than the tensor.
            record = weights.records[part.name]
            stored = weights.checkpoint.tensors[part.name].dtype
            weights.records[part.name] = record.model_copy(update={"source_type": stored})
        widths = [spec.num_heads * size for size in (spec.plain_dim, spec.value_dim)]
        plain, value = self._split(expanded, widths, ["plain_keys", "values"])
        key_dim = spec.rope.dims + spec.plain_dim
        return (
            self._padded(query, key_dim, "query"),
            self._padded(self._key(rotated, plain), key_dim, "key"),
            self._padded(value, spec.value_dim, "value"),
        )

    def cut(self, attended: ir.Value) -> ir.Value:
        """What was attended without the padding of the values."""
        spec, builder = self.spec, self.weights.builder
        if spec.value_dim == spec.head_dim:
            return attended
        name = f"{self.block}.attended"
        heads = self._by_head(attended, spec.head_dim, f"{name}.heads")
        limits = [
            builder.constant(limit, int64s(number))
            for limit, number in (
                ("slice_start", 0), (f"slice_{spec.value_dim}", spec.value_dim), ("last_axis", -1)
            )
        ]  # fmt: skip
        values = builder.op("Slice", [heads, *limits], f"{name}.cut")
        return self._flat(values, f"{name}.flat")

    def _expansion(self) -> list[RowSource]:
        """The rows that make the plain part of all keys, and then all values."""
        spec, weights, block = self.spec, self.weights, self.block
        heads, plain, value = spec.num_heads, spec.plain_dim, spec.value_dim
        if f"{block}.attn_kv_b.weight" in weights.checkpoint.tensors:
            rows = weights.rows(f"{block}.attn_kv_b", (heads * (plain + value), spec.kv_rank))
            places = np.arange(rows.rows).reshape(heads, plain + value)
            parts = places[:, :plain], places[:, plain:]
            return [replace(rows, order=np.concatenate([part.reshape(-1) for part in parts]))]
        keys = weights.expert_rows(f"{block}.attn_k_b", (heads, spec.kv_rank, plain))
        values = weights.expert_rows(f"{block}.attn_v_b", (heads, value, spec.kv_rank))
        return [turned_rows(keys, heads), values]

    def _key(self, rotated: ir.Value, plain: ir.Value) -> ir.Value:
        """Every head's own dimensions behind the rotated ones that all share."""
        spec, builder, name = self.spec, self.weights.builder, f"{self.block}.key"
        axis = builder.constant("head_axis", int64s(2))
        one = builder.op("Unsqueeze", [rotated, axis], f"{name}.rotated")
        shape = builder.constant(f"for_{spec.num_heads}_heads", int64s(1, 1, spec.num_heads, 1))
        shared = builder.op("Expand", [one, shape], f"{name}.shared")
        own = self._by_head(plain, spec.plain_dim, f"{name}.own")
        heads = builder.op("Concat", [shared, own], f"{name}.heads", {"axis": -1})
        return self._flat(heads, f"{name}.flat")

    def _padded(self, x: ir.Value, size: int, name: str) -> ir.Value:
        """Heads filled up with zeros, since the operator has one size for all."""
        spec, builder, name = self.spec, self.weights.builder, f"{self.block}.{name}.padded"
        if size == spec.head_dim:
            return x
        heads = self._by_head(x, size, f"{name}.heads")
        missing = spec.head_dim - size
        pads = builder.constant(f"pads_{missing}", int64s(0, 0, 0, 0, 0, 0, 0, missing))
        return self._flat(builder.op("Pad", [heads, pads], name), f"{name}.flat")

    def _by_head(self, x: ir.Value, size: int, name: str) -> ir.Value:
        builder, heads = self.weights.builder, self.spec.num_heads
        shape = builder.constant(f"heads_shape_{heads}x{size}", int64s(0, 0, heads, size))
        return builder.op("Reshape", [x, shape], name)

    def _flat(self, heads: ir.Value, name: str) -> ir.Value:
        builder = self.weights.builder
        shape = builder.constant("flat_heads_shape", int64s(0, 0, -1))
        return builder.op("Reshape", [heads, shape], name)

    def _split(self, x: ir.Value, sizes: Sequence[int], names: Sequence[str]) -> list[ir.Value]:
        builder = self.weights.builder
        parts = [ir.Value(name=f"{self.block}.{name}") for name in names]
        wanted = builder.constant("sizes_" + "_".join(map(str, sizes)), int64s(*sizes))
        builder.op("Split", [x, wanted], f"{x.name}.split", {"axis": -1}, outputs=parts)
        return parts

    def _norm(self, x: ir.Value, name: str, size: int) -> ir.Value:
        spec = NormSpec(NormKind.RMS, self.spec.norm_epsilon)
        return norm(self.weights, x, f"{self.block}.{name}", size, spec)


def _query_rows(weights: Weights, spec: LatentAttentionSpec, name: str, columns: int) -> RowSource:
    """Rows of queries, the rotated ones of each head first."""
    key_dim = spec.plain_dim + spec.rope.dims
    rows = weights.rows(name, (spec.num_heads * key_dim, columns))
    head = np.concatenate([spec.plain_dim + _rotated_order(spec), np.arange(spec.plain_dim)])
    order = np.arange(spec.num_heads)[:, None] * key_dim + head
    return replace(rows, order=order.reshape(-1))


def _rotated_order(spec: LatentAttentionSpec) -> NDArray[np.int64]:
    """Rows of the rotated part in the order of the operator."""
    dims = spec.rope.dims
    order = head_row_order(spec.rope.layout, 1, dims, dims)
    return np.arange(dims) if order is None else order
