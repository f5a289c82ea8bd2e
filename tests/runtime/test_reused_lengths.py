"""Rows whose windows have moved are reused at those lengths alone at which they hold all."""

from __future__ import annotations

import numpy as np

from mrs.runtime.cache_operations import Copy
from mrs.runtime.generation import SamplingParams
from mrs.runtime.kv_cache_shape import KVCacheShape
from mrs.runtime.prefix_cache import PrefixCache
from mrs.runtime.scheduler import Scheduler, SchedulerConfig
from mrs.runtime.sequence import Sequence

SHAPE = KVCacheShape(1, 4, 1, 4096, 64, windows=(128,))
"""With room for 384 tokens, of which 257 are dropped at once."""


def kept(*lengths: int) -> PrefixCache:
    cache = PrefixCache(1 << 30, SHAPE.committed_bytes, SHAPE.can_reuse)
    for slot, length in enumerate(lengths):
        cache.keep(slot, list(range(length)), salt="")
    return cache


def matched(cache: PrefixCache, shared: int) -> int | None:
    """Length of the match for a prompt that shares so many tokens."""
    prompt = np.concatenate([np.arange(shared), np.full(50, -1)])
    match = cache.match(prompt, "")
    return None if match is None else match.length


def test_the_room_of_these_tests() -> None:
    assert SHAPE.layers[0].capacity == 384


def test_a_beginning_is_found_until_it_is_dropped() -> None:
    assert matched(kept(384), 100) == 100
    assert matched(kept(385), 100) is None
    assert matched(kept(385), 384) is None
    assert matched(kept(600), 390) == 390


def test_a_shorter_row_serves_where_the_longer_one_cannot() -> None:
    assert matched(kept(600, 300), 200) == 200
    assert matched(kept(600, 300), 550) == 550


def test_a_row_outlives_a_longer_one_that_cannot_be_cut_to_it() -> None:
    cache = kept(300, 380)
    assert [*cache.drop_beginnings(1)] == [0]
    cache = kept(300, 600)
    assert [*cache.drop_beginnings(1)] == []


def test_a_running_row_is_copied_only_as_far_as_it_can_be_cut() -> None:
    assert copies(running=380, shared=200) == [200]
    assert copies(running=600, shared=200) == []
    assert copies(running=600, shared=450) == [450]


def copies(running: int, shared: int) -> list[int]:
    """How much is copied of a running row that shares so many tokens with a new prompt."""
    config = SchedulerConfig(
        4, 4096, max_kept_bytes=1, row_bytes=SHAPE.committed_bytes, can_reuse=SHAPE.can_reuse
    )
    scheduler = Scheduler(config)
    first = sequence(range(running + 1))
    scheduler.add(first)
    step = scheduler.schedule()
    assert step is not None
    first.num_computed = running
    scheduler.add(sequence([*range(shared), *[9999] * 30]))
    step = scheduler.schedule()
    operations = scheduler.take_operations() if step is None else step.moves
    return [each.length for each in operations if isinstance(each, Copy)]


def sequence(tokens: range | list[int]) -> Sequence:
    return Sequence(tuple(tokens), SamplingParams(), index=0, max_length=4096)
