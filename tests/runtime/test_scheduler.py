"""The scheduler alone, with no model: who runs when, and where."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrs.errors import QueueFullError
from mrs.runtime.cache_operations import CacheOperation, Copy, Move, Release, Trim
from mrs.runtime.generation import FinishReason, SamplingParams
from mrs.runtime.scheduler import ATTENTION_DEPTH, TAIL, Scheduler, SchedulerConfig
from mrs.runtime.sequence import Sequence
from mrs.runtime.step import Step

CONFIG = SchedulerConfig(max_seqs=4, prefill_chunk=16, max_waiting=8)
LARGEST = 16 + 16 // TAIL


def sequence(prompt: int, answer: int = 4) -> Sequence:
    sampling = SamplingParams(max_tokens=answer)
    return Sequence(tuple(range(prompt)), sampling, index=0, max_length=1000)


def carry_out(scheduler: Scheduler, step: Step) -> list[Sequence]:
    """Do what the engine does after a step; returns the sequences that ended."""
    ended = []
    for row in step.active:
        row.sequence.num_computed += row.new
        if row.draws:
            row.sequence.output_ids.append(7)
            if len(row.sequence.output_ids) == row.sequence.sampling.max_tokens:
                row.sequence.finish_reason = FinishReason.LENGTH
                scheduler.remove(row.sequence)
                ended.append(row.sequence)
    return ended


def test_nothing_to_do_gives_no_step() -> None:
    assert Scheduler(CONFIG).schedule() is None


def test_a_long_prompt_is_computed_in_chunks_and_only_the_last_draws() -> None:
    scheduler = Scheduler(CONFIG)
    scheduler.add(sequence(37))
    chunks = []
    for _ in range(3):
        step = scheduler.schedule()
        assert step is not None
        chunks.append([(row.past, row.new, row.draws) for row in step.active])
        carry_out(scheduler, step)
    assert chunks == [[(0, 16, False)], [(16, 16, False)], [(32, 5, True)]]


def test_a_small_rest_of_a_prompt_is_computed_with_the_chunk_before_it() -> None:
    scheduler = Scheduler(CONFIG)
    scheduler.add(sequence(16 + LARGEST))
    chunks = []
    for _ in range(2):
        step = scheduler.schedule()
        assert step is not None
        chunks.append([(row.past, row.new, row.draws) for row in step.active])
        carry_out(scheduler, step)
    assert chunks == [[(0, 16, False)], [(16, LARGEST, True)]]


def test_short_prompts_of_like_length_share_a_step() -> None:
    scheduler = Scheduler(CONFIG)
    for prompt in (5, 4, 5):
        scheduler.add(sequence(prompt))
    step = scheduler.schedule()
    assert step is not None
    assert [row.new for row in step.active] == [5, 4, 5]
    assert all(row.draws for row in step.active)


def test_a_short_prompt_is_not_padded_to_a_long_one() -> None:
    scheduler = Scheduler(CONFIG)
    for prompt in (8, 1):
        scheduler.add(sequence(prompt))
    step = scheduler.schedule()
    assert step is not None
    assert [row.new for row in step.active] == [8]


def long_prompt_chunks(scheduler: Scheduler, prompt: int) -> list[tuple[int, int]]:
    """Past and new tokens of each chunk of a prompt that comes last."""
    arrived = Sequence(tuple(range(prompt)), SamplingParams(), index=0, max_length=prompt + 9)
    scheduler.add(arrived)
    chunks = []
    while arrived.is_prefilling:
        step = scheduler.schedule()
        assert step is not None
        chunks += [(row.past, row.new) for row in step.active if row.sequence is arrived]
        carry_out(scheduler, step)
    return chunks


def test_while_somebody_decodes_a_chunk_takes_no_longer_deep_in_a_prompt() -> None:
    scheduler = Scheduler(SchedulerConfig(max_seqs=4, prefill_chunk=128))
    scheduler.add(sequence(2, answer=900))
    carry_out(scheduler, scheduler.schedule())  # type: ignore[arg-type]
    chunks = long_prompt_chunks(scheduler, 3 * ATTENTION_DEPTH)
    # A token takes as long as one at the beginning, and once more behind so many others.
    times = [(new - 1) * (1 + past / ATTENTION_DEPTH) for past, new in chunks]
    assert max(times[:-1]) < 128 and times[-1] < 128 * (1 + 1 / TAIL)
    assert sum(new for _, new in chunks) == 3 * ATTENTION_DEPTH
    assert chunks[0] == (0, 128) and chunks[-2][1] in (32, 33)


def test_while_nobody_decodes_chunks_are_as_large_everywhere() -> None:
    scheduler = Scheduler(SchedulerConfig(max_seqs=4, prefill_chunk=128))
    chunks = long_prompt_chunks(scheduler, 2 * ATTENTION_DEPTH)
    assert {new for _, new in chunks} == {128}


def test_decoding_goes_on_between_the_chunks_of_a_long_prompt() -> None:
    scheduler = Scheduler(CONFIG)
    decoding = sequence(2, answer=50)
    scheduler.add(decoding)
    carry_out(scheduler, scheduler.schedule())  # type: ignore[arg-type]
    scheduler.add(sequence(40))
    kinds = []
    for _ in range(6):
        step = scheduler.schedule()
        assert step is not None
        kinds.append(max(row.new for row in step.active))
        carry_out(scheduler, step)
    assert kinds == [1, 16, 1, 16, 1, 8]


def test_a_prefilling_slot_is_idle_in_a_decode_step() -> None:
    scheduler = Scheduler(CONFIG)
    scheduler.add(sequence(2, answer=50))
    carry_out(scheduler, scheduler.schedule())  # type: ignore[arg-type]
    scheduler.add(sequence(40))
    step = scheduler.schedule()
    assert step is not None
    assert [row.new for row in step.rows if row is not None] == [1, 0]


def test_a_freed_slot_goes_to_the_next_in_the_queue() -> None:
    scheduler = Scheduler(CONFIG)
    first = [sequence(1, answer=9) for _ in range(4)]
    late = sequence(1)
    for one in (*first, late):
        scheduler.add(one)
    carry_out(scheduler, scheduler.schedule())  # type: ignore[arg-type]
    scheduler.remove(first[1])
    step = scheduler.schedule()
    assert step is not None
    assert late.slot == 1
    assert step.moves == (Release(1),)


def test_without_a_queue_the_highest_slot_moves_into_the_hole() -> None:
    scheduler = Scheduler(CONFIG)
    sequences = [sequence(3, answer=9) for _ in range(3)]
    for one in sequences:
        scheduler.add(one)
    carry_out(scheduler, scheduler.schedule())  # type: ignore[arg-type]
    scheduler.remove(sequences[0])
    step = scheduler.schedule()
    assert step is not None
    assert step.moves == (Release(0), Move(2, 0, 3))
    assert [row.sequence for row in step.active] == [sequences[2], sequences[1]]


def test_the_queue_is_bounded_in_requests() -> None:
    scheduler = Scheduler(CONFIG)
    for _ in range(12):
        scheduler.check_room(1, 1)
        scheduler.add(sequence(1))
        scheduler.schedule()
    with pytest.raises(QueueFullError, match="8 requests are waiting; the queue holds 8"):
        scheduler.check_room(1, 1)


def test_the_queue_is_bounded_in_tokens() -> None:
    scheduler = Scheduler(SchedulerConfig(max_seqs=1, max_waiting_tokens=10))
    for _ in range(2):
        scheduler.add(sequence(8))
        scheduler.schedule()
    with pytest.raises(QueueFullError, match="8 prompt tokens are waiting"):
        scheduler.check_room(1, 3)
    scheduler.check_room(1, 2)


def test_what_leaves_the_queue_makes_room_for_as_many_tokens() -> None:
    scheduler = Scheduler(SchedulerConfig(max_seqs=1, max_waiting_tokens=10))
    running, first, second = (sequence(4) for _ in range(3))
    for one in (running, first, second):
        scheduler.add(one)
    scheduler.remove(first)
    scheduler.check_room(1, 6)
    with pytest.raises(QueueFullError):
        scheduler.check_room(1, 7)
    scheduler.remove(running)
    scheduler.check_room(1, 100)


def test_nobody_waits_while_a_slot_is_free() -> None:
    scheduler = Scheduler(CONFIG)
    sequences = [sequence(1) for _ in range(6)]
    for one in sequences:
        scheduler.add(one)
    assert [one.slot for one in sequences] == [0, 1, 2, 3, None, None]
    scheduler.remove(sequences[2])
    assert [one.slot for one in sequences] == [0, 1, None, 3, 2, None]
    assert scheduler.waiting == 1


def carry_out_on(cache: dict[int, list[int]], operations: Iterable[CacheOperation]) -> None:
    """What operations do to what each slot holds."""
    for operation in operations:
        match operation:
            case Move(source, target, length):
                cache[target] = cache.pop(source, [])[:length]
                assert len(cache[target]) == length
            case Copy(source, target, length):
                cache[target] = cache[source][:length]
                assert len(cache[target]) == length
            case Trim(slot, length):
                cache[slot] = cache[slot][:length]
                assert len(cache[slot]) == length
            case Release(slot):
                cache.pop(slot, None)


def prompts_that_share_beginnings(rng: random.Random, count: int) -> list[Sequence]:
    beginnings = [[rng.randrange(99) for _ in range(60)] for _ in range(3)]
    prompts = [
        [*rng.choice(beginnings)[: rng.randint(0, 60)], *range(rng.randint(1, 30))]
        for _ in range(count)
    ]
    return [
        Sequence(
            tuple(prompt), SamplingParams(max_tokens=rng.randint(1, 12)), index=0, max_length=1000,
            salt=rng.choice("ab"),
        )
        for prompt in prompts
    ]  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(1, 5),
    st.integers(0, 4),
    st.sampled_from([0, 50, 150, 10_000]),
)
def test_every_sequence_is_computed_once_in_order_and_ends(
    seed: int, slots: int, spare: int, kept: int
) -> None:
    """Whatever joins, leaves or is given up: no token is skipped, computed twice or misplaced."""
    rng = random.Random(seed)
    scheduler = Scheduler(
        SchedulerConfig(
            max_seqs=slots, prefill_chunk=16, max_waiting=99,
            max_kept_bytes=kept, spare_slots=spare,
        )
    )  # fmt: skip
    # What each slot's cache would hold: the tokens computed into it.
    cache: dict[int, list[int]] = {}
    open_sequences: set[Sequence] = set()
    to_come = prompts_that_share_beginnings(rng, 14)
    for _ in range(3000):
        if to_come and rng.random() < 0.4:
            one = to_come.pop()
            scheduler.add(one)
            open_sequences.add(one)
        if open_sequences and rng.random() < 0.02:
            given_up = rng.choice(sorted(open_sequences, key=lambda s: s.id))
            scheduler.remove(given_up)
            open_sequences.discard(given_up)
        step = scheduler.schedule()
        if step is None:
            carry_out_on(cache, scheduler.take_operations())
            if not to_come:
                break
            continue
        carry_out_on(cache, step.moves)
        assert step.first_slot + len(step.rows) <= slots
        for position, row in enumerate(step.rows):
            if row is None or not row.new:
                continue
            slot = step.first_slot + position
            assert row.sequence.slot == slot
            assert row.past >= row.sequence.num_cached
            held = cache.get(slot, [])[: row.past] if row.past else []
            held += row.sequence.tokens(row.past, row.past + row.new)
            assert held == row.sequence.tokens(0, row.past + row.new)
            cache[slot] = held
        open_sequences.difference_update(carry_out(scheduler, step))
    assert not open_sequences
    assert not scheduler.has_work
    assert scheduler.kept_tokens <= kept
    # Nothing but what is kept holds memory. What a reused row had beyond its match is still there.
    assert sum(map(len, cache.values())) >= scheduler.kept_tokens
    assert bool(cache) == bool(scheduler.kept_tokens)


# --- beginnings that others have computed ---------------------------------------------------------

KEEPING = SchedulerConfig(max_seqs=3, prefill_chunk=64, max_kept_bytes=1000)


def asks(*tokens: int, salt: str = "") -> Sequence:
    return Sequence(tokens, SamplingParams(max_tokens=1), 0, 1000, salt=salt)


def run(scheduler: Scheduler, one: Sequence) -> Sequence:
    """From its arrival to its end."""
    scheduler.add(one)
    while not one.is_finished:
        step = scheduler.schedule()
        assert step is not None
        carry_out(scheduler, step)
    return one


def test_a_second_turn_computes_only_what_is_new() -> None:
    scheduler = Scheduler(KEEPING)
    first = run(scheduler, asks(*range(40)))
    second = run(scheduler, asks(*range(40), 7, 50, 51))
    # The answer's token was drawn, but never computed.
    assert (first.num_cached, second.num_cached) == (0, 40)


@pytest.mark.parametrize(("prompt", "cached"), [(39, 37), (40, 38), (41, 39), (42, 40), (43, 40)])
def test_the_last_tokens_of_a_prompt_are_computed_together(prompt: int, cached: int) -> None:
    """The kernels round otherwise where a step is one token wide."""
    scheduler = Scheduler(KEEPING)
    run(scheduler, asks(*range(40)))
    assert run(scheduler, asks(*range(prompt))).num_cached == cached


@pytest.mark.parametrize("length", range(1, 60))
def test_no_piece_of_a_prompt_is_a_single_token(length: int) -> None:
    steps = prompt_steps(Scheduler(CONFIG), choice(*range(length)))
    pieces = [new for step in steps for _, new in step]
    assert sum(pieces) == length
    assert all(2 <= piece <= LARGEST for piece in pieces) or length == 1


def test_prefixes_are_shared_within_a_salt_alone() -> None:
    scheduler = Scheduler(KEEPING)
    run(scheduler, asks(*range(40), salt="a"))
    assert run(scheduler, asks(*range(40), 1, 1, salt="b")).num_cached == 0
    assert run(scheduler, asks(*range(40), 1, 1, salt="a")).num_cached == 40


def test_a_running_row_lends_its_beginning() -> None:
    scheduler = Scheduler(KEEPING)
    running = Sequence(tuple(range(40)), SamplingParams(max_tokens=9), 0, 1000)
    scheduler.add(running)
    carry_out(scheduler, scheduler.schedule())  # type: ignore[arg-type]
    late = asks(*range(30), 99, 98)
    scheduler.add(late)
    step = scheduler.schedule()
    assert step is not None
    assert step.moves == (Copy(0, 1, 30),)
    assert late.num_cached == 30


def prompt_steps(scheduler: Scheduler, *sequences: Sequence) -> list[list[tuple[int, int]]]:
    """Past and new tokens of each step's rows, until all have drawn."""
    for one in sequences:
        scheduler.add(one)
    steps = []
    while not all(one.output_ids for one in sequences):
        step = scheduler.schedule()
        assert step is not None
        steps.append([(row.past, row.new) for row in step.active])
        carry_out(scheduler, step)
    return steps


