"""A model family as data: how its checkpoints, of either kind, differ from the plainest decoder.

The plainest decoder is Llama as transformers stores it: RMS norms before attention and before a
gated SiLU MLP, rotary positions with the halves of a head paired, no offsets, no scales. Sizes,
biases and tied heads are never said here: they are read off each checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mrs.export.architectures.expert_spec import RouterKind
from mrs.export.architectures.spec import Activation, NormKind, RopeLayout
from mrs.export.checkpoints.checkpoint import MetadataValue
from mrs.export.checkpoints.json_section import JsonSection


@dataclass(frozen=True)
class HuggingFaceForm:
    """How transformers stores a family.

    Attributes:
        model_types: ``model_type`` in ``config.json``.
        layout: order of the rows of queries and keys.
        packed_by_group: see `mrs.export.architectures.spec.AttentionSpec`.
        norm_offset: what its norms add to their stored weights.
        tensors: stem of a tensor's name (without ``model.layers.N.``, ``.weight`` and ``.bias``)
            -> canonical stem, where `mrs.export.architectures.huggingface` has another or none.
        config: key in ``config.json`` -> canonical metadata key, likewise.
        aliases: key of ``config.json`` -> the usual key that it stands for.
        derived: gives further values under usual keys, where a table cannot tell them.
        only: key of ``config.json`` -> its one value that is supported.
        stated: flag of ``config.json`` -> tensors (``attn_q.bias``) that every block has if it is
            true, and none if it is not; ``output.bias`` is that of the head.
        defaults: values of keys that ``config.json`` leaves out: those of the config class.
        activations: names of activations that mean another one in this family.
        transposed: canonical stems of matrices stored ``[in, out]``.
        ignored: patterns (`fnmatch`) of tensors that no text needs: towers, drafting heads.
        extra_layers: behind the layers of the decoder there may be some that only draft.
        gate_up_in_turn: where gate and up of the experts are one tensor, their rows alternate.
    """

    model_types: tuple[str, ...]
    layout: RopeLayout = RopeLayout.HALVES
    packed_by_group: bool = False
    norm_offset: float = 0.0
    tensors: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    derived: Callable[[JsonSection], Mapping[str, Any]] | None = None
    only: Mapping[str, Any] = field(default_factory=dict)
    stated: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    activations: Mapping[str, Activation] = field(default_factory=dict)
    transposed: frozenset[str] = frozenset()
    ignored: tuple[str, ...] = ()
    extra_layers: bool = False
    gate_up_in_turn: bool = False


@dataclass(frozen=True)
class Family:
    """One architecture.

    Attributes:
        name: ``general.architecture`` in GGUF.
        title: what people call it.
        gguf: whether GGUF files of it can be read.
        huggingface: how transformers stores it; None where it does not.
        gguf_layout: order of the rows of queries and keys in GGUF files.
        gguf_tensors: stem of a GGUF tensor -> canonical stem, where they differ.
        gguf_defaults: canonical metadata key -> what llama.cpp assumes where a file lacks it.
        norm: kind of its norms.
        activation: of its MLPs, unless the config names one.
        gated: whether its MLPs have a gate.
        parallel: attention and MLP work side by side, unless the checkpoint says otherwise.
        shared_norm: a parallel MLP takes the norm of the attention. Where a checkpoint has a norm
            for the MLP all the same, its blocks are not parallel.
        biased: patterns (`fnmatch`) of stems whose weights never come without a bias.
        pre_norm: the input of attention and MLP is normed.
        post_norm: their result is normed.
        query_key_norm: queries and keys are normed in every checkpoint. Where a checkpoint has such
            norms they are used in any case.
        sinks: attention has sinks.
        learned_positions: positions are embedded by a table.
        full_attention_every: with a sliding window, each how-manyeth layer sees everything; 0
            where none does. Checkpoints may say otherwise, layer by layer.
        plain_windows: layers with a window rotate without the scaling of the others.
        rope_in_windows_only: layers without a window have no position embedding.
        rotates_without_windows: unless the model has no windows at all.
        scale_embeddings: embeddings are multiplied by the root of their width.
        wide_scale_layers: layer counts of the sizes whose attention is scaled by width / heads.
        divides_logits: ``logit_scale`` divides logits instead of multiplying them.
        router: of its experts.
        normalizes_experts: shares of the chosen experts sum to 1, unless the checkpoint says.
        shared_gate: the expert that always works has a gate of its own.
        expert_alpha: see `mrs.export.architectures.spec.MoeSpec`, as for the next two.
        expert_shift: see there.
        expert_clamp: see there; checkpoints may say otherwise.
        latent_attention: keys and values are compressed (multi-head latent attention).
    """

    name: str
    title: str
    huggingface: HuggingFaceForm | None = None
    gguf: bool = True
    gguf_layout: RopeLayout = RopeLayout.HALVES
    gguf_tensors: Mapping[str, str] = field(default_factory=dict)
    gguf_defaults: Mapping[str, MetadataValue] = field(default_factory=dict)
    norm: NormKind = NormKind.RMS
    activation: Activation = Activation.SILU
    gated: bool = True
    parallel: bool = False
    shared_norm: bool = False
    biased: tuple[str, ...] = ()
    pre_norm: bool = True
    post_norm: bool = False
    query_key_norm: bool = False
    sinks: bool = False
    learned_positions: bool = False
    full_attention_every: int = 0
    plain_windows: bool = False
    rope_in_windows_only: bool = False
    rotates_without_windows: bool = False
    scale_embeddings: bool = False
    wide_scale_layers: tuple[int, ...] = ()
    divides_logits: bool = False
    router: RouterKind = RouterKind.SOFTMAX
    normalizes_experts: bool = False
    shared_gate: bool = False
    expert_alpha: float = 1.0
    expert_shift: float = 0.0
    expert_clamp: float | None = None
    latent_attention: bool = False
