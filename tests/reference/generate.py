"""Regenerate tests/data/reference/*.npz with transformers' Llama. Never run by the tests.

    pip install torch transformers accelerate gguf
    python -m tests.reference.generate path/to/SmolLM2-135M-Instruct.Q4_1.gguf

The real model's weights are dequantized by transformers' own GGUF loader, so that nothing of mrs
takes part, and its logits are computed in float64, so that only mrs' rounding is measured. What is
kept of them: every position at 128 token ids, and the last position whole.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from tests.reference.tiny_llama import VARIATIONS, TinyLlama

QUESTION = "<|im_start|>user\nWhy is the sky blue?<|im_end|>\n<|im_start|>assistant\n"
FOLDER = Path(__file__).parents[1] / "data" / "reference"


def tiny_logits(tiny: TinyLlama) -> np.ndarray[Any, Any]:
    size = tiny.size
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": 10000.0}
    if tiny.rope_factors:
        rope = {
            "rope_type": "llama3",
            "rope_theta": 10000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        }
    config = LlamaConfig(
        vocab_size=tiny.vocab_size,
        hidden_size=size.hidden,
        intermediate_size=size.feed_forward,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.kv_heads,
        max_position_embeddings=size.context,
        rms_norm_eps=1e-5,
        tie_word_embeddings=tiny.tied,
        attention_bias=tiny.bias,
        mlp_bias=tiny.bias,
        rope_parameters=rope,
    )
    model = LlamaForCausalLM(config).eval()
    state = {name: torch.from_numpy(values) for name, values in tiny.weights().items()}
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected, unexpected
    assert set(missing) <= {"lm_head.weight"}, missing
    with torch.no_grad():
        return model(torch.tensor([tiny.prompt()])).logits[0].numpy()


TEXT = """The lighthouse stood at the end of a long spit of sand, and nobody in the village could \
remember a night on which it had not burned. Its keeper, a woman named Ines, climbed the 214 steps \
twice a day: once to light the lamp and once to put it out. "What would happen if you slept in?" \
the children asked her. She always gave the same answer.

def brightness(distance_km: float, power: float = 1200.0) -> float:
    return power / (4 * 3.14159 * distance_km ** 2)

En hiver, quand la tempete couvrait la mer, she counted the ships one by one: 1, 2, 3, 5, 8. \
Every ship that passed sounded its horn, and she answered with a lantern held high above the rail \
so that the sailors knew that somebody was awake. In the spring the swallows came back and built \
their nests under the gallery, where the wind could not reach them."""


def real_values(gguf: Path) -> dict[str, np.ndarray[Any, Any]]:
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.float32
    ).eval()
    start = tokenizer(QUESTION, add_special_tokens=False, return_tensors="pt").input_ids
    answer = model.generate(
        start, attention_mask=torch.ones_like(start), do_sample=False, max_new_tokens=64,
        min_new_tokens=64, eos_token_id=None,
    )  # fmt: skip
    values: dict[str, np.ndarray[Any, Any]] = {
        "greedy_prompt": start[0].numpy(),
        "greedy_answer": answer[0, start.shape[1] :].numpy(),
    }
    model = model.double()
    vocab = model.config.vocab_size
    columns = np.sort(np.random.default_rng(11).choice(vocab, 128, replace=False))
    values["columns"] = columns
    tokens = tokenizer(TEXT, add_special_tokens=False).input_ids
    assert len(tokens) >= 200, len(tokens)
    for length in (5, 60, 200):
        with torch.no_grad():
            logits = model(torch.tensor([tokens[:length]])).logits[0].float().numpy()
        values[f"prompt_{length}"] = np.array(tokens[:length])
        values[f"sampled_{length}"] = logits[:, columns]
        values[f"last_{length}"] = logits[-1]
    return values


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(FOLDER / "tiny_llama.npz", **{t.name: tiny_logits(t) for t in VARIATIONS})
    np.savez_compressed(FOLDER / "smollm2.npz", **real_values(Path(sys.argv[1])))


if __name__ == "__main__":
    main()