def choice(*tokens: int) -> Sequence:
    return Sequence(tokens, SamplingParams(max_tokens=99), 0, 1000)


def test_choices_of_one_prompt_compute_it_once() -> None:
    choices = [choice(*range(100)) for _ in range(3)]
    steps = prompt_steps(Scheduler(KEEPING), *choices)
    assert sum(new for step in steps for past, new in step if past < 98) == 100
    assert [one.num_cached for one in choices] == [0, 98, 98]


def test_short_prompts_that_share_a_long_beginning_do_not_share_a_step() -> None:
    first, second = choice(*range(20)), choice(*range(20), 7, 8)
    prompt_steps(Scheduler(KEEPING), first, second)
    assert (first.num_cached, second.num_cached) == (0, 20)


def test_short_prompts_share_a_step_behind_what_each_has_of_their_beginning() -> None:
    scheduler = Scheduler(KEEPING)
    run(scheduler, asks(*range(40)))
    steps = prompt_steps(scheduler, choice(*range(40), 50, 51), choice(*range(40), 60, 61))
    assert steps[0] == [(40, 2), (40, 2)]


def test_without_a_prefix_cache_every_choice_computes_its_prompt() -> None:
    choices = [choice(*range(100)) for _ in range(2)]
    prompt_steps(Scheduler(SchedulerConfig(max_seqs=3, prefill_chunk=64)), *choices)
    assert [one.num_cached for one in choices] == [0, 0]


