"""GPTQ, AWQ and float8 layers against weights that are packed here as their makers pack them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mrs.errors import CheckpointError, CorruptCheckpointError
from mrs.export.checkpoints.checkpoint import TensorInfo
from mrs.export.checkpoints.json_section import JsonSection
from mrs.export.checkpoints.quantized_folder import TensorFolder, joined_linears
from mrs.export.quantization.block_types import block_type
from mrs.export.quantization.dequantize import dequantize

Array = NDArray[Any]

_TYPES = {"int32": "I32", "int64": "I64", "float16": "F16", "float32": "F32", "uint8": "F8_E4M3"}
OUTPUTS, INPUTS, GROUP = 48, 256, 64


class Folder:
    """Arrays as a folder of safetensors files gives them."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self.arrays = dict(arrays)
        self.closed = False

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        return {
            name: TensorInfo(name, array.shape, _TYPES[array.dtype.name])
            for name, array in self.arrays.items()
        }

    def read_rows(self, name: str, start: int, stop: int) -> NDArray[np.uint8]:
        array = np.ascontiguousarray(self.arrays[name])
        return array.reshape(-1, array.shape[-1]).view(np.uint8)[start:stop]

    def close(self) -> None:
        self.closed = True


def section(**values: object) -> JsonSection:
    return JsonSection("config.json", values, "quantization_config.")


class Layer:
    """Codes ``[outputs, inputs]`` with scales and zero points ``[outputs, groups]``."""

    def __init__(
        self,
        bits: int,
        group: int = GROUP,
        seed: int = 0,
        shape: tuple[int, ...] = (OUTPUTS, INPUTS),
    ) -> None:
        rng = np.random.default_rng(seed)
        outputs, inputs = shape
        self.bits, groups = bits, inputs // group
        self.codes = rng.integers(0, 2**bits, (outputs, inputs), dtype=np.uint8)
        self.zeros = rng.integers(0, 2**bits, (outputs, groups), dtype=np.uint8)
        self.scales = rng.uniform(0.001, 0.1, (outputs, groups)).astype(np.float16)
        self.group_of = np.arange(inputs) // group

    def values(self) -> NDArray[np.float32]:
        """float16 times a small integer is exact in float32."""
        centred = self.codes.astype(np.float32) - self.zeros[:, self.group_of]
        return centred * self.scales.astype(np.float32)[:, self.group_of]


