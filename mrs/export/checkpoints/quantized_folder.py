"""Hugging Face folders whose weights are quantized: each layer as one tensor again."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mrs.errors import CheckpointError
from mrs.export.checkpoints.checkpoint import TensorInfo
from mrs.export.checkpoints.compressed_linear import CompressedLinear
from mrs.export.checkpoints.fp8_linear import Fp8Linear
from mrs.export.checkpoints.json_section import JsonSection
from mrs.export.checkpoints.packed_linear import PackedLinear, Packing

_PACKED, _FP8 = ".qweight", "F8_E4M3"
_PARTS = ("qweight", "qzeros", "scales", "g_idx")
_COMPRESSED = ".weight_packed"
_COMPRESSED_PARTS = (
    "weight_packed",
    "weight_scale",
    "weight_zero_point",
    "weight_shape",
    "weight_g_idx",
)
_SCALE = "_scale_inv"
# Layouts of GPTQ and AWQ, and what is to be added to their stored zero points.
_GPTQ_FORMATS = {"gptq": 1, "gptq_v2": 0}
_AWQ_FORMATS = {"gemm": 0}
_MOST_GROUP = 1 << 20


class TensorFolder(Protocol):
    """Stored tensors under their own names, as `SafetensorsFolder` has them."""

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """All tensors by name."""

    def read_rows(self, name: str, start: int, stop: int) -> NDArray[np.uint8]:
        """Rows ``start:stop``, uint8 ``[rows, bytes_per_row]``."""

    def close(self) -> None:
        """Unmap the files."""


class _Linear(Protocol):
    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> str: ...

    def read_rows(self, start: int, stop: int) -> NDArray[np.uint8]: ...


def joined_linears(folder: TensorFolder, quantization: JsonSection | None) -> TensorFolder:
    """The folder with the parts of each quantized layer as one tensor ``<layer>.weight``.

    Args:
        folder: as stored.
        quantization: ``quantization_config`` of the model; None leaves the folder as it is.

    Raises:
        CorruptCheckpointError: parts of a layer are missing or do not fit.
        CheckpointError: the weights are quantized in a way that mrs does not read.
    """
    if quantization is None:
        return folder
    method = (quantization.optional_text("quant_method") or "").lower()
    if method == "mxfp4":
        return folder  # Codes and scales of experts have names of their own in such folders.
    if method == "gptq":
        return _Joined(folder, _packed(folder, _gptq(quantization)), _PARTS)
    if method == "awq":
        return _Joined(folder, _packed(folder, _awq(quantization)), _PARTS)
    if method == "compressed-tensors":
        return _Joined(folder, _compressed(folder, quantization), _COMPRESSED_PARTS)
    if method == "fp8" and quantization.has("weight_block_size"):
        return _Joined(folder, _fp8(folder, quantization), (f"weight{_SCALE}",))
    raise _unreadable(f"quant_method {method!r:.40}")


def _gptq(config: JsonSection) -> Packing:
    layout = (config.optional_text("checkpoint_format") or "gptq").lower()
    if layout not in _GPTQ_FORMATS:
        raise _unreadable(f"GPTQ in the format {layout!r:.40}")
    return _packing(config, by_output=False, zero_offset=_GPTQ_FORMATS[layout], widths=(4, 8))


def _awq(config: JsonSection) -> Packing:
    layout = (config.optional_text("version") or "gemm").lower()
    if layout not in _AWQ_FORMATS:
        raise _unreadable(f"AWQ in the version {layout!r:.40}")
    return _packing(config, by_output=True, zero_offset=_AWQ_FORMATS[layout], widths=(4,))


def _packing(
    config: JsonSection, *, by_output: bool, zero_offset: int, widths: tuple[int, ...]
) -> Packing:
    bits = config.optional_size("bits") or config.size("w_bit")
    if bits not in widths:
        raise _unreadable(f"{bits}-bit weights")
    group = config.optional_number("group_size")
    if group is None:
        group = config.optional_number("q_group_size")
    if group is None or not (group == -1 or (1 <= group <= _MOST_GROUP and group == int(group))):
        raise _unreadable(f"groups of {group}")
    return Packing(bits, int(group), by_output, zero_offset)


def _packed(folder: TensorFolder, packing: Packing) -> dict[str, _Linear]:
    stems = [name.removesuffix(_PACKED) for name in folder.tensors if name.endswith(_PACKED)]
    return {
        f"{stem}.weight": PackedLinear(stem, packing, folder.tensors, folder.read_rows)
        for stem in stems
    }


def _compressed(folder: TensorFolder, config: JsonSection) -> dict[str, _Linear]:
    layout = config.optional_text("format") or ""
    if layout != "pack-quantized":
        raise _unreadable(f"compressed-tensors in the format {layout!r:.40}")
    weights = _weights_of_all_groups(config)
    bits = weights.size("num_bits")
    kind = weights.optional_text("type") or "int"
    strategy = weights.optional_text("strategy") or "group"
    if bits not in (4, 8) or kind != "int" or strategy not in ("group", "channel"):
        raise _unreadable(f"{bits}-bit {kind:.40} weights by {strategy:.40}")
    group = weights.size("group_size") if strategy == "group" else -1
    symmetric = weights.flag("symmetric", True)
    stems = [n.removesuffix(_COMPRESSED) for n in folder.tensors if n.endswith(_COMPRESSED)]
    return {
        f"{stem}.weight": CompressedLinear(
            stem, bits, group, symmetric, folder.tensors, folder.read_rows
        )
        for stem in stems
    }


def _weights_of_all_groups(config: JsonSection) -> JsonSection:
    """How weights are quantized, if that is the same for all layers that are."""
    groups = config.optional_section("config_groups")
    names = list(groups.values) if groups is not None else []
    found = [groups.section(name).section("weights") for name in names] if groups else []
    if not found or any(other.values != found[0].values for other in found):
        raise _unreadable(f"{len(found)} kinds of weights in one model")
    return found[0]


def _fp8(folder: TensorFolder, config: JsonSection) -> dict[str, _Linear]:
    sides = config.values["weight_block_size"]
    sound = isinstance(sides, list) and len(sides) == 2
    if not sound or not all(type(side) is int and 0 < side <= _MOST_GROUP for side in sides):
        raise _unreadable("weight_block_size")
    square = (sides[0], sides[1])
    return {
        name: Fp8Linear(name, square, folder.tensors, folder.read_rows)
        for name, info in folder.tensors.items()
        if info.dtype == _FP8
    }


def _unreadable(what: str) -> CheckpointError:
    return CheckpointError(
        f"The model's weights are quantized with {what}, which mrs does not read.",
        hint="mrs reads GPTQ and packed compressed-tensors of 4 and 8 bits, AWQ of 4, MXFP4, and "
        "float8 in blocks. Export the model that this one was made of, with --quant q4 or q8, or a "
        "GGUF file of it.",
    )


class _Joined:
    """A folder in which some tensors are put together from several.

    Args:
        folder: as stored.
        linears: what is put together, by name.
        parts: last parts of the names of what belongs to one of them.
    """

    def __init__(
        self, folder: TensorFolder, linears: Mapping[str, _Linear], parts: tuple[str, ...]
    ) -> None:
        self._folder = folder
        self._linears = linears
        stems = {name.removesuffix("weight") for name in linears}
        hidden = {f"{stem}{part}" for stem in stems for part in parts}
        infos = {name: info for name, info in folder.tensors.items() if name not in hidden}
        infos |= {
            name: TensorInfo(name, linear.shape, linear.dtype) for name, linear in linears.items()
        }
        self._tensors = MappingProxyType(dict(sorted(infos.items())))

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        return self._tensors

    def read_rows(self, name: str, start: int, stop: int) -> NDArray[np.uint8]:
        linear = self._linears.get(name)
        if linear is None:
            return self._folder.read_rows(name, start, stop)
        return linear.read_rows(start, stop)

    def close(self) -> None:
        self._folder.close()