def test_a_beginning_that_many_share_outlives_each_of_them() -> None:
    scheduler = Scheduler(KEEPING)
    run(scheduler, asks(*range(60), *range(200, 400)))
    for number in range(5):
        assert run(scheduler, asks(*range(60), 500 + number, 1)).num_cached == 60


def test_what_failed_is_not_kept() -> None:
    scheduler = Scheduler(KEEPING)
    failed = asks(*range(40))
    scheduler.add(failed)
    failed.num_computed = 40
    scheduler.remove(failed, keep=False)
    assert scheduler.kept_tokens == 0
    assert scheduler.take_operations() == (Release(0),)


def test_operations_wait_for_whoever_carries_them_out() -> None:
    scheduler = Scheduler(CONFIG)
    one = sequence(3)
    scheduler.add(one)
    scheduler.remove(one)
    assert scheduler.schedule() is None
    assert scheduler.take_operations() == (Release(0),)


def test_the_row_that_was_used_longest_ago_goes_first() -> None:
    scheduler = Scheduler(SchedulerConfig(max_seqs=3, prefill_chunk=64, max_kept_bytes=100))
    for start in (0, 1000, 2000):
        run(scheduler, asks(*range(start, start + 40)))
    assert scheduler.kept_tokens == 80
    assert run(scheduler, asks(*range(1000, 1040), 1, 1)).num_cached == 40
    assert run(scheduler, asks(*range(40), 1, 1)).num_cached == 0


