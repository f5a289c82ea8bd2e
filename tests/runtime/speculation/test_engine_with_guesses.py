"""Guesses change how many steps an answer takes, and nothing else.

The fake model reads the KV cache, so that an answer is right only if what wrong guesses have left
in it never counts.
"""

from __future__ import annotations

import random
from collections.abc import Sequence as Collection

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrs.runtime.generation import FinishReason, ReasoningBudget, SamplingParams
from mrs.runtime.scheduler import SchedulerConfig
from mrs.runtime.speculation.proposer import Wish
from mrs.runtime.speculation.speculator import Speculator
from tests.runtime.fake_runner import EOS, VOCAB, Driver, expected, next_token, running, text_of


class Oracle:
    """Knows the model, and lies as often as it is told to.

    Attributes:
        wrong: share of guesses that are wrong.
        asked: how many guesses were wished for, wish by wish.
    """

    def __init__(self, wrong: float = 0.0, seed: int = 0) -> None:
        self.wrong = wrong
        self.asked: list[int] = []
        self._random = random.Random(seed)

    def propose(self, wishes: Collection[Wish]) -> list[list[int]]:
        self.asked += [wish.most for wish in wishes]
        return [self._guesses(wish) for wish in wishes]

    def _guesses(self, wish: Wish) -> list[int]:
        tokens = wish.sequence.tokens(0, wish.sequence.length)
        count = len(tokens)
        while len(tokens) < count + wish.most:
            right = next_token(tokens)
            lie = self._random.random() < self.wrong
            tokens.append(self._random.randrange(VOCAB) if lie else right)
        return tokens[count:]


def driver(
    proposer: Oracle, config: SchedulerConfig | None = None, most: int = 6, positions: int = 48
) -> Driver:
    return Driver(config, speculator=Speculator([proposer], most, positions))


@pytest.mark.parametrize("wrong", [0.0, 0.3, 1.0])
def test_an_answer_is_the_one_without_guesses(wrong: float) -> None:
    with running(driver(Oracle(wrong))) as engine:
        ticket = engine.submit((4, 5), max_tokens=40)
        assert engine.tokens(ticket) == expected((4, 5), 40)
        assert engine.finish(ticket)[-1].finish_reason is FinishReason.LENGTH


def test_accepted_tokens_save_steps() -> None:
    with running(driver(Oracle())) as engine:
        ticket = engine.submit((4, 5), max_tokens=40)
        deltas = engine.finish(ticket)
    # 1 of the prompt, then 1 + 3, and 1 + 6 in each step after that, 4 in the last.
    assert [len(delta.token_ids) for delta in deltas] == [1, 4, 7, 7, 7, 7, 7]
    assert "".join(delta.text for delta in deltas) == text_of(expected((4, 5), 40))


def test_guesses_and_those_that_were_right_are_counted() -> None:
    with running(driver(Oracle())) as engine:
        engine.finish(engine.submit((4, 5), max_tokens=12))
        stats = engine.engine.stats()
    # Steps of 4 and 7 tokens after the first one.
    assert (stats.draft_tokens, stats.accepted_tokens) == (9, 9)
    assert stats.generated_tokens == 12


def test_no_guess_reaches_beyond_what_an_answer_may_have() -> None:
    oracle = Oracle()
    with running(driver(oracle)) as engine:
        assert len(engine.tokens(engine.submit((1,), max_tokens=2))) == 2
        assert oracle.asked == []
        assert len(engine.tokens(engine.submit((1,) * 60, max_tokens=4))) == 4
    assert oracle.asked == [2]


def test_what_ends_an_answer_ends_it_among_guesses() -> None:
    tokens = expected((4, 5), 12)
    stop = text_of(tokens)[6:8]
    with running(driver(Oracle())) as engine:
        ticket = engine.submit((4, 5), max_tokens=40, stop=(stop,))
        deltas = engine.finish(ticket)
    text = text_of(expected((4, 5), 40))
    assert "".join(delta.text for delta in deltas) == text[: text.index(stop)]
    assert deltas[-1].finish_reason is FinishReason.STOP
    assert deltas[-1].stop == stop
    drawn = [token for delta in deltas for token in delta.token_ids]
    assert drawn == expected((4, 5), text.index(stop) + 2)


