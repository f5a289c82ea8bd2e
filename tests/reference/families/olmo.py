"""OLMo 2 and 3: norms after the parts, norms of all queries and keys, scaling without windows."""

from __future__ import annotations

from tests.reference.tiny_model import TinyModel, heads

_THREE = {"num_hidden_layers": 5, "sliding_window": 12}
_PLAIN = {"rope_type": "default", "rope_theta": 500_000.0}
_YARN = {
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 32,
    "rope_theta": 500_000.0,
}
_ROPES = {"sliding_attention": _PLAIN, "full_attention": _YARN}

CASES = (
    TinyModel("olmo2-8-8", "olmo2", heads(8, 8)),
    TinyModel("olmo2-8-1", "olmo2", heads(8, 1)),
    TinyModel("olmo2-6-2", "olmo2", heads(6, 2)),
    TinyModel("olmo2-bias", "olmo2", {"attention_bias": True}, gguf=False),
    TinyModel("olmo2-tied", "olmo2", {"tie_word_embeddings": True}, gguf=False),
    TinyModel("olmo3-window", "olmo3", _THREE, tokens=60),
    TinyModel("olmo3-yarn", "olmo3", {**_THREE, "rope_parameters": _ROPES}, tokens=60),
    TinyModel("olmo3-12-4", "olmo3", {**_THREE, **heads(12, 4)}),
)