@pytest.mark.parametrize(("spare", "all_found"), [(0, False), (2, False), (3, True), (9, True)])
def test_more_conversations_are_kept_than_run_at_once(spare: int, all_found: bool) -> None:
    """Four that take turns, with two slots: each needs a place beside the one that runs."""
    config = SchedulerConfig(max_seqs=2, spare_slots=spare, prefill_chunk=64, max_kept_bytes=1000)
    scheduler = Scheduler(config)
    starts = [1000 * number for number in range(4)]
    for start in starts:
        run(scheduler, asks(*range(start, start + 40)))
    again = [run(scheduler, asks(*range(start, start + 40), 1, 1)) for start in starts]
    assert all(one.num_cached == 40 for one in again) == all_found


def test_spare_slots_are_nobodys_to_run_in() -> None:
    config = SchedulerConfig(max_seqs=2, spare_slots=3, prefill_chunk=64, max_kept_bytes=1000)
    scheduler = Scheduler(config)
    sequences = [asks(number) for number in range(4)]
    for one in sequences:
        scheduler.add(one)
    assert [one.slot for one in sequences] == [0, 1, None, None]
    assert scheduler.waiting == 2


def test_a_row_that_is_taken_over_gives_back_what_the_match_does_not_need() -> None:
    scheduler = Scheduler(KEEPING)
    run(scheduler, asks(*range(60)))
    taker = asks(*range(50), 99, 98)
    scheduler.add(taker)
    step = scheduler.schedule()
    assert step is not None
    assert step.moves == (Trim(0, 50),)
    assert (taker.slot, taker.num_cached, scheduler.kv_bytes) == (0, 50, 52)


