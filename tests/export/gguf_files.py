"""Small GGUF files for tests, written by the `gguf` package and not by the code under test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType, GGUFValueType
from numpy.typing import NDArray

Scalar = bool | int | float | str


@dataclass(frozen=True)
class Typed:
    """A metadata value with its GGUF type spelt out (``UINT8``; for arrays: of the elements)."""

    value: Scalar | Sequence[Scalar] | Sequence[bytes]
    type: str


MetadataItem = Scalar | Sequence[Scalar] | Typed
Metadata = Mapping[str, MetadataItem]


@dataclass(frozen=True)
class StoredTensor:
    """Blocks as a file holds them: ``data`` is uint8 ``[..., bytes_per_row]``."""

    dtype: str
    data: NDArray[np.uint8]


TensorItem = NDArray[np.generic] | StoredTensor
Tensors = Mapping[str, TensorItem]


def quantize(values: NDArray[np.float32], dtype: str) -> StoredTensor:
    """Quantize as `gguf` does (F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, MXFP4, ...)."""
    blocks = gguf.quants.quantize(values, GGMLQuantizationType[dtype])
    return StoredTensor(dtype, np.ascontiguousarray(blocks).view(np.uint8))


def dequantize(tensor: StoredTensor) -> NDArray[np.float32]:
    """The values that `gguf` reads out of a stored tensor."""
    return gguf.quants.dequantize(tensor.data, GGMLQuantizationType[tensor.dtype])


# Where each block format keeps its float16 scales: random bytes there would be NaN or huge.
_HALF_SCALES = {
    "Q4_0": (0,),
    "Q4_1": (0, 2),
    "Q5_0": (0,),
    "Q5_1": (0, 2),
    "Q8_0": (0,),
    "Q2_K": (80, 82),
    "Q3_K": (108,),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208,),
    "IQ4_NL": (0,),
    "IQ4_XS": (0,),
    "TQ1_0": (52,),
    "TQ2_0": (64,),
    "IQ1_S": (0,),
    "IQ2_XXS": (0,),
    "IQ2_XS": (0,),
    "IQ2_S": (0,),
    "IQ3_XXS": (0,),
    "IQ3_S": (0,),
}


def random_blocks(dtype: str, shape: Sequence[int], seed: int = 0) -> StoredTensor:
    """Random codes under small random scales, for any block format.

    ``shape`` is logical, outermost dimension first.
    """
    rng = np.random.default_rng(seed)
    block_size, block_bytes = gguf.GGML_QUANT_SIZES[GGMLQuantizationType[dtype]]
    blocks_per_row = shape[-1] // block_size
    blocks = rng.integers(0, 256, (*shape[:-1], blocks_per_row, block_bytes), dtype=np.uint8)
    if dtype == "MXFP4":
        blocks[..., 0] = rng.integers(118, 126, blocks.shape[:-1])
    elif dtype == "IQ1_M":
        # The upper nibbles of four words make one float16.
        scales = rng.uniform(0.001, 0.02, blocks.shape[:-1]).astype(np.float16).view(np.uint16)
        for nibble in range(4):
            high = ((scales >> np.uint16(4 * nibble)) << np.uint16(4)).astype(np.uint8)
            at = 48 + 2 * nibble + 1
            blocks[..., at] = (blocks[..., at] & np.uint8(0x0F)) | (high & np.uint8(0xF0))
    elif dtype != "NVFP4":  # Whose scales are finite whatever their bytes.
        for at in _HALF_SCALES[dtype]:
            scales = rng.uniform(0.001, 0.02, blocks.shape[:-1]).astype(np.float16)
            blocks[..., at : at + 2] = scales[..., None].view(np.uint8)
    return StoredTensor(dtype, blocks.reshape(*shape[:-1], -1))


def write_gguf(
    path: Path,
    metadata: Metadata | None = None,
    tensors: Tensors | None = None,
    *,
    architecture: str = "llama",
    alignment: int | None = None,
) -> Path:
    """Write a little-endian GGUF v3 file and return its path.

    Plain ints are written as UINT32 (INT32 if negative), floats as FLOAT32; see `Typed` for others.
    """
    writer = gguf.GGUFWriter(path, architecture)
    if alignment is not None:
        writer.add_custom_alignment(alignment)
    for key, value in (metadata or {}).items():
        _add_value(writer, key, value)
    for name, tensor in (tensors or {}).items():
        if isinstance(tensor, StoredTensor):
            kind = GGMLQuantizationType[tensor.dtype]
            writer.add_tensor(name, tensor.data, raw_dtype=kind)
        else:
            writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_value(writer: gguf.GGUFWriter, key: str, value: Scalar | Sequence[Scalar] | Typed) -> None:
    if isinstance(value, Typed):
        kind = GGUFValueType[value.type]
        if isinstance(value.value, list | tuple):
            writer.add_key_value(key, value.value, GGUFValueType.ARRAY, sub_type=kind)
        else:
            writer.add_key_value(key, value.value, kind)
    elif isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value) if value >= 0 else writer.add_int32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_key_value(key, value, GGUFValueType.STRING)
    else:
        writer.add_array(key, value)


# --- a tiny llama, whole enough to be exported ----------------------------------------------------

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHATML_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


@dataclass(frozen=True)
class LlamaSize:
    """Dimensions of the tiny llama; every row length is a multiple of 32."""

    layers: int = 2
    hidden: int = 64
    feed_forward: int = 96
    heads: int = 4
    kv_heads: int = 2
    context: int = 128

    @property
    def head_dim(self) -> int:
        return self.hidden // self.heads


def byte_alphabet() -> list[str]:
    """GPT-2's 256 printable stand-ins for bytes, in byte order."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    moved = iter(range(256, 512))
    return [chr(byte) if byte in kept else chr(next(moved)) for byte in range(256)]


