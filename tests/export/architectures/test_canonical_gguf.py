"""GGUF files under canonical names."""

from __future__ import annotations

import numpy as np
import pytest

from mrs.errors import CorruptCheckpointError
from mrs.export.architectures.canonical_gguf import canonical_gguf
from tests.export.memory_checkpoint import MemoryCheckpoint

RNG = np.random.default_rng(0)


def matrix(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return RNG.normal(size=shape).astype(np.float32)


def test_a_file_with_canonical_names_stays_itself() -> None:
    checkpoint = MemoryCheckpoint({"token_embd.weight": matrix(4, 8)})
    assert canonical_gguf(checkpoint) is checkpoint


def test_experts_with_tensors_of_their_own_are_stacked_in_order() -> None:
    experts = [matrix(3, 4) for _ in range(12)]
    stored = {f"blk.2.ffn_up.{index}.weight": experts[index] for index in reversed(range(12))}
    found = canonical_gguf(MemoryCheckpoint(stored))
    assert list(found.tensors) == ["blk.2.ffn_up_exps.weight"]
    assert found.tensors["blk.2.ffn_up_exps.weight"].shape == (12, 3, 4)
    rows = found.read_rows("blk.2.ffn_up_exps.weight", 0, 36).copy().view(np.float32)
    np.testing.assert_array_equal(rows, np.concatenate(experts))


def test_a_missing_expert_is_named() -> None:
    stored = {f"blk.0.ffn_down.{index}.weight": matrix(3, 4) for index in (0, 2)}
    with pytest.raises(CorruptCheckpointError, match=r"blk\.0\.ffn_down_exps.*number 1"):
        canonical_gguf(MemoryCheckpoint(stored))


def test_gate_and_up_in_one_tensor_are_two() -> None:
    both = matrix(2, 6, 4)
    found = canonical_gguf(MemoryCheckpoint({"blk.0.ffn_gate_up_exps.weight": both}))
    assert set(found.tensors) == {"blk.0.ffn_gate_exps.weight", "blk.0.ffn_up_exps.weight"}
    up = found.read_rows("blk.0.ffn_up_exps.weight", 0, 6).copy().view(np.float32)
    np.testing.assert_array_equal(up, both[:, 3:].reshape(6, 4))


def test_names_of_a_family_become_canonical_ones() -> None:
    stored = {"blk.0.post_attention_norm.weight": matrix(4)}
    found = canonical_gguf(MemoryCheckpoint(stored, architecture="gpt-oss"))
    assert list(found.tensors) == ["blk.0.ffn_norm.weight"]
    same = MemoryCheckpoint(stored, architecture="gemma2")
    assert canonical_gguf(same) is same


@pytest.mark.parametrize(
    "names",
    [
        ("blk.0.ffn_norm.weight", "blk.0.post_attention_norm.weight"),
        ("blk.0.ffn_up_exps.weight", "blk.0.ffn_up.0.weight"),
        ("blk.0.ffn_up_exps.weight", "blk.0.ffn_gate_up_exps.weight"),
    ],
)
def test_the_same_part_of_the_model_in_two_forms_is_corrupt(names: tuple[str, str]) -> None:
    stored = {name: matrix(1, 2, 4) for name in names}
    with pytest.raises(CorruptCheckpointError, match="twice"):
        canonical_gguf(MemoryCheckpoint(stored, architecture="gpt-oss"))