@pytest.mark.parametrize("at_once", [1, 2])
def test_conversations_that_share_a_long_beginning_keep_their_own_rests(at_once: int) -> None:
    config = SchedulerConfig(max_seqs=2, spare_slots=4, prefill_chunk=256, max_kept_bytes=1000)
    scheduler = Scheduler(config)
    system = [*range(100)]
    turns = [[*system, *range(start, start + 40)] for start in (1000, 2000)]
    for turn in turns:
        run(scheduler, asks(*turn))
    again = [asks(*turn, 1, 1) for turn in turns]
    for start in range(0, 2, at_once):
        for one in again[start : start + at_once]:
            scheduler.add(one)
        while scheduler.has_work:
            step = scheduler.schedule()
            assert step is not None
            carry_out(scheduler, step)
    assert [one.num_cached for one in again] == [140, 140]


def test_most_of_a_row_is_taken_over_where_a_copy_would_push_out_another() -> None:
    config = SchedulerConfig(
        max_seqs=2, spare_slots=4, prefill_chunk=64, max_kept_bytes=1000, max_kv_bytes=120
    )
    scheduler = Scheduler(config)
    run(scheduler, asks(*range(1000, 1040)))
    run(scheduler, asks(*range(60)))
    assert run(scheduler, asks(*range(40), 99, 98)).num_cached == 40
    assert run(scheduler, asks(*range(1000, 1040), 1, 1)).num_cached == 40


