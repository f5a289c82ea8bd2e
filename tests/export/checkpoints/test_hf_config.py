from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mrs.errors import (
    CheckpointError,
    CorruptCheckpointError,
    MrsError,
    SourceNotFoundError,
    StorageError,
)
from mrs.export.checkpoints.hf_config import HfConfig, read_hf_config

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "rope_theta": 10000,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
    "sliding_window": None,
    "eos_token_id": [2, 7],
    "bos_token_id": 1,
}


def read(
    folder: Path, config: dict[str, Any], generation: dict[str, Any] | None = None
) -> HfConfig:
    (folder / "config.json").write_text(json.dumps(config))
    if generation is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation))
    return read_hf_config(folder)


def refusal(folder: Path, text: str | bytes) -> MrsError:
    (folder / "config.json").write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(MrsError) as caught:
        read_hf_config(folder)
    return caught.value


def test_values_come_with_their_types(tmp_path: Path) -> None:
    config = read(tmp_path, LLAMA, {"temperature": 0.6})
    assert config.model_type == "llama"
    assert config.architectures == ["LlamaForCausalLM"]
    assert config.size("hidden_size") == 64
    assert config.number("rope_theta") == 10000.0
    assert config.flag("tie_word_embeddings") is True
    assert config.optional_size("sliding_window") is None
    assert config.token_ids("eos_token_id") == [2, 7]
    assert config.token_ids("bos_token_id") == [1]
    assert config.token_ids("pad_token_id") == []
    assert config.generation.number("temperature") == 0.6
    assert not config.is_nested
    assert not config.wants_remote_code
    assert config.quantization is None


def test_the_text_part_of_a_multimodal_model_is_what_counts(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        {
            "architectures": ["Gemma3ForConditionalGeneration"],
            "model_type": "gemma3",
            "tie_word_embeddings": False,
            "quantization_config": {"bits": 4},
            "text_config": {"model_type": "gemma3_text", "hidden_size": 8},
            "vision_config": {"model_type": "siglip", "hidden_size": 16},
        },
    )
    assert config.is_nested
    assert config.model_type == "gemma3_text"
    assert config.architectures == ["Gemma3ForConditionalGeneration"]
    assert config.size("hidden_size") == 8
    assert config.flag("tie_word_embeddings") is False
    assert config.outer.text("model_type") == "gemma3"
    assert config.quantization is not None
    assert config.quantization.size("bits") == 4


def test_remote_code_is_told_and_not_run(tmp_path: Path) -> None:
    auto_map = {"AutoModelForCausalLM": "modeling_own.OwnForCausalLM"}
    (tmp_path / "modeling_own.py").write_text("raise SystemExit")
    assert read(tmp_path, {**LLAMA, "auto_map": auto_map}).wants_remote_code
    assert read(tmp_path, {"text_config": {**LLAMA, "auto_map": auto_map}}).wants_remote_code


def test_a_missing_generation_config_is_an_empty_one(tmp_path: Path) -> None:
    assert not read(tmp_path, LLAMA).generation.has("temperature")


def test_a_missing_config_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFoundError, match=r"no config\.json in"):
        read_hf_config(tmp_path)


@pytest.mark.parametrize("name", ["config.json", "generation_config.json"])
def test_malformed_json_names_its_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / name).write_text('{"a": 1,\n "b": }')
    with pytest.raises(CorruptCheckpointError, match=f"{name} .*line 2, column 7"):
        read_hf_config(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no JSON"),
        ("[1]", "no object"),
        ('"text"', "no object"),
        ("null", "no object"),
        (b"\xff\xfe{\x00}\x00", "not UTF-8"),
        (b"\x80\x04\x95pickle", "not UTF-8"),
        ('{"a": ' + "[" * 100_000, "nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "thousands of digits"),
        ('{"a": "' + "x" * 2_000_000 + '"}', "more than 2000000 bytes"),
    ],
)
def test_what_is_no_config_is_corrupt(tmp_path: Path, text: str | bytes, words: str) -> None:
    error = refusal(tmp_path, text)
    assert isinstance(error, CorruptCheckpointError)
    assert words in str(error)
    assert len(str(error)) < 300


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(LLAMA).encode())
    assert read_hf_config(tmp_path).model_type == "llama"


def test_a_config_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").mkdir()
    with pytest.raises(CorruptCheckpointError, match="no regular file"):
        read_hf_config(tmp_path)


def test_an_empty_text_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="text_config is empty"):
        read(tmp_path, {"text_config": {}})


def test_a_loop_of_links_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "config.json").symlink_to(tmp_path / "config.json")
    with pytest.raises(StorageError):
        read_hf_config(tmp_path)
