"""The engine around a model that can be computed by hand: answers, bounds, cancelling, failures."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrs.errors import (
    ContextLengthExceededError,
    EngineError,
    InvalidValueError,
    QueueFullError,
    RequestTimeoutError,
    ShuttingDownError,
)
from mrs.runtime.generation import FinishReason, GenerationRequest, SamplingParams
from mrs.runtime.scheduler import SchedulerConfig
from mrs.runtime.step import Step
from mrs.runtime.ticket import Published, Ticket
from tests.runtime import fake_runner
from tests.runtime.fake_runner import (
    EOS,
    TIMEOUT,
    VOCAB,
    Driver,
    Gate,
    expected,
    next_token,
    running,
    text_of,
)

LONG = tuple(range(1, 41))
PAGE = 16 * 512
"""Bytes that 16 tokens take in the fake model's cache."""


def rows(step: Step) -> list[tuple[int, int]]:
    """Past and new tokens of the rows that compute something."""
    return [(row.past, row.new) for row in step.active]


# --- answers --------------------------------------------------------------------------------------


def test_an_answer_is_what_the_model_says_token_by_token() -> None:
    with running(Driver()) as driver:
        deltas = driver.finish(driver.submit((5, 6, 7), max_tokens=6))
    answer = expected((5, 6, 7), 6)
    assert [delta.token_ids for delta in deltas] == [(token,) for token in answer]
    assert "".join(delta.text for delta in deltas) == text_of(answer)
    assert [delta.finish_reason for delta in deltas] == [None] * 5 + [FinishReason.LENGTH]


def test_one_token_is_one_delta() -> None:
    with running(Driver()) as driver:
        (delta,) = driver.finish(driver.submit(LONG, max_tokens=1))
    assert delta.token_ids == tuple(expected(LONG, 1))
    assert delta.finish_reason is FinishReason.LENGTH


@pytest.mark.parametrize("prompt", [1, 2, 62, 63])
def test_an_answer_fills_the_context_to_its_last_position(prompt: int) -> None:
    with running(Driver(max_length=64)) as driver:
        ticket = driver.submit(range(1, prompt + 1))
        tokens = driver.tokens(ticket)
    assert tokens == expected(range(1, prompt + 1), 64 - prompt)
    assert driver.deltas(ticket)[-1].finish_reason is FinishReason.LENGTH


def test_the_end_of_sequence_token_ends_the_answer_and_has_no_text() -> None:
    with running(Driver()) as driver:
        driver.runner.on_logits = lambda step, logits: _say_eos_after(driver, step, logits, 3)
        deltas = driver.finish(driver.submit((1,), max_tokens=9))
    assert [delta.token_ids for delta in deltas] == [(t,) for t in expected((1,), 3)] + [(EOS,)]
    assert (deltas[-1].text, deltas[-1].finish_reason) == ("", FinishReason.STOP)


def test_the_end_of_sequence_token_can_be_ignored() -> None:
    with running(Driver()) as driver:
        driver.runner.on_logits = lambda step, logits: _say_eos_after(driver, step, logits, 3)
        deltas = driver.finish(driver.submit((1,), max_tokens=9, ignore_eos=True))
    assert [delta.token_ids[0] for delta in deltas][3] == EOS
    assert len(deltas) == 9
    assert deltas[-1].finish_reason is FinishReason.LENGTH


def _say_eos_after(driver: Driver, step: Step, logits: np.ndarray, count: int) -> None:
    for row, values in zip((row for row in step.active if row.draws), logits, strict=True):
        if len(row.sequence.output_ids) == count:
            values[EOS] = 99.0


def test_a_stop_string_over_several_tokens_ends_the_answer_before_it() -> None:
    text = text_of(expected((1,), 12))
    with running(Driver()) as driver:
        deltas = driver.finish(driver.submit((1,), max_tokens=20, stop=(text[5:8],)))
    assert "".join(delta.text for delta in deltas) == text[: text.index(text[5:8])]
    assert deltas[-1].finish_reason is FinishReason.STOP
    assert len(deltas) == text.index(text[5:8]) + 3


@pytest.mark.parametrize(("continues", "text"), [(True, " x x"), (False, "x x")])
def test_the_first_space_of_an_answer_is_part_of_it_where_it_continues_a_text(
    monkeypatch: pytest.MonkeyPatch, continues: bool, text: str
) -> None:
    monkeypatch.setattr(fake_runner, "PIECES", (b"", *[b" x"] * (VOCAB - 1)))
    with running(Driver()) as driver:
        sampling = SamplingParams(temperature=0.0, max_tokens=2)
        request = GenerationRequest((1, 2, 3), sampling, continues=continues)
        deltas = driver.finish(driver.engine.submit(request))
    assert "".join(delta.text for delta in deltas) == text


