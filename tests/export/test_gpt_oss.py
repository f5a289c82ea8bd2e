"""GPT-OSS as OpenAI published it: experts in MXFP4, everything else in bfloat16."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from mrs.errors import CorruptCheckpointError, UnsupportedArchitectureError
from mrs.export.architectures.expert_spec import MoeSpec, RouterKind, RouterSpec
from mrs.export.architectures.huggingface import open_huggingface
from mrs.export.architectures.spec import YarnScaling
from mrs.export.checkpoints.checkpoint import MetadataValue
from mrs.export.graph.builder import GraphBuilder
from mrs.export.graph.matrix_formats import matrix_format
from mrs.export.graph.weight_file import WeightFile
from mrs.export.graph.weights import Weights
from tests.export.architectures.described import attentions, spec_of_config, spec_of_gguf
from tests.export.test_parity_families import build
from tests.reference.families import CASES

[CASE] = [case for case in CASES if case.name == "gpt-oss"]
VALUES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=np.float32)
TABLE = np.concatenate([VALUES, -VALUES])
Floats = NDArray[np.float32]


def mxfp4(shape: tuple[int, int, int], seed: int) -> tuple[dict[str, NDArray[np.uint8]], Floats]:
    """Random blocks and scales ``[experts, out, in]``, and their values ``[experts, in, out]``."""
    rng = np.random.default_rng(seed)
    experts, rows, columns = shape
    codes = rng.integers(0, 16, (experts, rows, columns // 32, 32), dtype=np.uint8)
    scales = rng.integers(119, 123, codes.shape[:3], dtype=np.uint8)
    values = TABLE[codes] * np.ldexp(np.float32(1), scales.astype(np.int32) - 127)[..., None]
    blocks = codes[..., 0::2] | codes[..., 1::2] << np.uint8(4)
    return {"blocks": blocks, "scales": scales}, values.reshape(shape).swapaxes(1, 2)


def write_both(folder: Path) -> tuple[Path, Path]:
    """The same model with experts in MXFP4, and in float32."""
    packed, plain = folder / "packed", folder / "plain"
    for path in (packed, plain):
        CASE.write(path)
    tensors = load_file(plain / "model.safetensors")
    floats, codes = dict(tensors), dict(tensors)
    experts = [name for name in tensors if name.endswith(("gate_up_proj", "down_proj"))]
    for seed, name in enumerate(experts):
        count, columns, rows = tensors[name].shape
        parts, values = mxfp4((count, rows, columns), seed)
        floats[name] = np.ascontiguousarray(values)
        del codes[name]
        codes |= {f"{name}_{part}": stored for part, stored in parts.items()}
    save_file(floats, plain / "model.safetensors")
    save_file(codes, packed / "model.safetensors")
    config = json.loads((packed / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    (packed / "config.json").write_text(json.dumps(config))
    return packed, plain


def test_mxfp4_gives_the_logits_of_its_values(tmp_path: Path) -> None:
    packed, plain = write_both(tmp_path)
    found, wanted = (
        build(open_huggingface(folder), folder).one_by_one(CASE.prompt())
        for folder in (packed, plain)
    )
    np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize("quantization", ["auto", "keep", "q8"])
def test_mxfp4_is_kept_exactly(tmp_path: Path, quantization: str) -> None:
    packed, plain = write_both(tmp_path)
    checkpoint, floats = open_huggingface(packed), open_huggingface(plain)
    with WeightFile(tmp_path / "data") as weight_file:
        weights = Weights(checkpoint, matrix_format(quantization), GraphBuilder(weight_file))
        shapes = {"gate": (6, 96, 64), "up": (6, 96, 64), "down": (6, 64, 96)}
        rows = {
            part: weights.expert_rows(f"blk.0.ffn_{part}_exps", shape)
            for part, shape in shapes.items()
        }
        weights.experts("experts", 6, [rows["gate"], rows["up"]], rows["down"])
    for part in shapes:
        name = f"blk.0.ffn_{part}_exps.weight"
        record = weights.records[name]
        assert (record.source_type, record.exact) == ("MXFP4", True)
        values = np.concatenate(list(rows[part].float_chunks()))
        stored = floats.read_rows(name, 0, len(values)).copy().view(np.float32)
        np.testing.assert_array_equal(values, stored)


def test_codes_without_scales_are_corrupt(tmp_path: Path) -> None:
    packed, _ = write_both(tmp_path)
    tensors = load_file(packed / "model.safetensors")
    del tensors["model.layers.1.mlp.experts.down_proj_scales"]
    save_file(tensors, packed / "model.safetensors")
    with pytest.raises(CorruptCheckpointError, match=r"exponents of blk\.1\.ffn_down_exps"):
        open_huggingface(packed)


GPT_OSS_20B = {
    "model_type": "gpt_oss",
    "attention_bias": True,
    "experts_per_token": 4,
    "head_dim": 64,
    "hidden_act": "silu",
    "hidden_size": 2880,
    "initial_context_length": 4096,
    "intermediate_size": 2880,
    "layer_types": ["sliding_attention", "full_attention"],
    "max_position_embeddings": 131072,
    "num_attention_heads": 64,
    "num_experts_per_tok": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 8,
    "num_local_experts": 32,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "factor": 32.0,
        "original_max_position_embeddings": 4096,
        "rope_type": "yarn",
        "truncate": False,
    },
    "rope_theta": 150000,
    "router_aux_loss_coef": 0.9,
    "sliding_window": 128,
    "swiglu_limit": 7.0,
    "tie_word_embeddings": False,
}


def test_gpt_oss_20b(tmp_path: Path) -> None:
    spec = spec_of_config(tmp_path, GPT_OSS_20B)
    first, second = attentions(spec)
    assert (first.window, second.window) == (128, None)
    assert first.sinks and first.head_dim == 64 and first.num_kv_heads == 8
    assert first.rope is not None
    scaling = first.rope.scaling
    assert isinstance(scaling, YarnScaling)
    assert (scaling.factor, scaling.original_context, scaling.truncate) == (32.0, 4096, False)
    # attention_factor of transformers: 0.1 ln 32 + 1
    assert scaling.attention_factor == pytest.approx(1.3465735902799727)
    router = RouterSpec(RouterKind.SOFTMAX, 4, True, jitter=0.01)
    wanted = MoeSpec(32, 2880, router, alpha=1.702, shift=1.0, clamp=7.0)
    assert [layer.mlp for layer in spec.layers] == [wanted, wanted]


def test_another_activation_or_attention_is_refused(tmp_path: Path) -> None:
    for values in ({"swiglu_alpha": 1.0}, {"attention_bias": False}):
        with pytest.raises(UnsupportedArchitectureError, match=r"swiglu_alpha|attention_bias"):
            spec_of_config(tmp_path, {**GPT_OSS_20B, **values})


def test_the_scaling_of_a_configuration_that_leaves_it_out(tmp_path: Path) -> None:
    stated = {key: value for key, value in GPT_OSS_20B.items() if not key.startswith("rope_")}
    left_out = spec_of_config(tmp_path, stated)
    assert attentions(left_out) == attentions(spec_of_config(tmp_path, GPT_OSS_20B))


def test_gguf_files_have_a_ramp_that_is_not_rounded() -> None:
    keys: dict[str, MetadataValue] = {
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 32.0,
        "rope.scaling.original_context_length": 4096,
        "attention.key_length": 64,
        "attention.sliding_window": 128,
    }
    first, second, *_ = attentions(spec_of_gguf("gpt-oss", keys))
    assert (first.window, second.window) == (128, None)
    assert first.rope is not None and isinstance(first.rope.scaling, YarnScaling)
    assert first.rope.scaling.truncate is False
