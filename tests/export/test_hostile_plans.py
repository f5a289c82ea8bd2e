"""Whatever a checkpoint says of itself, an export plans it or refuses it, before it writes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mrs.errors import ChatTemplateError, CheckpointError
from mrs.export.architectures.huggingface import open_huggingface
from mrs.export.architectures.registry import decoder_spec
from mrs.export.plan import planned
from mrs.export.progress import SilentProgress
from tests.export.gguf_files import (
    MetadataItem,
    Typed,
    llama_metadata,
    llama_weights,
    write_gguf,
)
from tests.reference.families import CASES

HOSTILE = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

odd_values: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([None, 0, 1, -1, 7, 2**31 - 1, 2**31, 2**62, 10**30, True, False]),
    st.sampled_from([0.0, -1.5, 1e-300, 1e308, math.inf, math.nan, 1.0]),
    st.sampled_from(["", "x", "yarn", "llama3", "longrope", "sliding_attention", "silu", "gelu"]),
    st.sampled_from([[], [0], [1.0] * 8, [1] * 100, [-1] * 4, ["sliding_attention"], {}]),
    st.sampled_from(
        [
            {"rope_type": "llama3", "factor": 2},
            {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 0},
            {"rope_type": "longrope", "short_factor": [1.0], "long_factor": [1.0]},
            {"full_attention": {"rope_type": "default"}},
        ]
    ),
)


def refused(error: CheckpointError | ChatTemplateError) -> None:
    assert error.message
    assert len(error.message) < 1000


@pytest.mark.parametrize("name", ["llama-llama3", "gemma3-window", "mixtral", "deepseek3-yarn"])
def test_any_value_in_a_config_is_planned_or_refused(name: str, tmp_path: Path) -> None:
    (case,) = (case for case in CASES if case.name == name)
    folder = case.write(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    keys = st.sampled_from(sorted(config))

    @HOSTILE
    @given(changes=st.dictionaries(keys, odd_values, min_size=1, max_size=2), gone=keys)
    def hold(changes: dict[str, Any], gone: str) -> None:
        changed = {**config, **changes}
        changed.pop(gone if len(changes) > 1 else "", None)
        (folder / "config.json").write_text(json.dumps(changed))
        try:
            checkpoint = open_huggingface(folder)
        except CheckpointError as error:
            return refused(error)
        try:
            assert decoder_spec(checkpoint).num_layers <= len(checkpoint.tensors)
        except CheckpointError as error:
            refused(error)
        finally:
            checkpoint.close()
        return None

    hold()


METADATA = llama_metadata()
WEIGHTS = llama_weights()
KEYS = [
    *METADATA,
    "general.alignment",
    "llama.attention.key_length",
    "llama.attention.sliding_window",
    "llama.expert_count",
    "llama.pooling_type",
    "llama.rope.scaling.factor",
    "llama.rope.scaling.type",
    "tokenizer.ggml.precompiled_charsmap",
    "tokenizer.ggml.scores",
    "tokenizer.ggml.unknown_token_id",
]
odd_metadata: st.SearchStrategy[MetadataItem] = st.one_of(
    st.sampled_from([0, 1, -1, 5, 300, 2**31 - 1, True, False]),
    st.sampled_from([0.0, 1.0, 1e30, math.inf, math.nan]),
    st.sampled_from(
        ["", "x", "llama", "bert", "gpt2", "yarn", "{{ x", "{{ messages[9].content }}"]
    ),
    st.sampled_from([["a"], ["a b"], [1, 2], [0.5], ["x"] * 268, [3] * 268, [1.0] * 268]),
    st.sampled_from(
        [Typed(2**63, "UINT64"), Typed([2**40], "UINT64"), Typed([b"\xff", b""], "STRING")]
    ),
)


@HOSTILE
@given(
    changes=st.dictionaries(st.sampled_from(KEYS), odd_metadata, min_size=1, max_size=3),
    gone=st.sampled_from([None, *METADATA]),
)
def test_any_value_in_gguf_metadata_is_planned_or_refused(
    changes: dict[str, MetadataItem], gone: str | None, tmp_path: Path
) -> None:
    metadata = {**METADATA, **changes}
    metadata.pop(gone or "", None)
    path = write_gguf(tmp_path / "m.gguf", metadata, WEIGHTS)
    try:
        with planned(path, SilentProgress()) as plan:
            # Fewer layers than the tensors make are noticed when the graph has no use for them.
            assert plan.facts().num_layers in (1, 2)
    except (CheckpointError, ChatTemplateError) as error:
        refused(error)