def test_choices_with_one_seed_differ_and_each_is_reproducible() -> None:
    request = {"temperature": 60.0, "seed": 11, "max_tokens": 12}
    with running(Driver()) as driver:
        three = driver.submit((1, 2), n=3, **request)
        answers = [driver.tokens(three, index) for index in range(3)]
        alone = driver.tokens(driver.submit((1, 2), **request))
    assert answers[0] == alone
    assert len(set(map(tuple, answers))) == 3


class ModelFailedError(Exception):
    """What the fake model fails with."""


BEGINNINGS = [[start + index % 7 for index in range(30)] for start in (1, 1, 40)]


class Hubbub:
    """Requests that join, are given up, and fail, by a seed; all of it on the engine thread."""

    def __init__(self, driver: Driver, seed: int) -> None:
        self.asked: list[tuple[Ticket, list[int], int]] = []
        self.over = threading.Event()
        self.held = [0]
        self._driver = driver
        self._rng = random.Random(seed)
        self._to_come = 12
        self.submit()
        driver.runner.on_step = self._interfere
        driver.on_publish = self._go_on

    def submit(self) -> None:
        rng = self._rng
        own = [rng.randrange(1, VOCAB) for _ in range(rng.randint(1, 20))]
        prompt = [*rng.choice(BEGINNINGS)[: rng.randint(0, 30)], *own]
        count = rng.randint(1, 12)
        ticket = self._driver.submit(prompt, rng.choice([1, 1, 2]), max_tokens=count)
        self.asked.append((ticket, prompt, count))
        self._to_come -= 1

    def _interfere(self, step: Step) -> None:
        if not self._driver.engine.ready:
            return
        self.held.append(self._driver.engine.stats().kv_bytes)
        while self._to_come and self._rng.random() < 0.4:
            self.submit()
        if self._rng.random() < 0.05:
            self._driver.engine.cancel(self._rng.choice(self.asked)[0])
        if self._rng.random() < 0.05:
            raise ModelFailedError

    def _go_on(self, published: Published) -> None:
        stats = self._driver.engine.stats()
        if stats.running or stats.waiting:
            return
        if self._to_come:
            self.submit()
        else:
            self.over.set()


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(1, 4),
    st.sampled_from([16, 4, 2]),
    st.sampled_from([0, 4, 32]),
    st.sampled_from([None, 4, 5, 7]),
    st.sampled_from([0, 3]),
)
def test_no_answer_depends_on_what_else_happens(
    seed: int, slots: int, chunk: int, kept: int, budget: int | None, spare: int
) -> None:
    """Requests join, are given up, fail, and lose their memory; the rest say what they say alone.

    Budgets are in pages of 16 tokens; the longest request needs 4.
    """
    kept, budget = kept * PAGE, None if budget is None else budget * PAGE
    config = SchedulerConfig(
        slots, chunk, max_kept_bytes=kept, max_kv_bytes=budget, spare_slots=spare
    )
    driver = Driver(config)
    hubbub = Hubbub(driver, seed)
    with running(driver):
        assert hubbub.over.wait(TIMEOUT)
        if not kept:
            driver.assert_idle()
        stats = driver.engine.stats()
        assert stats.kv_bytes <= kept
    assert budget is None or max(hubbub.held) <= budget
    for ticket, prompt, count in hubbub.asked:
        for index in range(len(ticket.sequences)):
            deltas = driver.deltas(ticket, index)
            reasons = [delta.finish_reason for delta in deltas]
            said = [token for delta in deltas for token in delta.token_ids]
            assert reasons[:-1] == [None] * (len(deltas) - 1)
            assert said == expected(prompt, count)[: len(said)]
            assert (len(said) == count) is (reasons[-1] is FinishReason.LENGTH)
            assert (reasons[-1] is FinishReason.ERROR) is (deltas[-1].error is not None)
            if deltas[-1].error is not None:
                assert isinstance(deltas[-1].error.__cause__, ModelFailedError)


def test_who_loses_the_memory_goes_on_where_it_was() -> None:
    driver = Driver(SchedulerConfig(max_seqs=3, prefill_chunk=16, max_kv_bytes=6 * PAGE))
    prompts = [tuple(range(start, start + 4)) for start in (1, 20, 40)]
    drawn = {"max_tokens": 50, "seed": 3, "temperature": 60.0, "ignore_eos": True}
    tickets = [driver.submit(prompt, **drawn) for prompt in prompts]
    with running(driver):
        crowded = [driver.tokens(ticket) for ticket in tickets]
        stats = driver.engine.stats()
        texts = ["".join(delta.text for delta in driver.deltas(ticket)) for ticket in tickets]
        assert stats.preemptions > 0
        assert stats.recomputed_tokens > 0
        assert (stats.prefilled_tokens, stats.generated_tokens) == (12, 150)
        alone = [driver.tokens(driver.submit(prompt, **drawn)) for prompt in prompts]
        driver.assert_idle()
    assert crowded == alone
    assert texts == [text_of(tokens) for tokens in alone]


