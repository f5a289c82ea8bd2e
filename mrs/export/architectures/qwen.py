"""Qwen 2 and 2.5 (arXiv:2407.10671), with biases; Qwen 3 (arXiv:2505.09388), with q/k norms."""

from __future__ import annotations

from mrs.export.architectures.family import Family, HuggingFaceForm

QWEN2 = Family(
    name="qwen2",
    title="Qwen 2 and 2.5",
    biased=("attn_[qkv]",),
    huggingface=HuggingFaceForm(model_types=("qwen2",)),
)

QWEN3 = Family(
    name="qwen3",
    title="Qwen 3",
    query_key_norm=True,
    huggingface=HuggingFaceForm(model_types=("qwen3",), defaults={"head_dim": 128}),
)
