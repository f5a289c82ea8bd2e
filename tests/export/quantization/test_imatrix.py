from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mrs.errors import CheckpointError, CorruptCheckpointError, SourceNotFoundError, UsageError
from mrs.export.checkpoints.checkpoint import TensorInfo
from mrs.export.quantization.imatrix import fit_importance, read_imatrix
from tests.export.gguf_files import MetadataItem, write_gguf

Floats = NDArray[np.float32]

DOWN = np.array([1.0, 3.0, 0.0, 4.0], dtype=np.float32)
EXPERTS = np.array([[2.0, 4.0], [0.0, 0.0], [9.0, 3.0]], dtype=np.float32)
COUNTS = np.array([[2.0], [0.0], [3.0]], dtype=np.float32)
NAMES = ("blk.0.ffn_down.weight", "blk.0.ffn_up_exps.weight")


def legacy(entries: Mapping[str, Floats]) -> bytes:
    """As llama-imatrix writes it: with the last chunk and the data set's name at the end."""
    data = struct.pack("<i", len(entries))
    for name, values in entries.items():
        data += struct.pack("<i", len(name)) + name.encode()
        data += struct.pack("<ii", 7, values.size) + values.astype("<f4").tobytes()
    return data + struct.pack("<ii", 7, 4) + b"text"


def gguf_file(path: Path) -> Path:
    tensors = {
        f"{NAMES[0]}.in_sum2": DOWN[None] * 5,
        f"{NAMES[0]}.counts": np.array([[5.0]], dtype=np.float32),
        f"{NAMES[1]}.in_sum2": EXPERTS,
        f"{NAMES[1]}.counts": COUNTS,
    }
    metadata: dict[str, MetadataItem] = {"general.type": "imatrix", "imatrix.chunk_count": 7}
    return write_gguf(path, metadata, tensors, architecture="imatrix")


def tensor(name: str, *shape: int) -> dict[str, TensorInfo]:
    return {name: TensorInfo(name, shape, "F32")}


# --- reading --------------------------------------------------------------------------------------


def test_the_older_file(tmp_path: Path) -> None:
    path = tmp_path / "imatrix.dat"
    path.write_bytes(legacy({NAMES[0]: DOWN, NAMES[1]: EXPERTS}))
    found = read_imatrix(path)
    assert found[NAMES[0]].tolist() == [DOWN.tolist()]
    assert found[NAMES[1]].tolist() == [EXPERTS.reshape(-1).tolist()]


def test_a_gguf_file_has_sums_and_counts(tmp_path: Path) -> None:
    found = read_imatrix(gguf_file(tmp_path / "imatrix.gguf"))
    assert found[NAMES[0]].tolist() == [DOWN.tolist()]
    assert found[NAMES[1]].tolist() == [[1, 2], [0, 0], [3, 1]]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFoundError, match=r"imatrix\.dat"):
        read_imatrix(tmp_path / "imatrix.dat")


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
def test_impossible_values_are_refused(tmp_path: Path, value: float) -> None:
    path = tmp_path / "imatrix.dat"
    path.write_bytes(legacy({"w": np.array([1, value], dtype=np.float32)}))
    with pytest.raises(CorruptCheckpointError, match="values of 'w' are not finite, or negative"):
        read_imatrix(path)


@pytest.mark.parametrize(
    "numbers",
    [
        (0,),
        (-1,),
        (2**31 - 1,),
        (1, 2**31 - 1),
        (1, -5),
        (1, 0, 1, 2**31 - 1),
        (1, 0, 1, -1),
        (1, 0, -1, 0),
        (1, 0, 1),
    ],
)
def test_numbers_that_lie_are_refused(tmp_path: Path, numbers: tuple[int, ...]) -> None:
    path = tmp_path / "imatrix.dat"
    path.write_bytes(struct.pack(f"<{len(numbers)}i", *numbers))
    with pytest.raises(CorruptCheckpointError, match=r"imatrix\.dat is no importance matrix"):
        read_imatrix(path)


@pytest.mark.parametrize("newer", [False, True])
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), cut=st.floats(0, 1))
def test_spoilt_files_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, newer: bool, seed: int, cut: float
) -> None:
    folder = tmp_path_factory.mktemp("spoilt")
    path = folder / "imatrix"
    if newer:
        gguf_file(path)
    else:
        path.write_bytes(legacy({NAMES[0]: DOWN, NAMES[1]: EXPERTS}))
    data = np.frombuffer(path.read_bytes(), dtype=np.uint8).copy()
    rng = np.random.default_rng(seed)
    data[rng.integers(0, len(data), 3)] = rng.integers(0, 256, 3)
    path.write_bytes(data[: max(1, round(cut * len(data)))].tobytes())
    try:
        found = read_imatrix(path)
    except CheckpointError:
        return
    assert sum(squares.nbytes for squares in found.values()) <= len(data)


# --- the model's tensors --------------------------------------------------------------------------


def test_tensors_of_other_parts_are_left_out() -> None:
    squares = {"w": DOWN[None], "elsewhere": EXPERTS}
    found = fit_importance(squares, tensor("w", 3, 4), "imatrix")
    assert found.keys() == {"w"}
    assert found["w"].values[0, :2].tolist() == [0.5, 1.5]


@pytest.mark.parametrize("shape", [(1, 6), (3, 2)])
def test_experts_have_values_each(shape: tuple[int, int]) -> None:
    found = fit_importance({"w": EXPERTS.reshape(shape)}, tensor("w", 3, 5, 2), "imatrix")
    assert found["w"].values.tolist()[2] == [1.5, 0.5]


def test_experts_may_share_values() -> None:
    found = fit_importance({"w": EXPERTS[:1]}, tensor("w", 3, 5, 2), "imatrix")
    assert found["w"].values.shape == (1, 2)


def test_another_width_is_refused() -> None:
    with pytest.raises(UsageError, match=r"has 4 values for 'w', whose shape is \[4, 3\]"):
        fit_importance({"w": DOWN[None]}, tensor("w", 4, 3), "imatrix")


def test_a_matrix_of_another_model_is_refused() -> None:
    with pytest.raises(UsageError, match="has no tensor of the model; its first is 'other'"):
        fit_importance({"other": DOWN[None]}, tensor("w", 3, 4), "imatrix")
