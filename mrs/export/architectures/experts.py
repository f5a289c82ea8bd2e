"""Family, metadata and tensors -> MoeSpec."""

from __future__ import annotations

from mrs.errors import CorruptCheckpointError, UnsupportedArchitectureError
from mrs.export.architectures.expert_spec import MoeSpec, RouterKind, RouterSpec
from mrs.export.architectures.family import Family
from mrs.export.architectures.metadata import ArchitectureMetadata
from mrs.export.architectures.spec import Activation
from mrs.export.checkpoints.checkpoint import Checkpoint

# Values of expert_gating_func in GGUF; softmax over the chosen is a normalized softmax over all.
_GATING = {1: RouterKind.SOFTMAX, 2: RouterKind.SIGMOID, 3: RouterKind.SOFTMAX}
_HINT = "Convert the model again with a current converter."


def moe_spec(
    family: Family, checkpoint: Checkpoint, metadata: ArchitectureMetadata, block: int, layers: int
) -> MoeSpec | None:
    """The mixture of experts of a block, or None where it has an ordinary MLP.

    Raises:
        CorruptCheckpointError: metadata is missing or contradicts itself.
        UnsupportedArchitectureError: a kind of routing that mrs does not have.
    """
    experts = metadata.optional_size("expert_count")
    if experts is None or not _is_sparse(checkpoint, metadata, block, layers):
        return None
    _check_activation(family, metadata)
    width = _width(checkpoint, metadata, block)
    return MoeSpec(
        experts=experts,
        width=width,
        router=_router(family, metadata, experts),
        shared_width=_shared_width(checkpoint, metadata, block, width),
        shared_gate=family.shared_gate,
        alpha=family.expert_alpha,
        shift=family.expert_shift,
        clamp=metadata.optional_number("expert_clamp") or family.expert_clamp,
    )


def _is_sparse(
    checkpoint: Checkpoint, metadata: ArchitectureMetadata, block: int, layers: int
) -> bool:
    """What the metadata says, or else whether there is a router."""
    sparse = metadata.flags("expert_layers", layers)
    if sparse is not None:
        return sparse[block]
    if block < (metadata.optional_size("leading_dense_block_count") or 0):
        return False
    dense = f"blk.{block}.ffn_down.weight" in checkpoint.tensors
    return not dense or f"blk.{block}.ffn_gate_inp.weight" in checkpoint.tensors


def _check_activation(family: Family, metadata: ArchitectureMetadata) -> None:
    activation = metadata.text("hidden_activation", family.activation.value)
    if activation != Activation.SILU.value:
        raise UnsupportedArchitectureError(
            f"The experts of this {family.name} checkpoint have the activation {activation!r:.80}; "
            "ONNX Runtime has experts with silu alone.",
            hint="Export another model.",
        )


def _width(checkpoint: Checkpoint, metadata: ArchitectureMetadata, block: int) -> int:
    """Inner width; some old files leave it to be read off the tensors."""
    width = metadata.optional_size("expert_feed_forward_length")
    down = checkpoint.tensors.get(f"blk.{block}.ffn_down_exps.weight")
    if width is None and down is not None:
        return down.shape[-1]
    return width or metadata.size("feed_forward_length")


def _shared_width(
    checkpoint: Checkpoint, metadata: ArchitectureMetadata, block: int, width: int
) -> int | None:
    shared = metadata.optional_size("expert_shared_feed_forward_length")
    if shared is None and (count := metadata.optional_size("expert_shared_count")) is not None:
        shared = count * width
    down = checkpoint.tensors.get(f"blk.{block}.ffn_down_shexp.weight")
    return down.shape[-1] if shared is None and down is not None else shared


def _router(family: Family, metadata: ArchitectureMetadata, experts: int) -> RouterSpec:
    kind = family.router
    if (code := metadata.optional_size("expert_gating_func")) is not None:
        if code not in _GATING:
            raise UnsupportedArchitectureError(
                f"This {family.name} checkpoint scores its experts in the way {code} "
                f"(expert_gating_func); supported are {', '.join(map(str, sorted(_GATING)))}.",
                hint="Export another model.",
            )
        kind = _GATING[code]
    used = metadata.size("expert_used_count")
    groups = metadata.size("expert_group_count", 1)
    groups_used = metadata.size("expert_group_used_count", groups)
    # DeepSeek-V3 takes the two best of a group for its worth, V2 the best.
    best = 2 if kind is RouterKind.SIGMOID else 1
    if experts % groups or groups_used > groups or used > experts // groups * groups_used:
        raise CorruptCheckpointError(
            f"{used} of {experts} experts cannot be chosen from {groups_used} of {groups} groups.",
            hint=_HINT,
        )
    if kind is RouterKind.SPARSE_MIXER and used != 2:
        raise UnsupportedArchitectureError(
            f"This {family.name} checkpoint uses {used} experts for a token; its router finds 2.",
            hint="Export another model.",
        )
    return RouterSpec(
        kind=kind,
        used=used,
        normalize=metadata.flag("expert_weights_norm", family.normalizes_experts),
        scale=metadata.optional_number("expert_weights_scale") or 1.0,
        groups=groups,
        groups_used=groups_used,
        group_best=min(best, experts // groups),
        jitter=metadata.optional_number("expert_router_jitter") or 0.01,
    )
