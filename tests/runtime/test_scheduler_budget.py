"""The scheduler with little memory, against a model of it: sequences come, go and are given up.

The model knows only which tokens each slot's memory must hold and how many bytes that is.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mrs.runtime.cache_operations import CacheOperation, Copy, Move, Release, Trim
from mrs.runtime.generation import FinishReason, SamplingParams
from mrs.runtime.scheduler import TAIL, Scheduler, SchedulerConfig
from mrs.runtime.sequence import Sequence
from mrs.runtime.step import Step

PAGE = 8
LONGEST = 160
BEGINNINGS = [tuple(range(start, start + 40)) for start in (100, 200)]


def pages(tokens: int) -> int:
    """A page is one byte here."""
    return -(-tokens // PAGE)


class SchedulerMachine(RuleBasedStateMachine):
    """Steps are carried out as the engine does it; each answer ends at its ``max_tokens``."""

    @initialize(
        slots=st.integers(1, 6),
        budget=st.integers(pages(LONGEST), 2 * pages(LONGEST)),
        kept=st.sampled_from([0, 8, 100]),
        chunk=st.sampled_from([4, 16]),
        max_logits=st.sampled_from([5, 1000]),
    )
    def start(self, slots: int, budget: int, kept: int, chunk: int, max_logits: int) -> None:
        self.budget = budget
        self.scheduler = Scheduler(
            SchedulerConfig(
                slots, chunk, max_kv_bytes=budget, max_kept_bytes=kept, row_bytes=pages,
                max_logits=max_logits,
            )
        )  # fmt: skip
        self.memory: dict[int, list[int]] = {}
        self.open: list[Sequence] = []
        self.was_prefill = False

    @rule(
        beginning=st.sampled_from(BEGINNINGS),
        shared=st.integers(0, 40),
        own=st.integers(1, 12),
        answer=st.one_of(st.integers(1, 4), st.integers(60, 120)),
        scored=st.booleans(),
        count=st.integers(1, 4),
    )
    def add(
        self,
        beginning: tuple[int, ...],
        shared: int,
        own: int,
        answer: int,
        scored: bool,
        count: int,
    ) -> None:
        prompt = beginning[:shared] + tuple(range(own))
        answer = min(answer, LONGEST - len(prompt))
        sampling = SamplingParams(max_tokens=answer, prompt_logprobs=0 if scored else None)
        for _ in range(count):
            sequence = Sequence(prompt, sampling, 0, LONGEST)
            self.scheduler.add(sequence)
            self.open.append(sequence)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), keep=st.booleans())
    def give_up(self, data: st.DataObject, keep: bool) -> None:
        sequence = data.draw(st.sampled_from(self.open))
        self.scheduler.remove(sequence, keep=keep)
        self.open.remove(sequence)

    @rule(count=st.integers(1, 60))
    def step(self, count: int) -> None:
        for _ in range(count):
            self.one_step()

    def one_step(self) -> None:
        before = {sequence: sequence.num_computed for sequence in self.scheduler.running}
        oldest = min(before, key=lambda sequence: sequence.arrival, default=None)
        step = self.scheduler.schedule()
        if step is None:
            assert not self.open
            self.carry_out(self.scheduler.take_operations())
            return
        self.carry_out(step.moves)
        assert oldest is not None, "nobody ran though somebody was there"
        assert oldest in self.scheduler.running, "the oldest was preempted"
        self.check_turns(step)
        for position, row in enumerate(step.rows):
            if row is not None and row.new:
                self.compute(step.first_slot + position, step, row)
        assert self.scheduler.kv_bytes <= self.budget
        self.end_those_who_are_done(step)

    def check_turns(self, step: Step) -> None:
        """Prompts never twice in a row while somebody decodes, and no more than a chunk of them."""
        active = list(step.active)
        prefill = any(row.sequence.is_prefilling for row in active)
        others = [s for s in self.scheduler.running if not s.is_prefilling]
        if prefill:
            assert not (self.was_prefill and others)
            padded = len(active) * max(row.new for row in active)
            chunk = self.scheduler.config.prefill_chunk
            assert padded <= chunk + (chunk // TAIL if len(active) == 1 else 0)
            oldest = min(
                (s for s in self.scheduler.running if s.is_prefilling), key=lambda s: s.arrival
            )
            assert active[0].sequence is oldest
        else:
            assert [row.sequence for row in active] == others
        assert sum(row.wanted for row in active) <= max(
            self.scheduler.config.max_logits, self.scheduler.config.max_seqs
        )
        self.was_prefill = prefill

    def compute(self, slot: int, step: Step, row) -> None:  # type: ignore[no-untyped-def]
        sequence = row.sequence
        held = self.memory.get(slot, [])
        tokens = sequence.tokens(0, row.past + row.new)
        assert sequence.slot == slot
        assert held[: row.past] == tokens[: row.past]
        self.memory[slot] = tokens + held[len(tokens) :]
        for position in range(row.past + row.new - row.wanted, row.past + row.new - row.draws):
            assert position == sequence.num_scored
            sequence.num_scored += 1

    def end_those_who_are_done(self, step: Step) -> None:
        for row in step.active:
            sequence = row.sequence
            sequence.num_computed += row.new
            sequence.furthest = max(sequence.furthest, sequence.num_computed)
            if not row.draws:
                continue
            if sequence.sampling.prompt_logprobs is not None:
                assert sequence.num_scored == len(sequence.prompt_ids) - 1
            sequence.output_ids.append(7)
            if sequence.length == sequence.longest:
                sequence.finish_reason = FinishReason.LENGTH
                self.scheduler.remove(sequence)
                self.open.remove(sequence)

    def carry_out(self, operations: tuple[CacheOperation, ...]) -> None:
        memory = self.memory
        for operation in operations:
            match operation:
                case Move(source, target, length):
                    assert not memory.get(target)
                    memory[target] = memory.pop(source, [])[:length]
                    assert len(memory[target]) == length
                case Copy(source, target, length):
                    # What is there is a shorter beginning of the same, if anything.
                    assert pages(len(memory.get(target, []))) <= pages(length)
                    memory[target] = memory[source][:length]
                    assert len(memory[target]) == length
                    # Never more than there may be, not even for a moment.
                    assert self.touched() <= self.budget
                case Trim(slot, length):
                    memory[slot] = memory[slot][: pages(length) * PAGE]
                case Release(slot):
                    memory.pop(slot, None)

    def touched(self) -> int:
        return sum(pages(len(tokens)) for tokens in self.memory.values())

    @invariant()
    def memory_is_what_is_told_and_within_the_budget(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        self.carry_out(self.scheduler.take_operations())
        assert self.touched() == self.scheduler.kv_bytes <= self.budget

    @invariant()
    def who_came_first_runs_first(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        running = {s.arrival for s in self.open if s.slot is not None}
        waiting = {s.arrival for s in self.open if s.slot is None}
        assert max(running, default=-1) < min(waiting, default=1 << 30)
        assert self.scheduler.waiting == len(waiting)
        assert bool(running) or not waiting

    def teardown(self) -> None:
        """Everyone who is left ends, and leaves nothing."""
        if not hasattr(self, "scheduler"):
            return
        for _ in range(30_000):
            if not self.open:
                break
            self.one_step()
        assert not self.open
        assert not self.scheduler.has_work
        self.carry_out(self.scheduler.take_operations())
        self.scheduler.check_idle()
        kept = self.scheduler.config.max_kept_bytes
        assert self.touched() <= (kept + len(self.memory) if kept else 0)


SchedulerMachine.TestCase.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None
)
test_little_memory = SchedulerMachine.TestCase