# --- prompt logprobs ------------------------------------------------------------------------------


@pytest.mark.parametrize("max_logits", [1000, 5])
def test_every_token_of_a_prompt_but_the_first_has_a_logprob(max_logits: int) -> None:
    """Once, with the first token of the answer, however the prompt is cut into chunks."""
    kept = SchedulerConfig(2, 16, max_kept_bytes=9 * PAGE, max_logits=max_logits)
    with running(Driver(kept)) as driver:
        driver.tokens(driver.submit(LONG, max_tokens=3))
        deltas = driver.finish(driver.submit(LONG, max_tokens=3, prompt_logprobs=1))
    first, *others = [delta.prompt_logprobs for delta in deltas]
    assert [scored.token for scored in first] == list(LONG[1:])
    says = [next_token(LONG[:end]) for end in range(1, len(LONG))]
    assert [scored.top[0][0] for scored in first] == says
    # The fake model gives 50 to what it says and 0 to all else.
    assert [scored.logprob > -1 for scored in first] == [
        token == said for token, said in zip(LONG[1:], says, strict=True)
    ]
    assert others == [(), ()]
    assert max(sum(row.wanted for row in step.active) for step in driver.runner.steps) <= max(
        16, max_logits
    )
    assert deltas[0].cached_tokens == 0


def test_prompts_with_logprobs_and_without_share_steps() -> None:
    driver = Driver(SchedulerConfig(3, 16))
    tickets = [driver.submit(range(5), prompt_logprobs=asked) for asked in (None, 2, None)]
    with running(driver):
        answers = [driver.tokens(ticket)[:4] for ticket in tickets]
    assert answers == [expected(range(5), 4)] * 3
    assert [row.wanted for row in driver.runner.steps[1].active] == [1, 5, 1]


def test_a_prompt_whose_logits_are_no_numbers_fails_alone() -> None:
    driver = Driver(SchedulerConfig(2, 16))
    sick = driver.submit(LONG, prompt_logprobs=0)
    well = driver.submit((2,), max_tokens=9)

    def spoil(step: Step, logits: np.ndarray) -> None:
        if next(iter(step.active)).scored:
            logits[3] = np.nan

    driver.runner.on_logits = spoil
    with running(driver):
        assert_failed(driver, sick, FloatingPointError)
        assert driver.tokens(well) == expected((2,), 9)
        driver.assert_idle()


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "n", "sampling", "message"),
    [
        ((), 1, {}, "empty"),
        ((1, VOCAB), 1, {}, f"outside 0..{VOCAB - 1}"),
        ((-1,), 1, {}, f"outside 0..{VOCAB - 1}"),
        ((1,), 0, {}, "'n' is 0"),
        ((1,), 1, {"max_tokens": 0}, "'max_tokens' is 0"),
        ((1,), 1, {"temperature": -0.5}, "'temperature' is -0.5"),
        ((1,), 1, {"temperature": float("nan")}, "'temperature' is nan"),
        ((1,), 1, {"temperature": float("inf")}, "'temperature' is inf"),
        ((1,), 1, {"top_p": 1.5}, "'top_p' is 1.5"),
        ((1,), 1, {"top_p": float("nan")}, "'top_p' is nan"),
        ((1,), 1000, {}, "1000 choices are asked for; 259 can run or wait"),
    ],
)
def test_values_that_cannot_be_honoured_are_refused(prompt, n, sampling, message) -> None:
    driver = Driver()
    with pytest.raises(InvalidValueError, match=message):
        driver.submit(prompt, n, **sampling)
    driver.assert_idle()


@pytest.mark.parametrize(("prompt", "max_tokens", "needed"), [(64, None, 65), (60, 5, 65)])
def test_what_never_fits_is_refused_with_both_numbers(prompt, max_tokens, needed) -> None:
    with pytest.raises(ContextLengthExceededError, match=f"holds 64 tokens; .* needs {needed}"):
        Driver(max_length=64).submit([1] * prompt, max_tokens=max_tokens)