def bpe_vocabulary() -> tuple[list[str], list[str]]:
    """Tokens and merges of a byte-level BPE: specials, 256 bytes, and what a few merges make."""
    merges = ["h e", "l l", "he ll", "hell o", "Ġ w", "o r", "Ġw or", "l d", "Ġwor ld"]
    merged = [merge.replace(" ", "") for merge in merges]
    return [*SPECIAL_TOKENS, *byte_alphabet(), *merged], merges


def llama_metadata(size: LlamaSize = LlamaSize()) -> dict[str, MetadataItem]:
    """Metadata of the tiny llama with its byte-level BPE vocabulary and a ChatML template."""
    tokens, merges = bpe_vocabulary()
    specials = len(SPECIAL_TOKENS)
    return {
        "general.name": "tiny llama",
        "llama.block_count": size.layers,
        "llama.context_length": size.context,
        "llama.embedding_length": size.hidden,
        "llama.feed_forward_length": size.feed_forward,
        "llama.attention.head_count": size.heads,
        "llama.attention.head_count_kv": size.kv_heads,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.freq_base": 10000.0,
        "llama.rope.dimension_count": size.head_dim,
        "llama.vocab_size": len(tokens),
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] * specials + [1] * (len(tokens) - specials),
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": CHATML_TEMPLATE,
    }


def llama_weights(
    size: LlamaSize = LlamaSize(), *, tied: bool = True, seed: int = 0
) -> dict[str, NDArray[np.float32]]:
    """Random float32 weights of the tiny llama under GGUF names, ``[out, in]``."""
    rng = np.random.default_rng(seed)
    vocab = len(bpe_vocabulary()[0])
    kv = size.kv_heads * size.head_dim
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (vocab, size.hidden)}
    for layer in range(size.layers):
        block = f"blk.{layer}."
        shapes |= {
            block + "attn_norm.weight": (size.hidden,),
            block + "attn_q.weight": (size.hidden, size.hidden),
            block + "attn_k.weight": (kv, size.hidden),
            block + "attn_v.weight": (kv, size.hidden),
            block + "attn_output.weight": (size.hidden, size.hidden),
            block + "ffn_norm.weight": (size.hidden,),
            block + "ffn_gate.weight": (size.feed_forward, size.hidden),
            block + "ffn_up.weight": (size.feed_forward, size.hidden),
            block + "ffn_down.weight": (size.hidden, size.feed_forward),
        }
    shapes["output_norm.weight"] = (size.hidden,)
    if not tied:
        shapes["output.weight"] = (vocab, size.hidden)
    return {name: _random_weight(rng, shape) for name, shape in shapes.items()}


def _random_weight(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float32]:
    if len(shape) == 1:
        return rng.uniform(0.5, 1.5, shape).astype(np.float32)
    return rng.normal(0, shape[-1] ** -0.5, shape).astype(np.float32)


def write_llama(
    path: Path,
    *,
    size: LlamaSize = LlamaSize(),
    dtype: str = "F32",
    tied: bool = True,
    seed: int = 0,
    metadata: Metadata | None = None,
) -> Path:
    """Write the tiny llama with its matrices stored as ``dtype`` and its norms as F32.

    ``metadata`` adds to, or replaces, what `llama_metadata` gives.
    """
    tensors: dict[str, TensorItem] = {}
    for name, weight in llama_weights(size, tied=tied, seed=seed).items():
        is_matrix = weight.ndim > 1 and dtype != "F32"
        tensors[name] = quantize(weight, dtype) if is_matrix else weight
    return write_gguf(path, {**llama_metadata(size), **(metadata or {})}, tensors)