def pack(codes: Array, bits: int, order: tuple[int, ...] | None = None) -> NDArray[np.int32]:
    """Pack along the last axis into words, one code at a time."""
    per_word = 32 // bits
    words = np.zeros((*codes.shape[:-1], codes.shape[-1] // per_word), dtype=np.uint32)
    for place in range(per_word):
        column = place if order is None else order[place]
        words |= codes[..., column::per_word].astype(np.uint32) << np.uint32(bits * place)
    return words.view(np.int32)


def gptq(layer: Layer, stem: str = "l", *, offset: int = 1) -> dict[str, Array]:
    """As GPTQModel: words of neighbouring inputs, words of zero points less one in each place."""
    zeros = pack(np.ascontiguousarray(layer.zeros.T), layer.bits).view(np.uint32)
    ones = sum(1 << place for place in range(0, 32, layer.bits))
    return {
        f"{stem}.qweight": np.ascontiguousarray(pack(layer.codes, layer.bits).T),
        f"{stem}.qzeros": (zeros - np.uint32(offset * ones)).view(np.int32),
        f"{stem}.scales": np.ascontiguousarray(layer.scales.T),
        f"{stem}.g_idx": layer.group_of.astype(np.int32),
    }


def awq(layer: Layer) -> dict[str, Array]:
    """As AutoAWQ's gemm: words of neighbouring outputs, the even ones before the odd ones."""
    order = (0, 2, 4, 6, 1, 3, 5, 7)
    return {
        "l.qweight": pack(np.ascontiguousarray(layer.codes.T), 4, order),
        "l.qzeros": pack(np.ascontiguousarray(layer.zeros.T), 4, order),
        "l.scales": np.ascontiguousarray(layer.scales.T),
    }


def compressed(layer: Layer, *, symmetric: bool = True) -> dict[str, Array]:
    """As compressed-tensors' pack-quantized: rows of codes, columns of zero points."""
    arrays: dict[str, Array] = {
        "l.weight_packed": pack(layer.codes, layer.bits),
        "l.weight_scale": layer.scales,
        "l.weight_shape": np.array(layer.codes.shape, dtype=np.int64),
    }
    if not symmetric:
        zeros = np.ascontiguousarray(layer.zeros.T)
        arrays["l.weight_zero_point"] = np.ascontiguousarray(pack(zeros, layer.bits).T)
    return arrays


def compressed_config(**weights: object) -> JsonSection:
    scheme = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": GROUP, **weights}
    groups = {"group_0": {"targets": ["Linear"], "weights": scheme}}
    return section(quant_method="compressed-tensors", format="pack-quantized", config_groups=groups)


GPTQ: dict[str, object] = {"quant_method": "gptq", "bits": 4, "group_size": GROUP}
AWQ: dict[str, object] = {"quant_method": "awq", "bits": 4, "group_size": GROUP}


def read(folder: TensorFolder, name: str = "l.weight") -> NDArray[np.float32]:
    """A tensor, read in uneven pieces."""
    info = folder.tensors[name]
    cuts = [0, 1, 5, 17, info.shape[0]]
    pieces = [folder.read_rows(name, *cut) for cut in pairwise(cuts)]
    values = dequantize(np.concatenate(pieces), info.dtype)
    assert values.shape == info.shape
    return values


# --- what is read ---------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(("layout", "offset"), [("gptq", 1), ("gptq_v2", 0), (None, 1)])
def test_gptq_is_read_exactly(bits: int, layout: str | None, offset: int) -> None:
    layer = Layer(bits)
    config = section(**GPTQ | {"bits": bits, "checkpoint_format": layout})
    folder = joined_linears(Folder(gptq(layer, offset=offset)), config)
    assert folder.tensors == {"l.weight": TensorInfo("l.weight", (48, 256), f"GROUP{bits}_64")}
    np.testing.assert_array_equal(read(folder), layer.values())


def test_awq_is_read_exactly() -> None:
    layer = Layer(4)
    folder = joined_linears(Folder(awq(layer)), section(**AWQ, version="gemm"))
    assert folder.tensors["l.weight"].dtype == "GROUP4_64"
    np.testing.assert_array_equal(read(folder), layer.values())


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("symmetric", [True, False])
def test_compressed_tensors_are_read_exactly(bits: int, symmetric: bool) -> None:
    layer = Layer(bits)
    if symmetric:
        layer.zeros[:] = 2 ** (bits - 1)
    stored = Folder(compressed(layer, symmetric=symmetric))
    folder = joined_linears(stored, compressed_config(num_bits=bits, symmetric=symmetric))
    assert folder.tensors == {"l.weight": TensorInfo("l.weight", (48, 256), f"GROUP{bits}_64")}
    np.testing.assert_array_equal(read(folder), layer.values())


def test_compressed_tensors_may_have_one_scale_for_a_row() -> None:
    layer = Layer(4, INPUTS)
    layer.zeros[:] = 8
    config = compressed_config(strategy="channel", group_size=None)
    folder = joined_linears(Folder(compressed(layer)), config)
    assert folder.tensors["l.weight"].dtype == "GROUP4_256"
    np.testing.assert_array_equal(read(folder), layer.values())


def test_compressed_tensors_with_act_order_become_float32() -> None:
    layer = Layer(4)
    layer.zeros[:] = 8
    layer.group_of = np.random.default_rng(1).permutation(layer.group_of)
    index = {"l.weight_g_idx": layer.group_of.astype(np.int32)}
    folder = joined_linears(Folder(compressed(layer) | index), compressed_config(actorder="group"))
    np.testing.assert_array_equal(read(folder), layer.values())


@pytest.mark.parametrize("group", [32, 128, -1])
def test_groups_of_any_size_are_kept_in_blocks(group: int) -> None:
    layer = Layer(4, INPUTS if group == -1 else group)
    folder = joined_linears(Folder(gptq(layer)), section(**GPTQ | {"group_size": group}))
    info = folder.tensors["l.weight"]
    kind = block_type(info.dtype)
    assert kind is not None
    blocks = kind.unpack(folder.read_rows("l.weight", 0, OUTPUTS))
    assert blocks.block_size == min(group if group > 0 else INPUTS, 128)
    assert blocks.offsets is None
    np.testing.assert_array_equal(blocks.dequantize(), layer.values())


def test_groups_of_scattered_inputs_become_float32() -> None:
    """Act-order: the groups follow the importance of inputs."""
    layer = Layer(4)
    layer.group_of = np.random.default_rng(1).permutation(layer.group_of)
    folder = joined_linears(Folder(gptq(layer)), section(**GPTQ, desc_act=True))
    assert folder.tensors["l.weight"].dtype == "F32"
    np.testing.assert_array_equal(read(folder), layer.values())


def test_float8_is_multiplied_with_the_scale_of_its_square() -> None:
    rng = np.random.default_rng(0)
    ml_dtypes = pytest.importorskip("ml_dtypes")
    weights = rng.normal(size=(40, 100)).astype(ml_dtypes.float8_e4m3fn)
    scales = rng.uniform(0.1, 2, (3, 4)).astype(np.float32)
    folder = joined_linears(
        Folder({"l.weight": weights.view(np.uint8), "l.weight_scale_inv": scales}),
        section(quant_method="fp8", weight_block_size=[16, 32]),
    )
    by_weight = np.repeat(np.repeat(scales, 16, axis=0)[:40], 32, axis=1)[:, :100]
    np.testing.assert_array_equal(read(folder), weights.astype(np.float32) * by_weight)
    assert list(folder.tensors) == ["l.weight"]


def test_what_is_not_quantized_stays_as_it_is() -> None:
    norm = np.arange(3, dtype=np.float32)
    stored = Folder({**gptq(Layer(4)), "norm.weight": norm, "l.bias": norm})
    folder = joined_linears(stored, section(**GPTQ))
    assert set(folder.tensors) == {"l.weight", "l.bias", "norm.weight"}
    assert folder.read_rows("norm.weight", 0, 1).view("<f4").tolist() == [[0, 1, 2]]
    folder.close()
    assert stored.closed


def test_a_model_that_is_not_quantized_is_not_touched() -> None:
    stored = Folder({})
    assert joined_linears(stored, None) is stored


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"quant_method": "bitsandbytes"}, "quant_method 'bitsandbytes'"),
        (
            {"quant_method": "compressed-tensors", "format": "float-quantized"},
            "compressed-tensors in the format 'float-quantized'",
        ),
        (dict(compressed_config(num_bits=2).values), "2-bit int weights"),
        (dict(compressed_config(type="float").values), "4-bit float weights"),
        (dict(compressed_config(strategy="block").values), "weights by block"),
        (
            {"quant_method": "compressed-tensors", "format": "pack-quantized"},
            "0 kinds of weights",
        ),
        ({"quant_method": "fp8"}, "quant_method 'fp8'"),
        ({}, "quant_method ''"),
        ({**GPTQ, "bits": 3}, "3-bit weights"),
        ({**AWQ, "bits": 8}, "8-bit weights"),
        ({**GPTQ, "checkpoint_format": "marlin"}, "format 'marlin'"),
        ({**AWQ, "version": "gemv"}, "version 'gemv'"),
        ({**GPTQ, "group_size": 0}, "groups of 0"),
        ({**GPTQ, "group_size": 1e9}, "groups of 1000000000.0"),
        ({**GPTQ, "group_size": None}, "groups of None"),
        ({"quant_method": "fp8", "weight_block_size": [128]}, "weight_block_size"),
        ({"quant_method": "fp8", "weight_block_size": [0, True]}, "weight_block_size"),
    ],
)
def test_other_quantizations_are_named_with_the_way_out(
    config: dict[str, object], named: str
) -> None:
    with pytest.raises(CheckpointError) as caught:
        joined_linears(Folder(gptq(Layer(4))), section(**config))
    assert named in caught.value.message
    assert "--quant q4" in caught.value.hint