def test_an_answer_to_a_truncated_prompt_is_that_to_its_end() -> None:
    long = tuple(range(1, 91))
    with running(Driver(max_length=64)) as driver:
        params = SamplingParams(temperature=0.0, max_tokens=10)
        ticket = driver.engine.submit(GenerationRequest(long, params, truncate=True))
        assert driver.tokens(ticket) == expected(long[-54:], 10)
    assert {delta.dropped_tokens for delta in driver.deltas(ticket)} == {36}


def test_what_just_fits_is_taken() -> None:
    with running(Driver(max_length=64)) as driver:
        assert len(driver.tokens(driver.submit([1] * 60, max_tokens=4))) == 4


def test_a_request_that_cannot_be_prepared_is_its_callers_problem() -> None:
    with running(Driver()) as driver:
        with pytest.raises(TypeError):
            driver.submit((1,), stop=(5,))
        assert driver.tokens(driver.submit((1,), max_tokens=2)) == expected((1,), 2)


# --- the queue ------------------------------------------------------------------------------------

SMALL = SchedulerConfig(max_seqs=2, max_waiting=3, max_waiting_tokens=20)


def test_a_burst_fills_slots_and_queue_exactly() -> None:
    driver = Driver(SMALL)
    for _ in range(5):
        driver.submit((1,))
    stats = driver.engine.stats()
    assert (stats.running, stats.waiting, stats.slots) == (2, 3, 2)
    with pytest.raises(QueueFullError, match="3 requests are waiting; the queue holds 3"):
        driver.submit((1,))


def test_choices_that_find_a_slot_do_not_count_as_waiting() -> None:
    driver = Driver(SMALL)
    driver.submit((1,), n=5)
    assert driver.engine.stats().waiting == 3


def test_many_threads_cannot_overfill_the_queue() -> None:
    driver = Driver(SMALL)
    start = threading.Barrier(16)

    def submit(_: int) -> bool:
        start.wait(TIMEOUT)
        try:
            driver.submit((1,))
        except QueueFullError:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(submit, range(16))) == 5


def test_choices_are_taken_all_or_none() -> None:
    driver = Driver(SMALL)
    driver.submit((1,), n=3)
    with pytest.raises(QueueFullError):
        driver.submit((1,), n=3)
    assert driver.engine.stats().waiting == 1
    driver.submit((1,), n=2)
    assert driver.engine.stats().waiting == 3


def test_more_choices_than_places_are_never_taken() -> None:
    driver = Driver(SMALL)
    with pytest.raises(InvalidValueError, match="6 choices are asked for; 5 can run or wait"):
        driver.submit((1,), n=6)


@pytest.mark.parametrize(("prompt", "n"), [(10, 1), (6, 2)])
def test_waiting_prompts_are_bounded_together_whatever_the_burst(prompt: int, n: int) -> None:
    driver = Driver(SMALL)
    driver.submit([1] * 30, n=2)
    driver.submit([1] * 11)
    with pytest.raises(QueueFullError, match="11 prompt tokens are waiting; the queue holds 20"):
        driver.submit([1] * prompt, n)
    driver.submit([1] * 9)


def test_a_prompt_longer_than_the_queue_may_wait_alone() -> None:
    driver = Driver(SMALL)
    driver.submit((1,), n=2)
    driver.submit([1] * 30)
    assert driver.engine.stats().waiting == 1


def test_a_waiting_request_that_is_given_up_makes_room() -> None:
    with running(Driver(SMALL)) as driver:
        gate = Gate(driver)
        tickets = [driver.submit((1,)) for _ in range(5)]
        gate.step()
        driver.engine.cancel(tickets[3])
        gate.release()
        gate.step()
        driver.submit((1,))
        gate.open()


def test_the_queue_is_served_in_order() -> None:
    driver = Driver(SchedulerConfig(max_seqs=1))
    tickets = [driver.submit((index,), max_tokens=2) for index in (3, 1, 2)]
    with running(driver):
        for ticket in tickets:
            driver.finish(ticket)
    order = [ticket for published in driver.published for ticket, _ in published]
    assert order == [ticket for ticket in tickets for _ in range(2)]


# --- giving up ------------------------------------------------------------------------------------


def test_a_cancelled_answer_leaves_its_slot_before_the_next_step() -> None:
    driver = Driver()
    gate = Gate(driver)
    goes, stays = (driver.submit((token,), max_tokens=9) for token in (1, 2))
    with running(driver):
        assert rows(gate.step()) == [(0, 1), (0, 1)]
        driver.engine.cancel(goes)
        gate.release()
        assert [row.sequence for row in gate.step().active] == stays.sequences
        assert driver.finish(goes)[-1].finish_reason is FinishReason.CANCELLED
        gate.open()
        assert driver.tokens(stays) == expected((2,), 9)
        driver.assert_idle()


