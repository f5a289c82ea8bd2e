"""A tiny model as a GGUF file, the way llama.cpp's converter stores it.

`tests.reference.check_gguf` shows that llama.cpp computes the reference's logits from these files.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrs.export.architectures.huggingface import HuggingFaceCheckpoint, open_huggingface
from mrs.export.architectures.registry import family_of
from mrs.export.architectures.spec import RopeLayout
from tests.export.gguf_files import write_gguf
from tests.reference.gguf_latent import as_newer_files, as_older_files
from tests.reference.tiny_model import VOCABULARY, TinyModel

Array = NDArray[np.float32]

# Keys that only a configuration has; a converter knows what llama.cpp does without them.
_OURS = (
    *("hidden_activation", "rope.layers", "rope.scaling.truncate", "rope.scaling.amplitude"),
    *("rope.scaling.low_freq_factor", "rope.scaling.high_freq_factor"),
    *("rope.scaling.long_factors", "rope.scaling.short_factors"),
    "attention.sliding_window_pattern",
    "rope.interleaved",
    *("expert_layers", "expert_clamp", "expert_router_jitter"),
)
# Keys that llama.cpp has no use for in a family, so that its converter does not write them.
_UNWRITTEN = {
    "gemma2": ("attention.scale",),
    "gemma3": ("attention.scale", "rope.freq_base_swa"),
    "qwen2moe": ("expert_weights_norm",),
    "qwen3moe": ("expert_weights_norm",),
}
# Families whose windows llama.cpp reads, instead of knowing them.
_WRITES_WINDOWS = ("olmo2", "exaone4")


Change = Callable[[dict[str, Any], dict[str, Array]], None]
"""Alters metadata and tensors before they are written."""


def write_gguf_form(
    model: TinyModel, folder: Path, *, older: bool = False, change: Change | None = None
) -> Path:
    """Write ``model.gguf`` beside the Hugging Face form.

    Args:
        model: what to write.
        folder: where.
        change: what to alter.
        older: as files were that converters of former times wrote, where there is a difference.
    """
    checkpoint = open_huggingface(model.write(folder))
    metadata = _metadata(checkpoint)
    tensors = {
        _gguf_name(checkpoint, name): _as_stored(checkpoint, name) for name in checkpoint.tensors
    }
    if metadata.get(f"{checkpoint.architecture}.rope.scaling.type") == "llama3":
        _llama3(checkpoint, metadata, tensors)
    if metadata.get(f"{checkpoint.architecture}.rope.scaling.type") == "longrope":
        _longrope(checkpoint, metadata, tensors)
    _split_shared_experts(tensors)
    if checkpoint.architecture == "deepseek2":
        if older:
            as_older_files("deepseek2", metadata)
        else:
            as_newer_files("deepseek2", metadata, tensors)
    elif older:
        tensors = one_for_each_expert(tensors)
    if change is not None:
        change(metadata, tensors)
    return write_gguf(folder / "model.gguf", metadata, tensors)


def _split_shared_experts(tensors: dict[str, Array]) -> None:
    """Gate and up are never one tensor there."""
    for name in [name for name in tensors if ".ffn_up_shexp." in name]:
        gate = name.replace("_up_", "_gate_")
        if gate not in tensors:
            tensors[gate], tensors[name] = np.split(tensors[name], 2)


def one_for_each_expert(tensors: dict[str, Array]) -> dict[str, Array]:
    """As files of early 2024 hold experts."""
    found: dict[str, Array] = {}
    for name, values in tensors.items():
        if not name.endswith("_exps.weight"):
            found[name] = values
            continue
        stem = name.removesuffix("_exps.weight")
        found |= {f"{stem}.{index}.weight": expert for index, expert in enumerate(values)}
    return found


def _metadata(checkpoint: HuggingFaceCheckpoint) -> dict[str, Any]:
    name = checkpoint.architecture
    ours = {f"{name}.{key}" for key in (*_OURS, *_UNWRITTEN.get(name, ()))}
    if name in _WRITES_WINDOWS:
        ours.discard(f"{name}.attention.sliding_window_pattern")
    kept = {
        key: value
        for key, value in checkpoint.metadata.items()
        if key not in ours and not key.startswith(f"{name}.stated.")
    }
    if (down := checkpoint.tensors.get("blk.0.ffn_down.weight")) is not None:
        kept.setdefault(f"{name}.feed_forward_length", down.shape[-1])
    if (size := kept.get(f"{name}.attention.key_length")) is not None:
        kept.setdefault(f"{name}.attention.value_length", size)
    # llama.cpp asks for the size of a vocabulary that is not there.
    vocabulary = {"tokenizer.ggml.model": "no_vocab", f"{name}.vocab_size": VOCABULARY}
    return {"general.architecture": name, **vocabulary, **kept}


def _gguf_name(checkpoint: HuggingFaceCheckpoint, name: str) -> str:
    theirs = {ours: name for name, ours in family_of(checkpoint).gguf_tensors.items()}
    *place, stem, suffix = name.split(".")
    return ".".join([*place, theirs.get(stem, stem), suffix])


def _as_stored(checkpoint: HuggingFaceCheckpoint, name: str) -> Array:
    family = family_of(checkpoint)
    form = family.huggingface
    assert form is not None
    info = checkpoint.tensors[name]
    rows = int(np.prod(info.shape[:-1]))
    values = checkpoint.read_rows(name, 0, rows).view("<f4").reshape(info.shape)
    if ".ffn_gate_inp_shexp." in name:
        return values.reshape(-1)
    if ".attn_qkv." in name and form.packed_by_group:
        return _ungrouped(checkpoint, values)
    if name.endswith("norm.weight") and form.norm_offset:
        return values + np.float32(form.norm_offset)
    if form.layout is RopeLayout.HALVES and family.gguf_layout is RopeLayout.PAIRS:
        heads = {
            "attn_q": checkpoint.metadata[f"{family.name}.attention.head_count"],
            "attn_k": checkpoint.metadata[f"{family.name}.attention.head_count_kv"],
        }.get(name.split(".")[-2])
        if isinstance(heads, int) and not name.endswith("norm.weight"):
            return _interleave(values, heads)
    return values


def _ungrouped(checkpoint: HuggingFaceCheckpoint, values: Array) -> Array:
    """All queries, all keys, all values, from one group after the other."""
    found, name = checkpoint.metadata, checkpoint.architecture
    heads = found[f"{name}.attention.head_count"]
    groups = found.get(f"{name}.attention.head_count_kv", heads)
    assert isinstance(heads, int) and isinstance(groups, int)
    size = values.shape[0] // (heads + 2 * groups)
    grouped = values.reshape(groups, heads // groups + 2, size, *values.shape[1:])
    parts = (grouped[:, :-2], grouped[:, -2], grouped[:, -1])
    return np.concatenate([part.reshape(-1, *values.shape[1:]) for part in parts])


def _interleave(values: Array, heads: int) -> Array:
    """Rows of each head from halves to pairs: 0, d/2, 1, d/2+1, ..."""
    halves = values.reshape(heads, 2, values.shape[0] // heads // 2, *values.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(values.shape))


def _llama3(
    checkpoint: HuggingFaceCheckpoint, metadata: dict[str, Any], tensors: dict[str, Array]
) -> None:
    """The converter turns Llama 3.1's scaling into divisors of the frequencies.

    Source: the reference code of Llama 3.1's model card.
    """
    found, name = checkpoint.metadata, checkpoint.architecture

    def scaling(key: str) -> float:
        value = found[f"{name}.rope.scaling.{key}"]
        assert isinstance(value, int | float)
        return float(value)

    head_dim = found.get(f"{name}.attention.key_length")
    if head_dim is None:
        width, heads = found[f"{name}.embedding_length"], found[f"{name}.attention.head_count"]
        assert isinstance(width, int) and isinstance(heads, int)
        head_dim = width // heads
    assert isinstance(head_dim, int)
    base = found[f"{name}.rope.freq_base"]
    assert isinstance(base, int | float)
    context, factor = scaling("original_context_length"), scaling("factor")
    low, high = scaling("low_freq_factor"), scaling("high_freq_factor")
    wavelengths = 2 * np.pi * base ** (np.arange(0, head_dim, 2) / head_dim)
    smooth = (context / wavelengths - low) / (high - low)
    divisors = 1 / ((1 - smooth) / factor + smooth)
    divisors = np.where(wavelengths > context / low, factor, divisors)
    divisors = np.where(wavelengths < context / high, 1.0, divisors)
    tensors["rope_freqs.weight"] = divisors.astype(np.float32)
    for key in [key for key in metadata if ".rope.scaling." in key]:
        del metadata[key]


def _longrope(
    checkpoint: HuggingFaceCheckpoint, metadata: dict[str, Any], tensors: dict[str, Array]
) -> None:
    """The converter makes tensors of the factors and keeps the amplitude."""
    found, scaling = checkpoint.metadata, f"{checkpoint.architecture}.rope.scaling"
    for which in ("long", "short"):
        factors = np.array(found[f"{scaling}.{which}_factors"], dtype=np.float32)
        tensors[f"rope_factors_{which}.weight"] = factors
    metadata[f"{scaling}.attn_factor"] = found[f"{scaling}.amplitude"]
    del metadata[f"{scaling}.type"]
