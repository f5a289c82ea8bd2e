from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mrs.export.graph.weight_file import StoredTensor, WeightFile


def filled(size: int, value: int = 7) -> NDArray[np.uint8]:
    return np.full(size, value, dtype=np.uint8)


@given(sizes=st.lists(st.integers(0, 10_000), max_size=8))
@settings(max_examples=40, deadline=None)
def test_tensors_are_aligned_apart_and_whole(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int]
) -> None:
    path = tmp_path_factory.mktemp("weights") / "weights.data"
    with WeightFile(path) as file:
        stored = [file.append([filled(size, n)], size) for n, size in enumerate(sizes)]
    data = path.read_bytes()
    end = 0
    for n, (place, size) in enumerate(zip(stored, sizes, strict=True)):
        assert place.length == size
        assert place.offset % (4096 if size >= 4096 else 64) == 0
        assert not any(data[end : place.offset])
        assert data[place.offset : place.offset + size] == bytes([n]) * size
        end = place.offset + size
    assert len(data) == file.size == end


def test_chunks_follow_one_another(tmp_path: Path) -> None:
    whole = np.arange(24, dtype=np.float32).reshape(6, 4)
    with WeightFile(tmp_path / "w") as file:
        stored = file.append([whole[:1], whole[1:4], whole[4:]], whole.nbytes)
    assert (tmp_path / "w").read_bytes()[stored.offset :] == whole.tobytes()


def test_views_are_written_in_the_order_of_their_elements(tmp_path: Path) -> None:
    whole = np.arange(24, dtype=np.float32).reshape(6, 4)
    with WeightFile(tmp_path / "w") as file:
        file.append([whole.T], whole.nbytes)
    assert (tmp_path / "w").read_bytes() == np.ascontiguousarray(whole.T).tobytes()


@pytest.mark.parametrize("announced", [99, 101])
def test_another_length_than_announced_is_an_error(tmp_path: Path, announced: int) -> None:
    with (
        WeightFile(tmp_path / "w") as file,
        pytest.raises(ValueError, match=f"has 100 bytes, announced were {announced}"),
    ):
        file.append([filled(60), filled(40)], announced)


def test_a_chunk_is_written_before_the_next_is_asked_for(tmp_path: Path) -> None:
    """So that no more than a chunk of a tensor is in memory."""
    sizes = []
    with WeightFile(tmp_path / "w") as file:

        def chunks() -> Iterator[NDArray[np.uint8]]:
            for _ in range(3):
                sizes.append(file.size)
                yield filled(1000)

        file.append(chunks(), 3000)
    assert sizes == [0, 1000, 2000]


def test_references_may_share_bytes(tmp_path: Path) -> None:
    with WeightFile(tmp_path / "w") as file:
        file.append([filled(10)], 10)
        stored = file.append([np.arange(12, dtype=np.uint8)], 12)
        views = [
            file.tensor(stored, "a", ir.DataType.UINT8, (3, 4)),
            file.tensor(stored, "b", ir.DataType.UINT8, (12,)),
        ]
    assert {(view.location, view.offset, view.length) for view in views} == {("w", 64, 12)}
    assert [list(view.shape) for view in views] == [[3, 4], [12]]


def test_a_reference_names_the_file_and_not_its_folder(tmp_path: Path) -> None:
    with WeightFile(tmp_path / "model.onnx.data") as file:
        reference = file.tensor(StoredTensor(0, 4), "a", ir.DataType.FLOAT, (1,))
    assert reference.location == "model.onnx.data"


def test_an_existing_file_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        WeightFile(tmp_path / "w")
    assert (tmp_path / "w").read_bytes() == b"mine"
