"""One block of a decoder, and the residual stream that it adds to."""

from __future__ import annotations

import onnx_ir as ir

from mrs.export.architectures.expert_spec import MoeSpec
from mrs.export.architectures.spec import DecoderSpec, LatentAttentionSpec, LayerSpec
from mrs.export.graph.attention import (
    AttentionInputs,
    LayerCache,
    attention,
    attention_projections,
)
from mrs.export.graph.latent_attention import latent_attention, latent_projections
from mrs.export.graph.mlp import mlp
from mrs.export.graph.moe import mixture
from mrs.export.graph.norm import add_norm, norm
from mrs.export.graph.weights import Weights


def check_projections(weights: Weights, spec: DecoderSpec) -> None:
    """Before anything is written whose size only the metadata tells.

    Raises:
        CorruptCheckpointError: the tensors of the first layer have another head size.
    """
    first = spec.layers[0].attention
    if isinstance(first, LatentAttentionSpec):
        latent_projections(weights, spec, first, "blk.0")
    else:
        attention_projections(weights, spec, first, "blk.0")


class Residual:
    """The residual stream: a value and what is still to be added to it.

    The sum waits for the norm that follows, which takes it in the same pass over the row.

    Args:
        weights: of the checkpoint.
        spec: of the model.
        hidden: what the stream starts with.
    """

    def __init__(self, weights: Weights, spec: DecoderSpec, hidden: ir.Value) -> None:
        self._weights = weights
        self._spec = spec
        self._hidden = hidden
        self._delta: ir.Value | None = None

    def normed(self, name: str) -> ir.Value:
        """The stream's norm ``name``."""
        size, spec = self._spec.hidden_size, self._spec.norm
        if self._delta is None:
            return norm(self._weights, self._hidden, name, size, spec)
        normed, self._hidden = add_norm(self._weights, self._hidden, self._delta, name, size, spec)
        self._delta = None
        return normed

    def add(self, delta: ir.Value, name: str) -> None:
        """Add to the stream."""
        self.total()
        scale = self._spec.residual_scale
        self._delta = self._weights.builder.scaled(delta, scale, name, constant="residual_scale")

    def total(self) -> ir.Value:
        """The stream with all that was added."""
        if self._delta is not None:
            name = f"{self._delta.name}.residual"
            self._hidden = self._weights.builder.op("Add", [self._hidden, self._delta], name)
            self._delta = None
        return self._hidden


class Block:
    """Attention and feed-forward part of one layer.

    Args:
        weights: of the checkpoint.
        model: of the whole model.
        layer: of this block.
        name: prefix of its tensors.
    """

    def __init__(self, weights: Weights, model: DecoderSpec, layer: LayerSpec, name: str) -> None:
        self._weights = weights
        self._model = model
        self._layer = layer
        self._name = name

    def append_to(self, residual: Residual, inputs: AttentionInputs, cache: LayerCache) -> None:
        """Add what the block makes of the residual stream to it."""
        name = self._name
        attention_norm, mlp_norm = self._layer.attention_norm, self._layer.mlp_norm
        normed = self._before(residual, attention_norm)
        attended = self._after(self._attention(normed, inputs, cache), "post_attention_norm")
        if self._layer.parallel:
            shared = mlp_norm == attention_norm
            made = self._mlp(normed if shared else self._before(residual, mlp_norm))
            made = self._after(made, "post_ffw_norm")
            both = self._weights.builder.op("Add", [attended, made], f"{name}.parallel")
            residual.add(both, f"{name}.parallel")
            return
        residual.add(attended, f"{name}.attended")
        made = self._mlp(self._before(residual, mlp_norm))
        residual.add(self._after(made, "post_ffw_norm"), f"{name}.made")

    def _attention(self, x: ir.Value, inputs: AttentionInputs, cache: LayerCache) -> ir.Value:
        spec, weights, model = self._layer.attention, self._weights, self._model
        if isinstance(spec, LatentAttentionSpec):
            return latent_attention(weights, model, spec, self._name, x, inputs, cache)
        return attention(weights, model, spec, self._name, x, inputs, cache)

    def _mlp(self, x: ir.Value) -> ir.Value:
        spec = self._layer.mlp
        if isinstance(spec, MoeSpec):
            return mixture(self._weights, spec, self._model.hidden_size, self._name, x)
        return mlp(self._weights, spec, self._model.hidden_size, self._name, x)

    def _after(self, x: ir.Value, which: str) -> ir.Value:
        """A part's result, normed where the family does so."""
        if not self._layer.post_norm:
            return x
        size = self._model.hidden_size
        return norm(self._weights, x, f"{self._name}.{which}", size, self._model.norm)

    def _before(self, residual: Residual, which: str) -> ir.Value:
        """A part's input, normed where the family does so."""
        if not self._layer.pre_norm:
            return residual.total()
        return residual.normed(f"{self._name}.{which}")
