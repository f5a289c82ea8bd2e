"""Time and peak memory of exporting a made-up Llama of 8 billion parameters at 4 bits.

    python -m benchmarks.export_synthetic_8b FOLDER [--layers 32] [--quant q4]

Writes a Hugging Face folder of Llama 3.1 8B's sizes in FOLDER (16 GB of bfloat16 in shards of about
2 GB, random), unless it is there already, and exports it beside it. Needs about 25 GB of disk.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
from pathlib import Path

import numpy as np

from benchmarks.export_against_mobius import run

HIDDEN, INNER, HEADS, KV_HEADS, VOCABULARY = 4096, 14336, 32, 8, 128256
SHARD = 2_000_000_000


def shapes(layers: int) -> dict[str, tuple[int, ...]]:
    kv = HIDDEN // HEADS * KV_HEADS
    found: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN)}
    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        found |= {
            f"{prefix}self_attn.q_proj.weight": (HIDDEN, HIDDEN),
            f"{prefix}self_attn.k_proj.weight": (kv, HIDDEN),
            f"{prefix}self_attn.v_proj.weight": (kv, HIDDEN),
            f"{prefix}self_attn.o_proj.weight": (HIDDEN, HIDDEN),
            f"{prefix}mlp.gate_proj.weight": (INNER, HIDDEN),
            f"{prefix}mlp.up_proj.weight": (INNER, HIDDEN),
            f"{prefix}mlp.down_proj.weight": (HIDDEN, INNER),
            f"{prefix}input_layernorm.weight": (HIDDEN,),
            f"{prefix}post_attention_layernorm.weight": (HIDDEN,),
        }
    return {**found, "model.norm.weight": (HIDDEN,), "lm_head.weight": (VOCABULARY, HIDDEN)}


def write_shard(path: Path, tensors: dict[str, tuple[int, ...]], rng: np.random.Generator) -> None:
    header, end = {}, 0
    for name, shape in tensors.items():
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    encoded = json.dumps(header).encode()
    encoded += b" " * (-len(encoded) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(encoded)) + encoded)
        for shape in tensors.values():
            for start in range(0, int(np.prod(shape)), 1 << 22):
                count = min(1 << 22, int(np.prod(shape)) - start)
                values = rng.standard_normal(count, dtype=np.float32) * np.float32(0.02)
                file.write(np.ascontiguousarray(values.view(np.uint16)[1::2]).data)


def write_model(folder: Path, layers: int) -> None:
    folder.mkdir(parents=True)
    shards: list[dict[str, tuple[int, ...]]] = [{}]
    filled = 0
    for name, shape in shapes(layers).items():
        size = 2 * int(np.prod(shape))
        if filled + size > SHARD and shards[-1]:
            shards.append({})
            filled = 0
        shards[-1][name] = shape
        filled += size
    rng = np.random.default_rng(0)
    index: dict[str, str] = {}
    for number, tensors in enumerate(shards, 1):
        name = f"model-{number:05}-of-{len(shards):05}.safetensors"
        write_shard(folder / name, tensors, rng)
        index |= dict.fromkeys(tensors, name)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    write_tokenizer(folder)
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN,
        "intermediate_size": INNER, "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "num_hidden_layers": layers, "vocab_size": VOCABULARY,
        "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
        "tie_word_embeddings": False, "hidden_act": "silu", "eos_token_id": 1,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))


def write_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: at for at, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--quant", default="q4")
    arguments = parser.parse_args()
    model = arguments.folder / f"llama-{arguments.layers}-layers"
    if not (model / "config.json").exists():
        write_model(model, arguments.layers)
    repository = arguments.folder / "models"
    command = [sys.executable, "-m", "mrs", "export", str(model), "--repo", str(repository)]
    cost = run([*command, "--quant", arguments.quant, "--parity", "never", "--force"])
    print(f"{arguments.quant}: {cost.seconds:.0f} s, at most {cost.peak:.0f} MB")


if __name__ == "__main__":
    main()
