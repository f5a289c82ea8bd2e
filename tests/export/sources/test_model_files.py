from __future__ import annotations

import pytest

from mrs.errors import CheckpointError, SourceNotFoundError
from mrs.export.sources.model_files import gguf_models, read_files, refuse_pickles


def no_index() -> dict[str, str]:
    raise AssertionError("there is no index to be read")


def test_what_is_read_is_sorted_whatever_the_order() -> None:
    names = ["tokenizer.json", "model.safetensors", "config.json", "README.md"]
    expected = ["config.json", "model.safetensors", "tokenizer.json"]
    assert read_files(names, no_index, "here") == expected
    assert read_files(names[::-1], no_index, "here") == expected


def test_only_the_shards_of_the_index_are_read() -> None:
    names = ["config.json", "a.safetensors", "b.safetensors", "model.safetensors.index.json"]
    assert read_files(names, lambda: {"w": "b.safetensors"}, "here") == [
        "b.safetensors",
        "config.json",
    ]


def test_parts_that_follow_the_model_are_read() -> None:
    names = ["config.json", "model.safetensors", "modules.json"]
    parts = ["1_Pooling/config.json", "2_Dense/config.json", "2_Dense/model.safetensors"]
    unread = ["2_Dense/pytorch_model.bin", "onnx/config.json", "a/2_Dense/config.json"]
    assert read_files([*names, *parts, *unread], no_index, "here") == sorted([*names, *parts])


def test_without_weights_there_is_nothing_to_read() -> None:
    with pytest.raises(SourceNotFoundError, match=r"no \.safetensors file in here"):
        read_files(["config.json"], no_index, "here")


def test_pickles_of_a_training_are_no_weights() -> None:
    refuse_pickles(["training_args.bin", "checkpoint/optimizer.pt"], "here")
    with pytest.raises(CheckpointError, match=r"sub/pytorch_model-00001-of-00002\.bin"):
        refuse_pickles(["sub/pytorch_model-00001-of-00002.bin"], "here")


def test_a_split_gguf_model_counts_once() -> None:
    names = ["x/m-00002-of-00002.gguf", "x/m-00001-of-00002.gguf", "n.GGUF", "mmproj-n.gguf", "a"]
    assert gguf_models(names) == ["n.GGUF", "x/m-00001-of-00002.gguf"]
