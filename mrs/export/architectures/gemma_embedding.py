"""EmbeddingGemma (arXiv:2509.20354): the blocks of Gemma 3, attending in both directions.

transformers has it as a ``gemma3_text`` with ``use_bidirectional_attention``, GGUF as a family.
"""

from __future__ import annotations

from dataclasses import replace

from mrs.export.architectures.gemma import GEMMA3

GEMMA_EMBEDDING = replace(
    GEMMA3,
    name="gemma-embedding",
    title="EmbeddingGemma",
    wide_scale_layers=(),
    huggingface=None,
    gguf_defaults={**GEMMA3.gguf_defaults, "attention.causal": False},
)
