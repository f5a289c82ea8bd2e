"""transformers' names of tensors -> GGUF's, which are the canonical ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from mrs.export.architectures.family import HuggingFaceForm

# Stems of a block; `*` stands for a number, under which tensors are stacked.
_BLOCK: Mapping[str, str] = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "self_attn.sinks": "attn_sinks",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.gate": "ffn_gate_inp",
    "mlp.experts.*.gate_proj": "ffn_gate_exps",
    "mlp.experts.*.up_proj": "ffn_up_exps",
    "mlp.experts.*.down_proj": "ffn_down_exps",
    "mlp.experts.gate_up_proj": "ffn_gate_up_exps",
    "mlp.experts.down_proj": "ffn_down_exps",
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
    "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp",
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
}
_OUTSIDE: Mapping[str, str] = {
    "embed_tokens": "token_embd",
    "norm": "output_norm",
    "lm_head": "output",
}
# Buffers that old versions of transformers saved among the weights.
_IGNORED = ("*.rotary_emb.inv_freq",)
_PREFIXES = re.compile(
    r"^(?:(?:model|transformer|gpt_neox|language_model|bert|roberta|distilbert|mpnet)\.)+"
)
_IN_BLOCK = re.compile(r"(?:layers|h|(?:encoder\.)?layer)\.(\d+)\.(.+)", re.DOTALL)
_SUFFIX = re.compile(r"^(.*)\.(weight|bias)$", re.DOTALL)
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")


@dataclass(frozen=True)
class CanonicalName:
    """What a tensor is called in GGUF.

    Attributes:
        name: with its suffix.
        stem: without block and suffix.
        index: its place among those of the same name, which are stacked; None if it is alone.
    """

    name: str
    stem: str
    index: int | None


def canonical_name(name: str, form: HuggingFaceForm) -> CanonicalName | None:
    """The canonical name of a tensor, or None if there is none."""
    match = _SUFFIX.match(name)
    stem, suffix = (match[1], match[2]) if match else (name, "weight")
    stem = _PREFIXES.sub("", stem)
    block = _IN_BLOCK.fullmatch(stem)
    place = f"blk.{int(block[1])}." if block else ""
    inner = block[2] if block else stem
    numbers = _NUMBER.findall(inner)
    key = _NUMBER.sub("*", inner)
    known = {**(_BLOCK if block else _OUTSIDE), **form.tensors}
    if key not in known or len(numbers) > 1:
        return None
    index = int(numbers[0]) if numbers else None
    # A name that is a whole one says what else the tensor is than a weight.
    stem, _, own_suffix = known[key].partition(".")
    return CanonicalName(f"{place}{stem}.{own_suffix or suffix}", stem, index)


def is_ignored(name: str, form: HuggingFaceForm) -> bool:
    """Whether no text needs the tensor."""
    return any(fnmatchcase(name, pattern) for pattern in (*_IGNORED, *form.ignored))