def test_conversations_that_go_on_all_at_once_need_their_memory_once() -> None:
    """Each takes over the row that it left, wherever that is: copies would push out the others'."""
    config = SchedulerConfig(
        max_seqs=4, spare_slots=4, prefill_chunk=64, max_kept_bytes=1000, max_kv_bytes=4 * 44
    )
    scheduler = Scheduler(config)
    starts = [1000 * number for number in range(4)]
    for start in starts:
        run(scheduler, asks(*range(start, start + 40)))
    again = [asks(*range(start, start + 40), 1, 1) for start in reversed(starts)]
    for one in again:
        scheduler.add(one)
    assert [one.num_cached for one in again] == [40] * 4
    assert scheduler.kv_bytes <= 4 * 44


# --- memory ---------------------------------------------------------------------------------------


def little_memory(tokens: int, **bounds: int) -> Scheduler:
    """A row takes one byte a token."""
    return Scheduler(SchedulerConfig(max_seqs=4, max_kv_bytes=tokens, **bounds))


def test_a_slot_is_of_no_use_without_memory_for_all_tokens_and_some_more() -> None:
    scheduler = little_memory(100)
    first, second, third = (sequence(prompt, answer=5) for prompt in (60, 30, 1))
    for one in (first, second, third):
        scheduler.add(one)
    # 65 + 35 are 100; the third waits, and would not be let pass if it were the smallest of all.
    assert [one.slot for one in (first, second, third)] == [0, 1, None]
    scheduler.remove(second)
    assert third.slot == 1


def test_nobody_overtakes_one_who_waits_for_memory() -> None:
    scheduler = little_memory(100)
    for one in (sequence(60), sequence(60), sequence(1)):
        scheduler.add(one)
    assert scheduler.waiting == 2


def test_a_queue_for_memory_is_a_queue() -> None:
    """Slots that are free for want of memory are no room."""
    scheduler = little_memory(100, max_waiting=1)
    for _ in range(2):
        scheduler.check_room(1, 60)
        scheduler.add(sequence(60))
    with pytest.raises(QueueFullError):
        scheduler.check_room(1, 1)


def test_kept_rows_go_before_anyone_is_preempted_the_oldest_first() -> None:
    scheduler = little_memory(100, max_kept_bytes=100)
    for start in (0, 1000, 2000):
        run(scheduler, asks(*range(start, start + 30)))
    run(scheduler, asks(*range(30), 1, 1))  # The first is used again, and so the second the oldest.
    run(scheduler, asks(*range(5000, 5039)))
    assert run(scheduler, asks(*range(30), 2, 2)).num_cached == 30
    assert run(scheduler, asks(*range(1000, 1030), 2)).num_cached == 0
    assert scheduler.preemptions == 0


def test_the_newest_gives_its_memory_to_older_ones_and_is_the_next_to_run() -> None:
    scheduler = little_memory(100)
    old, new, late = (sequence(8, answer=answer) for answer in (80, 60, 10))
    for one in (old, new):
        scheduler.add(one)
    while not scheduler.preemptions:
        step = scheduler.schedule()
        assert step is not None
        carry_out(scheduler, step)
    scheduler.add(late)
    assert (old.slot, new.slot, new.num_computed, late.slot) == (0, None, 0, None)
    drawn = list(new.output_ids)
    assert len(drawn) > 30
    scheduler.remove(old)
    assert (new.slot, late.slot) == (0, 1)
    step = scheduler.schedule()
    assert step is not None
    row = next(iter(step.active))
    assert (row.sequence, row.past, row.new, row.draws) == (new, 0, 8 + len(drawn), True)


def test_a_sequence_that_is_too_large_for_all_memory_is_a_bug_and_no_endless_loop() -> None:
    scheduler = little_memory(10)
    scheduler.add(sequence(11))
    with pytest.raises(RuntimeError, match="of 11 tokens alone exceeds"):
        scheduler.schedule()
