from __future__ import annotations

import shutil
from pathlib import Path

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

from mrs.errors import CheckpointError, CorruptCheckpointError, MrsError, SourceNotFoundError
from mrs.export.checkpoints.gguf_reader import open_gguf
from mrs.export.checkpoints.gguf_split import part_names
from tests.export.gguf_files import Typed, write_gguf

RNG = np.random.default_rng(3)
TENSORS: dict[str, NDArray[np.float32]] = {
    f"t{number}": RNG.normal(size=(number + 1, 32)).astype(np.float32) for number in range(5)
}


def write_split(folder: Path, stem: str = "m", *, per_part: int = 2) -> list[Path]:
    """Split as the `gguf` package does."""
    writer = gguf.GGUFWriter(folder / f"{stem}.gguf", "llama", split_max_tensors=per_part)
    writer.add_uint32("llama.block_count", 7)
    for name, values in TENSORS.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return sorted(folder.glob(f"{stem}-*.gguf"))


def refusal(path: Path) -> MrsError:
    with pytest.raises(MrsError) as caught:
        open_gguf(path)
    return caught.value


@pytest.mark.parametrize("named", [0, 1, 2])
def test_any_part_gives_the_whole_model(tmp_path: Path, named: int) -> None:
    parts = write_split(tmp_path)
    assert len(parts) == 3
    with open_gguf(parts[named]) as checkpoint:
        assert checkpoint.path == parts[0]
        assert checkpoint.architecture == "llama"
        assert checkpoint.metadata["llama.block_count"] == 7
        assert list(checkpoint.tensors) == list(TENSORS)
        for name, values in TENSORS.items():
            rows = checkpoint.read_rows(name, 0, len(values))
            np.testing.assert_array_equal(rows.view(np.float32), values)


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    parts = write_split(tmp_path)
    parts[1].unlink()
    error = refusal(parts[2])
    assert isinstance(error, SourceNotFoundError)
    assert "one of 3 parts" in str(error)
    assert "m-00002-of-00003.gguf" in str(error)


def test_a_missing_file_is_just_that(tmp_path: Path) -> None:
    assert "no file" in str(refusal(tmp_path / "m-00001-of-00001.gguf"))


def test_parts_out_of_order_are_refused(tmp_path: Path) -> None:
    parts = write_split(tmp_path)
    shutil.copy(parts[2], parts[1])
    error = refusal(parts[0])
    assert isinstance(error, CorruptCheckpointError)
    assert "says that it is part 3, not 2" in str(error)


def test_a_part_of_another_model_is_refused(tmp_path: Path) -> None:
    parts = write_split(tmp_path)
    write_gguf(
        parts[2],
        {"split.no": Typed(2, "UINT16"), "split.count": Typed(3, "UINT16")},
        {"other": np.ones(32, np.float32), "another": np.ones(32, np.float32)},
    )
    error = refusal(parts[0])
    assert isinstance(error, CorruptCheckpointError)
    assert "tells of 5 tensors, and the parts hold 6" in str(error)


def test_a_tensor_in_two_parts_is_refused(tmp_path: Path) -> None:
    parts = write_split(tmp_path)
    write_gguf(
        parts[2],
        {"split.no": Typed(2, "UINT16"), "split.count": Typed(3, "UINT16")},
        {"t0": np.ones(32, np.float32)},
    )
    assert "'t0' is both in m-00001-of-00003.gguf" in str(refusal(parts[0]))


def test_a_part_that_lost_its_name_is_refused(tmp_path: Path) -> None:
    part = write_split(tmp_path)[0].rename(tmp_path / "model.gguf")
    error = refusal(part)
    assert isinstance(error, CheckpointError)
    assert "one of 3 parts" in str(error)
    assert "-of-00003.gguf" in error.hint


def test_a_whole_model_under_the_name_of_a_part_is_refused(tmp_path: Path) -> None:
    for number in (1, 2):
        write_gguf(tmp_path / f"m-0000{number}-of-00002.gguf")
    assert "one of 1 parts of a split model, and its name tells of 2" in str(
        refusal(tmp_path / "m-00001-of-00002.gguf")
    )


@pytest.mark.parametrize("key", ["split.count", "split.no"])
@pytest.mark.parametrize("value", [True, "three", 2.5, -1, 4_000_000_000])
def test_a_split_that_is_no_number_is_refused(tmp_path: Path, key: str, value: object) -> None:
    assert isinstance(refusal(write_gguf(tmp_path / "m.gguf", {key: value})), CheckpointError)  # type: ignore[dict-item]


def test_a_refused_model_leaves_no_file_open(tmp_path: Path) -> None:
    parts = write_split(tmp_path)
    parts[2].write_bytes(b"damaged")
    before = list(Path("/proc/self/fd").iterdir())
    refusal(parts[0])
    assert len(list(Path("/proc/self/fd").iterdir())) == len(before)


@pytest.mark.parametrize(
    ("name", "first", "count"),
    [
        ("m.gguf", "m.gguf", 1),
        ("m-00002-of-00003.gguf", "m-00001-of-00003.gguf", 3),
        ("M-00001-OF-00002.GGUF", "M-00001-OF-00002.GGUF", 2),
        ("m-00004-of-00003.gguf", "m-00004-of-00003.gguf", 1),
        ("m-00000-of-00003.gguf", "m-00000-of-00003.gguf", 1),
        ("m-1-of-3.gguf", "m-1-of-3.gguf", 1),
    ],
)
def test_the_parts_of_a_name(name: str, first: str, count: int) -> None:
    names = part_names(name)
    assert len(names) == count
    assert names[0].lower() == first.lower()


def test_the_number_of_parts_is_bounded() -> None:
    with pytest.raises(CheckpointError, match="99999 parts"):
        part_names("m-00001-of-99999.gguf")