def test_a_prompt_can_be_given_up_between_its_chunks() -> None:
    with running(Driver()) as driver:
        gate = Gate(driver)
        ticket = driver.submit(LONG)
        assert rows(gate.step()) == [(0, 16)]
        driver.engine.cancel(ticket)
        gate.open()
        (delta,) = driver.finish(ticket)
        assert (delta.finish_reason, delta.token_ids) == (FinishReason.CANCELLED, ())
        driver.assert_idle()
    assert len(driver.runner.steps) == 2  # The warm-up's and this one.


def test_a_waiting_request_can_be_given_up() -> None:
    with running(Driver(SchedulerConfig(max_seqs=1))) as driver:
        gate = Gate(driver)
        runs, waits = driver.submit((1,), max_tokens=2), driver.submit((2,))
        gate.step()
        driver.engine.cancel(waits)
        gate.release()
        gate.step()
        assert driver.deltas(waits)[-1].finish_reason is FinishReason.CANCELLED
        gate.open()
        assert driver.tokens(runs) == expected((1,), 2)


def test_a_request_can_be_given_up_before_the_engine_has_seen_it() -> None:
    driver = Driver()
    ticket = driver.submit((1,))
    driver.engine.cancel(ticket)
    with running(driver):
        (delta,) = driver.finish(ticket)
        driver.assert_idle()
    assert delta.finish_reason is FinishReason.CANCELLED


def test_giving_up_twice_or_after_the_end_changes_nothing() -> None:
    with running(Driver()) as driver:
        ended = driver.submit((1,), max_tokens=1)
        driver.finish(ended)
        driver.engine.cancel(ended)
        given_up = driver.submit((2,))
        for _ in range(2):
            driver.engine.cancel(given_up)
        driver.finish(given_up)
        driver.engine.cancel(given_up)
        assert driver.tokens(driver.submit((3,), max_tokens=2)) == expected((3,), 2)
        driver.assert_idle()
    assert [delta.finish_reason for delta in driver.deltas(ended)] == [FinishReason.LENGTH]
    reasons = [delta.finish_reason for delta in driver.deltas(given_up)]
    assert reasons.count(FinishReason.CANCELLED) == 1


def test_the_callback_may_give_up_what_it_is_told_of() -> None:
    driver = Driver()

    def give_up(published: Published) -> None:
        for ticket, _ in published:
            driver.engine.cancel(ticket)

    driver.on_publish = give_up
    with running(driver):
        deltas = driver.finish(driver.submit((1,), max_tokens=9))
    assert [delta.finish_reason for delta in deltas] == [None, FinishReason.CANCELLED]


def test_every_choice_of_a_cancelled_request_ends_once() -> None:
    with running(Driver(SchedulerConfig(max_seqs=2))) as driver:
        gate = Gate(driver)
        ticket = driver.submit((1, 2), n=4, max_tokens=5)
        gate.step()
        gate.release()
        gate.step()
        driver.engine.cancel(ticket)
        gate.open()
        endings = [driver.finish(ticket, index)[-1].finish_reason for index in range(4)]
        driver.assert_idle()
    assert endings == [FinishReason.CANCELLED] * 4


# --- failures -------------------------------------------------------------------------------------


def assert_failed(driver: Driver, ticket: Ticket, cause: type[Exception]) -> None:
    delta = driver.finish(ticket)[-1]
    assert delta.finish_reason is FinishReason.ERROR
    assert isinstance(delta.error, EngineError)
    assert isinstance(delta.error.__cause__, cause)


def test_a_failing_step_fails_its_own_sequences_and_frees_their_slots() -> None:
    with running(Driver()) as driver:
        gate = Gate(driver)
        ticket = driver.submit((1,), n=2)
        gate.step()
        gate.release(RuntimeError("out of memory"))
        assert_failed(driver, ticket, RuntimeError)
        driver.assert_idle()
        assert driver.engine.ready
        after = driver.submit((2,), max_tokens=3)
        gate.step()
        gate.open()
        assert driver.tokens(after) == expected((2,), 3)


def test_a_failing_prefill_leaves_those_alone_that_decode() -> None:
    with running(Driver()) as driver:
        gate = Gate(driver)
        decodes = driver.submit((1,), max_tokens=6)
        gate.step()
        prefills = driver.submit(LONG)
        gate.release()
        assert rows(gate.step()) == [(1, 1)]
        gate.release()
        assert rows(gate.step()) == [(0, 16)]
        gate.release(RuntimeError("no"))
        assert_failed(driver, prefills, RuntimeError)
        gate.open()
        assert driver.tokens(decodes) == expected((1,), 6)
        driver.assert_idle()


