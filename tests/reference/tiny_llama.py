"""Tiny random llamas: one set of weights, as a GGUF file and under transformers' names.

The weights are drawn in transformers' layout; the GGUF file gets them as llama.cpp's converter
writes them, with the rows of query and key heads interleaved.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.export.gguf_files import LlamaSize, MetadataItem, llama_metadata, write_gguf

Array = NDArray[np.float32]


@dataclass(frozen=True)
class TinyLlama:
    """A variation that breaks exporters.

    Attributes:
        name: of the variation.
        heads: query heads; the head size is 32.
        kv_heads: key and value heads.
        tied: whether the output head is the embedding.
        bias: whether every projection has a bias.
        rope_factors: whether frequencies are divided as in Llama 3.1.
    """

    name: str
    heads: int
    kv_heads: int
    tied: bool = True
    bias: bool = False
    rope_factors: bool = False

    @property
    def size(self) -> LlamaSize:
        return LlamaSize(
            layers=2,
            hidden=32 * self.heads,
            feed_forward=160,
            heads=self.heads,
            kv_heads=self.kv_heads,
            context=128,
        )

    @property
    def vocab_size(self) -> int:
        return len(llama_metadata(self.size)["tokenizer.ggml.tokens"])  # type: ignore[arg-type]

    def weights(self) -> dict[str, Array]:
        """Float32 weights under transformers' names."""
        rng = np.random.default_rng([self.heads, self.kv_heads, self.tied, self.bias])
        size = self.size
        width, kv_width = size.hidden, size.kv_heads * size.head_dim

        def matrix(rows: int, columns: int) -> Array:
            return rng.normal(scale=0.08, size=(rows, columns)).astype(np.float32)

        def norm() -> Array:
            return rng.uniform(0.5, 1.5, size=width).astype(np.float32)

        weights = {"model.embed_tokens.weight": matrix(self.vocab_size, width)}
        for layer in range(size.layers):
            prefix = f"model.layers.{layer}."
            shapes = {
                "self_attn.q_proj": (width, width),
                "self_attn.k_proj": (kv_width, width),
                "self_attn.v_proj": (kv_width, width),
                "self_attn.o_proj": (width, width),
                "mlp.gate_proj": (size.feed_forward, width),
                "mlp.up_proj": (size.feed_forward, width),
                "mlp.down_proj": (width, size.feed_forward),
            }
            for name, shape in shapes.items():
                weights[f"{prefix}{name}.weight"] = matrix(*shape)
                if self.bias:
                    weights[f"{prefix}{name}.bias"] = matrix(1, shape[0])[0]
            weights[f"{prefix}input_layernorm.weight"] = norm()
            weights[f"{prefix}post_attention_layernorm.weight"] = norm()
        weights["model.norm.weight"] = norm()
        if not self.tied:
            weights["lm_head.weight"] = matrix(self.vocab_size, width)
        return weights

    def factors(self) -> Array:
        """Llama 3.1's frequency divisors, for an original context of 32 positions.

        Source: the Llama 3.1 model card's reference code (low_freq_factor 1, high_freq_factor 4).
        """
        size = self.size.head_dim
        frequencies = 10000.0 ** (-np.arange(0, size, 2) / size)
        wavelengths = 2 * np.pi / frequencies
        smooth = (32 / wavelengths - 1) / (4 - 1)
        blended = 1 / ((1 - smooth) / 8 + smooth)
        factors = np.where(wavelengths > 32 / 1, 8.0, np.where(wavelengths < 32 / 4, 1.0, blended))
        return factors.astype(np.float32)

    def prompt(self) -> list[int]:
        """Forty tokens: longer than the original context of the scaled variation."""
        return np.random.default_rng(7).integers(3, self.vocab_size, 40).tolist()

    def write(self, path: Path) -> Path:
        """Write the GGUF file."""
        metadata: dict[str, MetadataItem] = dict(llama_metadata(self.size))
        tensors = {_gguf_name(k): self._as_stored(k, v) for k, v in self.weights().items()}
        if self.rope_factors:
            tensors["rope_freqs.weight"] = self.factors()
        return write_gguf(path, metadata, tensors)

    def _as_stored(self, name: str, values: Array) -> Array:
        if "q_proj" in name:
            return _interleave(values, self.heads)
        if "k_proj" in name:
            return _interleave(values, self.kv_heads)
        return values


VARIATIONS = (
    TinyLlama("mha-8-8", 8, 8),
    TinyLlama("mqa-8-1", 8, 1),
    TinyLlama("gqa-6-2", 6, 2),
    TinyLlama("gqa-12-4", 12, 4),
    TinyLlama("gqa-9-3", 9, 3),
    TinyLlama("untied", 4, 2, tied=False),
    TinyLlama("biases", 4, 2, bias=True),
    TinyLlama("llama3-rope", 4, 4, rope_factors=True),
)


def _interleave(values: Array, heads: int) -> Array:
    """Rows of each head from halves to pairs: 0, d/2, 1, d/2+1, ..."""
    halves = values.reshape(heads, 2, values.shape[0] // heads // 2, *values.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(values.shape))


_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "model.layers": "blk",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def _gguf_name(name: str) -> str:
    for theirs, gguf in _NAMES.items():
        name = name.replace(theirs, gguf)
    return name