def test_many_rows_get_few_guesses_or_none() -> None:
    oracle = Oracle()
    config = SchedulerConfig(max_seqs=8, prefill_chunk=16)
    with running(driver(oracle, config, positions=16)) as engine:
        tickets = [engine.submit((n,), max_tokens=30) for n in range(1, 9)]
        for number, ticket in enumerate(tickets, 1):
            assert engine.tokens(ticket) == expected((number,), 30)
        widest = max(
            (
                len(step.rows) * max(row.new for row in step.active)
                for step in engine.runner.steps
                if all(row.guesses for row in step.active)
            ),
            default=0,
        )
    assert widest <= 16


def test_a_proposer_that_fails_is_not_asked_again() -> None:
    class Broken(Oracle):
        def propose(self, wishes: Collection[Wish]) -> list[list[int]]:
            super().propose(wishes)
            raise RuntimeError

    broken = Broken()
    with running(driver(broken)) as engine:
        assert engine.tokens(engine.submit((4,), max_tokens=9)) == expected((4,), 9)
    assert len(broken.asked) == 1


def test_logprobs_of_draft_tokens_are_told_one_by_one() -> None:
    def logprobs(engine: Driver) -> list[tuple[int, float]]:
        deltas = engine.finish(engine.submit((4, 5), max_tokens=20, logprobs=2))
        return [(found.token, found.logprob) for delta in deltas for found in delta.logprobs]

    with running(driver(Oracle(0.2))) as engine, running(Driver()) as plain:
        assert logprobs(engine) == logprobs(plain)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1000),
    wrong=st.sampled_from([0.1, 0.5, 0.9]),
    temperature=st.sampled_from([0.0, 30.0]),
    budget=st.sampled_from([None, 8 * 4096, 10 * 4096]),
)
def test_answers_of_a_crowd_are_those_without_guesses(
    seed: int, wrong: float, temperature: float, budget: int | None
) -> None:
    """With little memory, random draws, penalties, prompts that share beginnings, and leavers."""
    chosen = random.Random(seed)
    asked = [
        (
            tuple(chosen.choices(range(1, 20), k=chosen.randrange(1, 25))),
            SamplingParams(
                temperature=temperature,
                seed=number,
                max_tokens=chosen.randrange(1, 30),
                frequency_penalty=chosen.choice([0.0, 40.0]),
                stop_token_ids=(chosen.randrange(1, VOCAB),),
            ),
        )
        for number in range(8)
    ]
    config = SchedulerConfig(max_seqs=4, prefill_chunk=8, max_kv_bytes=budget, max_kept_bytes=4096)

    def answers(one: Driver) -> list[list[int]]:
        with running(one) as engine:
            tickets = [
                engine.submit(prompt, **{name: getattr(params, name) for name in vars(params)})
                for prompt, params in asked
            ]
            engine.engine.cancel(engine.submit((1, 2, 3), max_tokens=50))
            return [engine.tokens(ticket) for ticket in tickets]

    assert answers(driver(Oracle(wrong, seed), config)) == answers(Driver(config))


def test_the_end_of_sequence_token_among_guesses() -> None:
    oracle = Oracle()
    one = driver(oracle)
    tokens = expected((4, 5), 40)

    def end_after_ten(step, logits) -> None:  # type: ignore[no-untyped-def]
        """The position after the tenth token says EOS."""
        first = 0
        for row in step.active:
            for offset in range(row.wanted):
                position = row.past + row.new - row.wanted + offset + 1
                if position == 2 + 10:
                    logits[first + offset] = 0
                    logits[first + offset, EOS] = 50
            first += row.wanted

    one.runner.on_logits = end_after_ten
    with running(one) as engine:
        ticket = engine.submit((4, 5), max_tokens=40)
        deltas = engine.finish(ticket)
    assert [token for delta in deltas for token in delta.token_ids] == [*tokens[:10], EOS]
    assert deltas[-1].finish_reason is FinishReason.STOP


@pytest.mark.parametrize("wrong", [0.0, 0.3])
def test_guesses_do_not_prolong_reasoning(wrong: float) -> None:
    closing = (7, 8)
    limit = ReasoningBudget(6, True, "<a>", "'(", closing)
    with running(driver(Oracle(wrong))) as engine:
        tokens = engine.tokens(engine.submit((4, 5), max_tokens=24, reasoning_budget=limit))
    assert tokens[:8] == [*expected((4, 5), 6), *closing]
    assert tokens[8:] == expected((4, 5, *tokens[:8]), 16)