def test_a_failing_step_does_not_lose_the_cache_that_was_moved_for_it() -> None:
    """A half-computed prompt is moved to another slot by the very step that fails for others."""
    driver = Driver()
    gate = Gate(driver)
    first, second = (driver.submit((token,), max_tokens=9) for token in (1, 2))
    with running(driver):
        gate.step()
        long = driver.submit(LONG, max_tokens=4)
        gate.release()
        assert rows(gate.step()) == [(1, 1), (1, 1)]
        gate.release()
        assert rows(gate.step()) == [(0, 16)]
        driver.engine.cancel(first)
        gate.release()
        step = gate.step()
        assert [(move.source, move.target, move.length) for move in step.moves] == [(2, 0, 16)]
        gate.release(RuntimeError("no"))
        assert_failed(driver, second, RuntimeError)
        gate.open()
        assert driver.tokens(long) == expected(LONG, 4)
        driver.assert_idle()


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_no_numbers_fail_their_own_sequence(
    value: float, temperature: float
) -> None:
    driver = Driver()
    sick = driver.submit((1,), temperature=temperature, max_tokens=9)
    well = driver.submit((2,), max_tokens=9)
    (sequence,) = sick.sequences

    def spoil(step: Step, logits: np.ndarray) -> None:
        drawing = [row.sequence for row in step.active if row.draws]
        if len(sequence.output_ids) == 2 and sequence in drawing:
            logits[drawing.index(sequence), 5] = value

    driver.runner.on_logits = spoil
    with running(driver):
        assert_failed(driver, sick, FloatingPointError)
        assert len(driver.deltas(sick)) == 3
        assert driver.tokens(well) == expected((2,), 9)
        driver.assert_idle()


def test_a_detokenizer_that_raises_fails_its_own_sequence() -> None:
    class Broken:
        def push(self, token: int) -> str:
            raise KeyError(token)

    with running(Driver()) as driver:
        gate = Gate(driver)
        well = driver.submit((2,), max_tokens=9)
        gate.step()
        sick = driver.submit((1,), max_tokens=9)
        driver.engine._admitted[sick.sequences[0]].answer._detokenizer = Broken()  # type: ignore[assignment]
        gate.open()
        assert_failed(driver, sick, KeyError)
        assert driver.tokens(well) == expected((2,), 9)
        driver.assert_idle()


def test_a_callback_that_raises_loses_its_requests_and_no_other() -> None:
    driver = Driver()

    def refuse(published: Published) -> None:
        if any(ticket.listener == "bad" and delta.token_ids for ticket, delta in published):
            raise RuntimeError("cannot take this")

    driver.on_publish = refuse
    with running(driver):
        request = GenerationRequest((1,), SamplingParams(temperature=0.0))
        bad = driver.engine.submit(request, "bad")
        assert driver.finish(bad)[-1].finish_reason is FinishReason.CANCELLED
        assert driver.tokens(driver.submit((3,), max_tokens=3)) == expected((3,), 3)
        driver.assert_idle()


def die(driver: Driver) -> None:
    """Break what no step can survive: the moving of slots."""

    def fail(source: int, target: int, length: int) -> None:
        raise OSError("the cache is gone")

    driver.cache.move = fail  # type: ignore[method-assign]


def test_when_the_engine_dies_everyone_hears_of_it() -> None:
    with running(Driver(SchedulerConfig(max_seqs=2))) as driver:
        gate = Gate(driver)
        first, second, waiting = (driver.submit((token,)) for token in (1, 2, 3))
        gate.step()
        driver.engine.cancel(first)
        driver.engine.cancel(waiting)
        die(driver)
        gate.open()
        assert_failed(driver, second, OSError)
        driver.engine._thread.join(TIMEOUT)
        assert not driver.engine.alive
        assert not driver.engine.ready
        assert not driver.engine.wait_ready()
        stats = driver.engine.stats()
        assert (stats.running, stats.waiting) == (0, 0)
        with pytest.raises(ShuttingDownError, match="has failed"):
            driver.submit((1,))
        driver.engine.cancel(second)


def test_dying_in_the_middle_of_a_step_loses_no_ending() -> None:
    driver = Driver()
    gate = Gate(driver)
    tickets = [driver.submit((token,), max_tokens=count) for token, count in ((1, 9), (2, 1))]

    def fail(slot: int) -> None:
        raise OSError("the cache is gone")

    with running(driver):
        gate.step()
        driver.cache.release = fail  # type: ignore[method-assign]
        gate.open()
        for ticket in tickets:
            assert_failed(driver, ticket, OSError)
    assert [len(driver.deltas(ticket)) for ticket in tickets] == [2, 1]


def test_a_failing_warm_up_is_told_at_once_and_kept() -> None:
    driver = Driver()
    early = driver.submit((1,))

    def fail(step: Step) -> None:
        raise RuntimeError("no kernel")

    driver.runner.on_step = fail
    driver.engine.start()
    assert not driver.engine.wait_ready(TIMEOUT)
    assert_failed(driver, early, RuntimeError)
    assert str(driver.engine.failure) == "no kernel"
    assert not driver.engine.ready
    driver.engine.stop()


def test_a_model_that_warms_up_to_nan_is_not_ready() -> None:
    driver = Driver()
    driver.runner.on_logits = lambda step, logits: logits.fill(np.nan)
    driver.engine.start()
    assert not driver.engine.wait_ready(TIMEOUT)
    assert isinstance(driver.engine.failure, FloatingPointError)
    driver.engine.stop()


# --- steps and requests that take too long --------------------------------------------------------


def test_a_step_that_takes_too_long_is_interrupted_and_fails_its_own_sequences() -> None:
    with running(Driver(SchedulerConfig(max_seqs=1), step_limit=0.5)) as driver:

        def hang(step: Step) -> None:
            if next(iter(step.active)).sequence.prompt_ids == (1,):
                assert driver.runner.interrupted.wait(TIMEOUT)
                assert driver.engine.stalled
                assert not driver.engine.ready
                raise RuntimeError("terminated")

        driver.runner.on_step = hang
        hangs, waits = driver.submit((1,)), driver.submit((2,), max_tokens=3)
        error = driver.finish(hangs)[-1].error
        assert isinstance(error, EngineError)
        assert "longer than 0.5 seconds" in str(error)
        assert driver.tokens(waits) == expected((2,), 3)
        assert driver.engine.ready
        driver.assert_idle()


def test_a_step_that_never_ends_is_given_up_and_everyone_hears_of_it() -> None:
    end = threading.Event()
    with running(Driver(SchedulerConfig(max_seqs=1), step_limit=0.5)) as driver:
        driver.runner.on_step = lambda step: end.wait(TIMEOUT)
        tickets = [driver.submit((token,)) for token in (1, 2)]
        try:
            for ticket in tickets:
                error = driver.finish(ticket)[-1].error
                assert isinstance(error, EngineError)
                assert "longer than 0.5 seconds" in str(error.__cause__)
            assert not driver.engine.alive
            assert not driver.engine.ready
            with pytest.raises(ShuttingDownError, match="has failed"):
                driver.submit((1,))
        finally:
            end.set()
        driver.engine._thread.join(TIMEOUT)
        assert [len(driver.deltas(ticket)) for ticket in tickets] == [1, 1]
        assert "longer than" in str(driver.engine.failure)


def test_stopping_interrupts_a_step_that_does_not_end_in_time() -> None:
    with running(Driver()) as driver:
        arrived = threading.Event()

        def hang(step: Step) -> None:
            arrived.set()
            assert driver.runner.interrupted.wait(TIMEOUT)
            raise RuntimeError("terminated")

        driver.runner.on_step = hang
        ticket = driver.submit((1,))
        assert arrived.wait(TIMEOUT)
        driver.engine.stop(timeout=0.01)
        assert driver.finish(ticket)[-1].finish_reason is FinishReason.ERROR
    assert driver.engine.failure is None


def test_a_request_whose_time_is_up_ends_with_an_error_and_no_other() -> None:
    with running(Driver()) as driver:
        gate = Gate(driver)
        params = SamplingParams(temperature=0.0)
        hasty = driver.engine.submit(GenerationRequest((1,), params, n=2, timeout=1e-6))
        patient = driver.engine.submit(GenerationRequest((2,), params, timeout=1e6))
        gate.step()
        gate.open()
        for index in range(2):
            error = driver.finish(hasty, index)[-1].error
            assert isinstance(error, RequestTimeoutError)
            assert "not complete after 1e-06 seconds" in str(error)
        assert driver.tokens(patient) == expected((2,), 63)
        driver.assert_idle()


def test_a_request_may_be_given_up_in_the_moment_when_its_time_is_up() -> None:
    driver = Driver()
    params = SamplingParams(temperature=0.0, max_tokens=4)
    left = driver.engine.submit(GenerationRequest((1,), params, n=2, timeout=1e-9))
    driver.engine.cancel(left)
    other = driver.engine.submit(GenerationRequest((2,), params))
    with running(driver):
        assert driver.tokens(other) == expected((2,), 4)
        assert driver.engine.alive
        for index in (0, 1):
            (last,) = driver.deltas(left, index)
            assert last.finish_reason is FinishReason.CANCELLED
        driver.assert_idle()


@pytest.mark.parametrize("timeout", [0.0, -1.0, float("nan")])
def test_a_timeout_must_be_positive(timeout: float) -> None:
    with pytest.raises(InvalidValueError, match="'timeout' is"):
        Driver().engine.submit(GenerationRequest((1,), timeout=timeout))


def test_deadlines_of_requests_that_have_ended_do_not_pile_up() -> None:
    with running(Driver()) as driver:
        params = SamplingParams(temperature=0.0, max_tokens=1)
        for _ in range(200):
            driver.finish(driver.engine.submit(GenerationRequest((1,), params, timeout=1e6)))
        assert len(driver.engine._admitted._deadlines._entries) <= 80


# --- ready, draining, stopping --------------------------------------------------------------------


def test_ready_after_the_warm_up_token_and_not_before() -> None:
    driver = Driver()
    gate = Gate(driver, warm_up=True)
    assert not driver.engine.ready
    driver.engine.start()
    gate.step()
    assert driver.engine.alive
    assert not driver.engine.ready
    assert not driver.engine.wait_ready(0)
    gate.open()
    assert driver.engine.wait_ready(TIMEOUT)
    assert driver.engine.ready
    driver.assert_idle()
    assert driver.engine.stats().generated_tokens == 0
    driver.engine.stop(TIMEOUT)
    assert not driver.engine.ready


def test_a_draining_engine_finishes_what_it_has_and_takes_nothing() -> None:
    with running(Driver(SchedulerConfig(max_seqs=1))) as driver:
        gate = Gate(driver)
        runs, waits = (driver.submit((token,), max_tokens=3) for token in (1, 2))
        gate.step()
        driver.engine.drain()
        assert not driver.engine.ready
        with pytest.raises(ShuttingDownError):
            driver.submit((1,))
        gate.open()
        assert driver.tokens(runs) == expected((1,), 3)
        assert driver.tokens(waits) == expected((2,), 3)
        assert driver.engine.alive


def test_stopping_ends_what_runs_and_what_waits_as_cancelled() -> None:
    with running(Driver(SchedulerConfig(max_seqs=1))) as driver:
        gate = Gate(driver)
        runs, waits = (driver.submit((token,)) for token in (1, 2))
        gate.step()
        driver.engine.stop(timeout=0)
        assert not driver.engine.ready
        gate.open()
        assert driver.finish(runs)[-1].finish_reason is FinishReason.CANCELLED
        assert driver.finish(waits)[-1].finish_reason is FinishReason.CANCELLED
        with pytest.raises(ShuttingDownError):
            driver.submit((1,))
        driver.engine.stop(TIMEOUT)
        assert not driver.engine.alive
    assert driver.engine.failure is None


def test_stopping_an_engine_that_never_started_ends_what_waits_for_it() -> None:
    driver = Driver()
    ticket = driver.submit((1,))
    driver.engine.stop()
    assert [delta.finish_reason for delta in driver.deltas(ticket)] == [FinishReason.CANCELLED]
    with pytest.raises(ShuttingDownError):
        driver.submit((1,))
    assert not driver.engine.wait_ready()
    driver.assert_idle()


# --- numbers --------------------------------------------------------------------------------------


def test_counters_count_every_token_once() -> None:
    with running(Driver()) as driver:
        tickets = [driver.submit(range(1, 1 + size), n=2, max_tokens=5) for size in (3, 20, 33)]
        for ticket in tickets:
            for index in range(2):
                driver.finish(ticket, index)
        stats = driver.engine.stats()
    assert stats.prefilled_tokens == 2 * (3 + 20 + 33)
    assert stats.generated_tokens == 2 * 3 * 5


def test_memory_is_told_for_all_tokens_that_are_computed_by_the_end_of_a_step() -> None:
    with running(Driver()) as driver:
        gate = Gate(driver)
        driver.submit(LONG)
        gate.step()
        gate.release()
        gate.step()
        assert driver.engine.stats().kv_bytes == 32 * driver.cache.shape.bytes_per_token
        gate.open()


def test_a_slot_gives_its_memory_back_though_others_wait() -> None:
    """Not only when it is next used: its next owner may be short, and stay long."""
    with running(Driver(SchedulerConfig(max_seqs=3))) as driver:
        gate = Gate(driver)
        leaving = driver.submit((1, 2, 3), n=3)
        gate.step()
        driver.submit((4,), n=6)
        gate.release()
        gate.step()
        driver.engine.cancel(leaving)
        gate.release()
        gate.step()
        held = [bool(driver.cache.slot_view(0, slot).any()) for slot in range(3)]
        assert held == [False, False, False]
        gate.open()