@pytest.mark.parametrize("part", ["qzeros", "scales"])
def test_a_missing_part_is_named(part: str) -> None:
    arrays = gptq(Layer(4))
    del arrays[f"l.{part}"]
    with pytest.raises(CorruptCheckpointError, match=rf"'l\.{part}' is missing"):
        joined_linears(Folder(arrays), section(**GPTQ))


@pytest.mark.parametrize(
    ("part", "array"),
    [
        ("qweight", np.zeros((32, 48), np.float16)),
        ("qweight", np.zeros(32, np.int32)),
        ("qweight", np.zeros((0, 48), np.int32)),
        ("qweight", np.zeros((31, 48), np.int32)),
        ("qzeros", np.zeros((4, 5), np.int32)),
        ("scales", np.zeros((3, 48), np.float16)),
        ("scales", np.zeros((4, 48), np.int32)),
    ],
)
def test_parts_that_do_not_fit_are_refused(part: str, array: Array) -> None:
    with pytest.raises(CorruptCheckpointError, match=r"The tensor 'l\."):
        joined_linears(Folder({**gptq(Layer(4)), f"l.{part}": array}), section(**GPTQ))


@pytest.mark.parametrize(
    ("part", "array"),
    [
        ("weight_packed", np.zeros((48, 31), np.int32)),
        ("weight_packed", np.zeros((48, 32), np.float16)),
        ("weight_scale", np.zeros((48, 3), np.float16)),
        ("weight_shape", np.array([48, 255])),
        ("weight_shape", np.array([48, 256, 1])),
        ("weight_zero_point", np.zeros((5, 4), np.int32)),
    ],
)
def test_compressed_parts_that_do_not_fit_are_refused(part: str, array: Array) -> None:
    arrays = compressed(Layer(4), symmetric=False) | {f"l.{part}": array}
    with pytest.raises(CorruptCheckpointError, match=r"The tensor 'l\."):
        joined_linears(Folder(arrays), compressed_config(symmetric=False))


@pytest.mark.parametrize("group", [-1, 4, 2**31 - 1])
def test_groups_that_do_not_exist_are_refused(group: int) -> None:
    arrays = gptq(Layer(4))
    arrays["l.g_idx"][7] = group
    with pytest.raises(CorruptCheckpointError, match="names groups beyond the 4 there are"):
        joined_linears(Folder(arrays), section(**GPTQ))


def test_float8_without_scales_is_refused() -> None:
    folder = Folder({"l.weight": np.zeros((4, 4), np.uint8)})
    with pytest.raises(CorruptCheckpointError, match=r"'l\.weight_scale_inv'.* are missing"):
        joined_linears(folder, section(quant_method="fp8", weight_block_size=[2, 2]))
