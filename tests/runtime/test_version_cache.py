"""A version's cache in 32 and in 8 bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mrs.errors import UsageError
from mrs.model_repo.lock import CACHE_SCALES_PATH, UnmeasuredParity
from mrs.model_repo.version import ModelVersion
from mrs.runtime.decoder import Decoder
from mrs.runtime.generation import SamplingParams
from mrs.runtime.kv_cache import KVCache
from mrs.runtime.kv_cache_shape import KVCacheType
from mrs.runtime.loading import load_served
from mrs.runtime.sequence import Sequence
from mrs.runtime.session_pool import SessionKey, open_session
from mrs.runtime.step import Row, Step
from mrs.runtime.version_cache import cache_shape, graph_for

SLOTS = 3


def decoder(version: ModelVersion, type: KVCacheType) -> Decoder:
    session = open_session(SessionKey(graph_for(version, type), threads=1))
    cache = KVCache(cache_shape(version, SLOTS, 160, type))
    return Decoder(session, cache, version.lock.model.vocab_size)


def sequence(seed: int) -> Sequence:
    tokens = np.random.default_rng(seed).integers(0, 256, 100)
    return Sequence(tuple(map(int, tokens)), SamplingParams(), 0, 128)


def test_both_types_give_nearly_the_same_logits(tiny: ModelVersion) -> None:
    floats, integers = (decoder(tiny, type) for type in KVCacheType)
    for past, new in ((0, 30), (30, 1), (31, 40)):
        step = Step(1, (Row(sequence(0), past, new, draws=True),))
        expected, found = floats.run(step)[0], integers.run(step)[0]
        difference = np.linalg.norm(found - expected) / np.linalg.norm(expected)
        assert 0 < difference < 0.05


def test_neighbours_change_nothing_with_8_bits(tiny: ModelVersion) -> None:
    """Rows of other lengths, pasts and slots, one of them idle."""
    together, alone = (decoder(tiny, KVCacheType.INT8) for _ in range(2))
    plan = [((0, 20), (0, 3), (0, 32)), ((20, 1), (3, 0), (32, 1)), ((21, 9), (3, 30), (33, 1))]
    for spans in plan:
        rows = [Row(sequence(i), past, new, draws=bool(new)) for i, (past, new) in enumerate(spans)]
        found = together.run(Step(0, tuple(rows))).copy()
        expected = [alone.run(Step(i, (row,)))[0].copy() for i, row in enumerate(rows) if row.new]
        np.testing.assert_allclose(found, np.stack(expected), rtol=0, atol=1e-4)


def test_a_moved_row_goes_on_with_8_bits(tiny: ModelVersion) -> None:
    moved, stayed = (decoder(tiny, KVCacheType.INT8) for _ in range(2))
    first = Row(sequence(0), 0, 50, draws=True)
    for each in (moved, stayed):
        each.run(Step(2, (first,)))
    moved._cache.move(2, 0, 50)
    row = Row(sequence(0), 50, 10, draws=True)
    found, expected = moved.run(Step(0, (row,))), stayed.run(Step(2, (row,)))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_a_model_is_served_with_8_bits(tiny: ModelVersion) -> None:
    loaded = load_served(tiny, max_seqs=2, threads=1, kv_cache_type="int8")
    loaded.close()


def test_8_bits_without_scales_are_refused(tiny: ModelVersion) -> None:
    reason = UnmeasuredParity(not_measured="there is no ONNX Runtime to run the graph")
    files = tuple(file for file in tiny.lock.files if file.path != CACHE_SCALES_PATH)
    for measured, why in ((reason, "no ONNX Runtime"), (None, "an older mrs made it")):
        lock = tiny.lock.model_copy(update={"files": files, "int8_cache": measured})
        with pytest.raises(UsageError, match=why):
            load_served(replace(tiny, lock=lock), kv_cache_type="int8")


def test_the_windows_of_a_lock_are_those_of_the_cache(tiny: ModelVersion) -> None:
    model = tiny.lock.model.model_copy(update={"kv_windows": (16, None)})
    windowed = replace(tiny, lock=tiny.lock.model_copy(update={"model": model}))
    assert [layer.window for layer in cache_shape(windowed, 1, 160).layers] == [16, None]
    assert [layer.window for layer in cache_shape(tiny, 1, 160).layers] == [None, None]
