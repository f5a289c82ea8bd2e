"""Phi-3.5-MoE (arXiv:2404.14219): layer norms, biases, and a router that takes two in turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mrs.errors import UnsupportedArchitectureError
from mrs.export.architectures.expert_config import EXPERT_ALIASES, EXPERT_KEYS
from mrs.export.architectures.expert_spec import RouterKind
from mrs.export.architectures.family import Family, HuggingFaceForm
from mrs.export.architectures.mixtral import EXPERT_TENSORS
from mrs.export.architectures.spec import NormKind
from mrs.export.checkpoints.json_section import JsonSection


def _derived(config: JsonSection) -> Mapping[str, Any]:
    """The factor of cosines and sines is under names of the family's own, one for each context."""
    found: dict[str, Any] = {"moe_intermediate_size": config.size("intermediate_size")}
    for key in ("rope_parameters", "rope_scaling"):
        rope = config.optional_section(key)
        if rope is None or not rope.has("long_mscale"):
            continue
        long, short = rope.number("long_mscale"), rope.number("short_mscale")
        if long != short:
            raise UnsupportedArchitectureError(
                f"{config.file}: long_mscale is {long} and short_mscale {short}; mrs has one "
                "factor for both.",
                hint="Export another model of the family.",
            )
        found[key] = {**rope.values, "attention_factor": long}
    return found


PHIMOE = Family(
    name="phimoe",
    title="Phi 3.5 with experts",
    norm=NormKind.LAYER,
    biased=("attn_norm", "ffn_norm", "output_norm"),
    router=RouterKind.SPARSE_MIXER,
    huggingface=HuggingFaceForm(
        model_types=("phimoe",),
        tensors=EXPERT_TENSORS,
        config=EXPERT_KEYS,
        aliases=EXPERT_ALIASES,
        derived=_derived,
        stated={
            "attention_bias": ("attn_q.bias", "attn_k.bias", "attn_v.bias", "attn_output.bias"),
            "lm_head_bias": ("output.bias",),
        },
        defaults={
            "num_experts": 16,
            "num_experts_per_tok": 2,
            "router_jitter_noise": 0.01,
            "rms_norm_eps": 1e-5,
            "rope_theta": 1e6,
            "attention_bias": False,
            "lm_head_bias": False,
        },
    ),
)
