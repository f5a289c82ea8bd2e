"""Mistral (arXiv:2310.06825), and the text part of Mistral Small 3: a Llama, but for what a config
leaves out. GGUF files of both say ``llama``.
"""

from __future__ import annotations

from dataclasses import replace

from mrs.export.architectures.family import HuggingFaceForm
from mrs.export.architectures.llama import LLAMA

MISTRAL = replace(
    LLAMA,
    title="Mistral, Mistral Small 3",
    huggingface=HuggingFaceForm(
        model_types=("mistral",),
        ignored=("*vision_tower.*", "*multi_modal_projector.*"),
        defaults={
            "num_key_value_heads": 8,
            "max_position_embeddings": 131_072,
            "rms_norm_eps": 1e-6,
            "rope_theta": 10_000.0,
            "sliding_window": 4096,
        },
    ),
)
