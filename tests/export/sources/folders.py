"""Small Hugging Face folders, as names and bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tests.export.safetensors_files import entry, raw_safetensors

WEIGHTS = raw_safetensors({"w": entry("F32", [1], 0, 4)}, bytes(4))

READ = {
    "config.json": b'{"model_type": "llama"}',
    "generation_config.json": b'{"top_k": 5}',
    "model.safetensors": WEIGHTS,
    "tokenizer.json": b'{"version": "1.0"}',
    "tokenizer_config.json": b'{"pad_token": "p"}',
    "chat_template.jinja": b"{{ messages }}",
    "1_Pooling/config.json": b"{}",
    "additional_chat_templates/tools.jinja": b"{{ tools }}",
}
"""Files of a model that an export reads."""

NOT_READ = {
    "README.md": b"A model.",
    "pytorch_model.bin": b"\x80\x02pickle",
    "model.onnx": b"onnx",
    "onnx/model.onnx": b"onnx",
    "consolidated.safetensors": WEIGHTS,
    "modeling_own.py": b"raise SystemExit",
    ".gitattributes": b"",
    "original/params.json": b"{}",
}
"""Files that lie beside them and that it does not read."""

SHARDED = {
    "config.json": b'{"model_type": "llama"}',
    "model-00001-of-00002.safetensors": raw_safetensors({"a": entry("U8", [1], 0, 1)}, b"a"),
    "model-00002-of-00002.safetensors": raw_safetensors({"b": entry("U8", [1], 0, 1)}, b"b"),
    "model.safetensors.index.json": json.dumps(
        {
            "metadata": {},
            "weight_map": {
                "a": "model-00001-of-00002.safetensors",
                "b": "model-00002-of-00002.safetensors",
            },
        }
    ).encode(),
}
"""A model in two shards."""


def write_folder(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write files by relative path."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder
