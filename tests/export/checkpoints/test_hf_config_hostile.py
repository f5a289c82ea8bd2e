"""Laws of the config reader: whatever ``config.json`` is, a getter gives its type or refuses."""

from __future__ import annotations

import json
import math
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrs.errors import CheckpointError
from mrs.export.checkpoints.hf_config import HfConfig, read_hf_config

VALID = json.dumps(
    {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 64,
        "rope_scaling": {"rope_type": "llama3", "factor": 8.0},
        "tie_word_embeddings": True,
        "eos_token_id": [1, 2],
        "layer_types": ["full_attention", "sliding_attention"],
    }
).encode()

KEYS = [
    "architectures", "model_type", "hidden_size", "rope_scaling", "tie_word_embeddings",
    "eos_token_id", "layer_types", "text_config", "quantization_config", "auto_map",
]  # fmt: skip
GETTERS: dict[str, type | tuple[type, ...]] = {
    "size": int,
    "count": int,
    "number": float,
    "text": str,
    "flag": bool,
    "sizes": list,
    "counts": list,
    "numbers": list,
    "texts": list,
    "token_ids": list,
}


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch")


def use(config: HfConfig) -> None:
    """Ask for every key in every way."""
    for key in KEYS:
        for getter, kind in GETTERS.items():
            try:
                value = getattr(config, getter)(key)
            except CheckpointError as error:
                assert error.message.startswith("config.json")
                assert len(error.message) < 300
                error.message.encode("utf-8")
                continue
            assert type(value) is kind
            assert not isinstance(value, float) or math.isfinite(value)
        if (section := optional(config, key)) is not None:
            assert isinstance(section.has("factor"), bool)
    for fact in ("model_type", "architectures", "quantization", "wants_remote_code"):
        optional(config, fact, fact=True)


def optional(config: HfConfig, key: str, *, fact: bool = False) -> Any:
    try:
        return getattr(config, key) if fact else config.optional_section(key)
    except CheckpointError as error:
        assert error.message
        return None


def read(folder: Path, data: bytes) -> None:
    (folder / "config.json").write_bytes(data)
    try:
        config = read_hf_config(folder)
    except CheckpointError as error:
        assert error.message
        assert len(error.message) < 300
    else:
        use(config)


@settings(max_examples=300, deadline=None)
@given(
    places=st.dictionaries(st.integers(0, len(VALID) - 1), st.integers(0, 255), max_size=4),
    length=st.integers(0, len(VALID)),
)
def test_changed_bytes_are_read_or_refused(
    scratch: Path, places: dict[int, int], length: int
) -> None:
    data = bytearray(VALID)
    for place, value in places.items():
        data[place] = value
    read(scratch, bytes(data))
    read(scratch, bytes(data[:length]))


values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.sampled_from([1 << 31, 10**400, -1, 0]),
        st.floats(),
        st.text(max_size=5),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(config=st.dictionaries(st.sampled_from(KEYS), values, max_size=6))
def test_any_values_are_read_or_refused(scratch: Path, config: dict[str, Any]) -> None:
    read(scratch, json.dumps(config).encode())


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=100))
def test_noise_is_refused_or_read(scratch: Path, data: bytes) -> None:
    read(scratch, data)


@pytest.mark.parametrize(
    "data",
    [b'{"a":' + b"[" * 1_900_000, b"[" + b"{}," * 200_000 + b"1]", b'{"a":' * 300_000],
    ids=["nested lists", "many objects", "nested objects"],
)
def test_memory_is_bounded(scratch: Path, data: bytes) -> None:
    tracemalloc.start()
    try:
        read(scratch, data)
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()
