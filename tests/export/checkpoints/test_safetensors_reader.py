from __future__ import annotations

import json
import math
import os
import shutil
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from mrs.errors import CorruptCheckpointError, MrsError, SourceNotFoundError
from mrs.export.checkpoints.checkpoint import TensorInfo
from mrs.export.checkpoints.safetensors_reader import SafetensorsFolder, open_safetensors
from tests.export.safetensors_files import (
    TensorItem,
    bfloat16,
    entry,
    raw_safetensors,
    write_safetensors,
    write_shards,
)

RNG = np.random.default_rng(7)
TENSORS: dict[str, TensorItem] = {
    "z.weight": RNG.normal(size=(6, 4)).astype(np.float32),
    "a.weight": RNG.normal(size=(3, 2, 4)).astype(np.float16),
    "m.bias": RNG.normal(size=5).astype(np.float32),
    "b.codes": RNG.integers(-9, 9, (2, 3), dtype=np.int32),
    "c.scale": np.float32(0.5).reshape(()),
}


def content(folder: SafetensorsFolder) -> dict[str, tuple[TensorInfo, bytes]]:
    return {
        name: (info, folder.read_rows(name, 0, math.prod(info.shape[:-1])).tobytes())
        for name, info in folder.tensors.items()
    }


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def refusal(folder: Path) -> MrsError:
    with pytest.raises(MrsError) as caught:
        open_safetensors(folder)
    return caught.value


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    folder = tmp_path / "whole"
    folder.mkdir()
    write_safetensors(folder / "model.safetensors", TENSORS)
    return folder


def test_reads_what_the_safetensors_package_reads(whole: Path) -> None:
    expected = load_file(whole / "model.safetensors")
    with open_safetensors(whole) as folder:
        assert set(folder.tensors) == set(expected)
        for name, (info, data) in content(folder).items():
            assert info.shape == expected[name].shape
            assert data == expected[name].tobytes()


def test_types_keep_the_names_of_the_format(tmp_path: Path) -> None:
    values = np.ones((2, 2), np.float32)
    write_safetensors(tmp_path / "model.safetensors", {"w": bfloat16(values), "v": values})
    with open_safetensors(tmp_path) as folder:
        assert {name: info.dtype for name, info in folder.tensors.items()} == {
            "v": "F32",
            "w": "BF16",
        }


def test_rows_are_views_in_order(whole: Path) -> None:
    matrix = TENSORS["z.weight"]
    assert isinstance(matrix, np.ndarray)
    with open_safetensors(whole) as folder:
        rows = folder.read_rows("z.weight", 2, 5)
        assert rows.shape == (3, 16)
        assert not rows.flags.owndata
        assert not rows.flags.writeable
        np.testing.assert_array_equal(rows.view(np.float32), matrix[2:5])
        assert folder.read_rows("z.weight", 6, 6).shape == (0, 16)
        assert folder.read_rows("a.weight", 0, 6).shape == (6, 8)
        assert folder.read_rows("c.scale", 0, 1).shape == (1, 4)
        del rows


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (0, 7), (4, 3)])
def test_rows_that_are_not_there_are_an_index_error(whole: Path, start: int, stop: int) -> None:
    with open_safetensors(whole) as folder, pytest.raises(IndexError):
        folder.read_rows("z.weight", start, stop)


def test_reading_costs_no_memory(tmp_path: Path) -> None:
    header = {"w": entry("BF16", [50_000, 1000], 0, 100_000_000)}
    path = tmp_path / "model.safetensors"
    path.write_bytes(raw_safetensors(header))
    os.truncate(path, path.stat().st_size + 100_000_000)
    tracemalloc.start()
    try:
        with open_safetensors(tmp_path) as folder:
            assert folder.read_rows("w", 0, 50_000).shape == (50_000, 2000)
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


# --- shards ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize(
    "cut",
    [
        [["z.weight", "a.weight", "m.bias"], ["b.codes", "c.scale"]],
        [["c.scale"], ["b.codes", "z.weight"], ["m.bias", "a.weight"]],
        [["a.weight", "b.codes", "c.scale", "m.bias", "z.weight"]],
    ],
)
def test_shards_give_the_tensors_of_one_file(
    whole: Path, tmp_path: Path, cut: list[list[str]], index: bool
) -> None:
    shards = [{name: TENSORS[name] for name in names} for names in cut]
    folder = write_shards(tmp_path / "cut", shards, index=index)
    with open_safetensors(whole) as one, open_safetensors(folder) as many:
        assert content(many) == content(one)
        assert list(many.tensors) == list(one.tensors) == sorted(TENSORS)


@pytest.mark.parametrize("index", [True, False])
def test_a_missing_shard_is_named(tmp_path: Path, index: bool) -> None:
    write_shards(tmp_path, [{"a": np.ones(1)}, {"b": np.ones(1)}], index=index)
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    error = refusal(tmp_path)
    assert isinstance(error, SourceNotFoundError)
    assert "1 of the 2 shards" in str(error)
    assert "model-00002-of-00002.safetensors" in str(error)


def test_a_tensor_in_two_shards_is_refused(tmp_path: Path) -> None:
    write_shards(tmp_path, [{"a": np.ones(1)}, {"a": np.ones(1)}], index=False)
    assert "'a' is both in model-00001-of-00002" in str(refusal(tmp_path))


def test_a_tensor_that_the_index_promises_must_be_there(tmp_path: Path) -> None:
    write_shards(tmp_path, [{"a": np.ones(1)}, {"b": np.ones(1)}])
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(index.read_text().replace('"b"', '"c"'))
    assert "'c' is not in model-00002-of-00002" in str(refusal(tmp_path))


def test_a_closed_folder_cannot_be_read(whole: Path) -> None:
    folder = open_safetensors(whole)
    folder.close()
    with pytest.raises(ValueError):
        folder.read_rows("z.weight", 0, 1)


def test_a_refused_folder_leaves_no_file_open(tmp_path: Path) -> None:
    write_shards(tmp_path, [{"a": np.ones(1)}, {"b": np.ones(1)}])
    (tmp_path / "model-00002-of-00002.safetensors").write_bytes(b"damaged")
    before = open_files()
    refusal(tmp_path)
    assert open_files() == before


def test_a_file_that_shrinks_is_an_error_and_no_crash(whole: Path) -> None:
    with open_safetensors(whole) as folder:
        os.truncate(whole / "model.safetensors", 100)
        with pytest.raises(CorruptCheckpointError, match="has shrunk"):
            folder.read_rows("z.weight", 0, 6)


# --- which files ----------------------------------------------------------------------------------


def test_one_file_of_any_name_is_the_model(whole: Path) -> None:
    (whole / "model.safetensors").rename(whole / "weights.safetensors")
    with open_safetensors(whole) as folder:
        assert set(folder.tensors) == set(TENSORS)


def test_a_second_copy_of_the_weights_is_passed_over(whole: Path) -> None:
    shards = whole.parent / "shards"
    write_shards(shards, [{"a": np.ones(1)}, {"b": np.ones(1)}], index=False)
    shutil.copy(whole / "model.safetensors", shards / "consolidated.safetensors")
    with open_safetensors(shards) as folder:
        assert list(folder.tensors) == ["a", "b"]


def test_the_single_file_goes_before_shards(whole: Path) -> None:
    write_shards(whole, [{"a": np.ones(1)}, {"b": np.ones(1)}])
    with open_safetensors(whole) as folder:
        assert set(folder.tensors) == set(TENSORS)


def test_an_adapter_is_no_model(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "adapter_model.safetensors", {"a": np.ones(1)})
    error = refusal(tmp_path)
    assert "adapter" in str(error)
    assert "Merge" in error.hint


def test_unrelated_files_are_refused(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "a.safetensors", {"a": np.ones(1)})
    write_safetensors(tmp_path / "b.safetensors", {"b": np.ones(1)})
    assert "a.safetensors, b.safetensors" in str(refusal(tmp_path))


def test_shards_of_two_models_are_refused(tmp_path: Path) -> None:
    for stem in ("one", "two"):
        write_safetensors(tmp_path / f"{stem}-00001-of-00001.safetensors", {"a": np.ones(1)})
    assert "several models: one-*-of-00001 and two-*-of-00001" in str(refusal(tmp_path))


def test_a_folder_without_safetensors_is_refused(tmp_path: Path) -> None:
    assert isinstance(refusal(tmp_path), SourceNotFoundError)
    assert isinstance(refusal(tmp_path / "nowhere"), SourceNotFoundError)


@pytest.mark.parametrize(
    "index",
    [
        "",
        "[]",
        "{}",
        "null",
        '{"weight_map": {}}',
        '{"weight_map": []}',
        '{"weight_map": {"a": 1}}',
        '{"weight_map": {"a": {}}}',
        '{"weight_map": {"a": "../model.safetensors"}}',
        '{"weight_map": {"a": "/etc/passwd"}}',
        '{"weight_map": {"a": "x/y.safetensors"}}',
        '{"weight_map": {"a": "' + "x" * 2000 + '"}}',
        '{"weight_map": ' + "{" * 5000,
    ],
)
def test_a_malformed_index_is_refused(tmp_path: Path, index: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(index)
    assert isinstance(refusal(tmp_path), CorruptCheckpointError)


def test_an_index_may_say_more_than_the_map(tmp_path: Path) -> None:
    write_shards(tmp_path, [{"a": np.ones(1)}, {"b": np.ones(1)}])
    index = tmp_path / "model.safetensors.index.json"
    document = json.loads(index.read_text())
    document["metadata"] |= {"tool": {"options": {"deep": [1]}}, "versions": ["1", "2"]}
    index.write_text(json.dumps(document))
    with open_safetensors(tmp_path) as folder:
        assert list(folder.tensors) == ["a", "b"]
