"""A model that can be computed by hand, and an engine around it that tests can drive step by step.

The fake model keeps token ids in the real KV cache, one number per position, and draws the next
token from what the cache holds. So an answer is right only if the cache was right at each step.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Tokens
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
from numpy.typing import NDArray

from mrs.runtime.admission import EngineModel
from mrs.runtime.detokenizer import Detokenizer
from mrs.runtime.engine import Engine
from mrs.runtime.generation import GenerationDelta, GenerationRequest, SamplingParams
from mrs.runtime.kv_cache import KVCache, KVCacheShape
from mrs.runtime.scheduler import Scheduler, SchedulerConfig
from mrs.runtime.speculation.speculator import Speculator
from mrs.runtime.step import Row, Step
from mrs.runtime.ticket import Published, Ticket
from mrs.runtime.watchdog import DEFAULT_LIMIT

TIMEOUT = 10.0
VOCAB = 97
EOS = 0
# Token 0 is special and has no text; the others are one character each.
PIECES = (b"", *(chr(0x20 + index).encode() for index in range(1, VOCAB)))


def next_token(tokens: Tokens[int]) -> int:
    """What the fake model says after ``tokens``: any token but EOS, by all of them in order."""
    state = 7
    for token in tokens:
        state = (state * 31 + int(token) + 1) % 1_000_003
    return 1 + state % (VOCAB - 1)


def expected(prompt: Tokens[int], count: int) -> list[int]:
    """The greedy answer to a prompt."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(next_token(tokens))
    return tokens[len(prompt) :]


def text_of(tokens: Tokens[int]) -> str:
    return b"".join(PIECES[token] for token in tokens).decode()


class FakeRunner:
    """Computes the fake model.

    Attributes:
        steps: all steps so far.
        on_step: called on the engine thread at the start of each step; may call the engine, block,
            or raise.
        interrupted: set when the step of the moment shall end.
        on_logits: may change the logits ``[wanted positions, vocab]`` of a step.
    """

    def __init__(self, cache: KVCache) -> None:
        self.steps: list[Step] = []
        self.interrupted = threading.Event()
        self.on_step: Callable[[Step], None] = lambda step: None
        self.on_logits: Callable[[Step, NDArray[np.float32]], None] = lambda step, logits: None
        self._cache = cache

    def run(self, step: Step) -> NDArray[np.float32]:
        self.steps.append(step)
        self.on_step(step)
        drawn = [token for slot, row in _slots_and_rows(step) for token in self._compute(slot, row)]
        logits = np.zeros((len(drawn), VOCAB), dtype=np.float32)
        logits[np.arange(len(drawn)), drawn] = 50.0
        self.on_logits(step, logits)
        return logits

    def interrupt(self) -> None:
        self.interrupted.set()

    def _compute(self, slot: int, row: Row | None) -> list[int]:
        """What comes after each of the wanted positions."""
        if row is None or not row.new:
            return []
        stop = row.past + row.new
        # Ids are kept plus one: memory that was given back reads as zero, and so as -1.
        held = self._cache.slot_view(0, slot)[0, 0, :, 0]
        held[row.past : stop] = np.array(row.sequence.tokens(row.past, stop)) + 1
        ends = range(stop - row.wanted + 1, stop + 1)
        return [next_token(held[:end].astype(int) - 1) for end in ends]


def _slots_and_rows(step: Step) -> list[tuple[int, Row | None]]:
    return list(enumerate(step.rows, step.first_slot))


class Driver:
    """An engine around the fake model, and all that it publishes.

    Attributes:
        published: what the callback was given, call by call.
        on_publish: called on the engine thread with each; may raise.
    """

    def __init__(
        self,
        config: SchedulerConfig | None = None,
        max_length: int = 64,
        step_limit: float = DEFAULT_LIMIT,
        speculator: Speculator | None = None,
    ) -> None:
        config = config or SchedulerConfig(max_seqs=3, prefill_chunk=16)
        slots = config.max_seqs + config.spare_slots
        self.cache = KVCache(KVCacheShape(1, slots, 1, max_length, 64))
        self.config = replace(config, row_bytes=self.cache.shape.committed_bytes)
        self.runner = FakeRunner(self.cache)
        self.published: list[Published] = []
        self.on_publish: Callable[[Published], None] = lambda published: None
        self.model = EngineModel(VOCAB, frozenset({EOS}), max_length, _detokenizer, PIECES)
        self.engine = Engine(
            self.model,
            self.runner,
            self.cache,
            Scheduler(self.config),
            self._publish,
            step_limit,
            speculator,
        )
        self._news = threading.Condition()

    def submit(self, prompt: Tokens[int] = (1, 2, 3), n: int = 1, **sampling: object) -> Ticket:
        """Submit a greedy request."""
        params = SamplingParams(**{"temperature": 0.0, **sampling})  # type: ignore[arg-type]
        return self.engine.submit(GenerationRequest(tuple(prompt), params, n))

    def deltas(self, ticket: Ticket, index: int = 0) -> list[GenerationDelta]:
        """What has been published of one choice, so far."""
        with self._news:
            return [
                delta
                for published in self.published
                for owner, delta in published
                if owner is ticket and delta.index == index
            ]

    def finish(self, ticket: Ticket, index: int = 0) -> list[GenerationDelta]:
        """Wait for a choice's last delta and return them all."""

        def ended() -> bool:
            deltas = self.deltas(ticket, index)
            return bool(deltas) and deltas[-1].finish_reason is not None

        with self._news:
            assert self._news.wait_for(ended, TIMEOUT), "the choice never ended"
        return self.deltas(ticket, index)

    def tokens(self, ticket: Ticket, index: int = 0) -> list[int]:
        """The tokens of a choice, once it has ended."""
        return [token for delta in self.finish(ticket, index) for token in delta.token_ids]

    def assert_idle(self) -> None:
        """Nothing runs or waits, and no slot holds memory."""
        stats = self.engine.stats()
        assert (stats.running, stats.waiting, stats.kv_bytes) == (0, 0, 0)
        for slot in range(self.cache.shape.slots):
            assert not self.cache.slot_view(0, slot).any()

    def _publish(self, published: Published) -> None:
        with self._news:
            self.published.append(list(published))
            self._news.notify_all()
        self.on_publish(published)


def _detokenizer(continues: bool) -> Detokenizer:
    tokenizer = SimpleNamespace(visible_pieces=PIECES, leading_spaces=1, is_added=lambda _: False)
    return Detokenizer(tokenizer, continues=continues)  # type: ignore[arg-type]


@contextmanager
def running(driver: Driver) -> Iterator[Driver]:
    """The driver with its engine started; stops it at the end."""
    driver.engine.start()
    try:
        assert driver.engine.wait_ready(TIMEOUT)
        yield driver
    finally:
        driver.engine.stop(TIMEOUT)
        assert not driver.engine.alive


class Gate:
    """Holds the engine thread at the start of each step until the test lets it go on.

    Args:
        driver: whose engine.
        warm_up: hold it at the warm-up, too.
    """

    def __init__(self, driver: Driver, *, warm_up: bool = False) -> None:
        self._driver = driver
        self._warm_up = warm_up
        self._arrived: queue.Queue[Step] = queue.Queue()
        self._go: queue.Queue[Exception | None] = queue.Queue()
        self._open = False
        driver.runner.on_step = self._hold

    def step(self) -> Step:
        """Wait until the engine is in a step; it stays there."""
        return self._arrived.get(timeout=TIMEOUT)

    def release(self, error: Exception | None = None) -> None:
        """Let the step be computed, or fail."""
        self._go.put(error)

    def open(self) -> None:
        """Let this step and all others be computed."""
        self._open = True
        self._go.put(None)

    def _hold(self, step: Step) -> None:
        if len(self._driver.runner.steps) == 1 and not self._warm_up:
            return
        self._arrived.put(step)
        error = None if self._open else self._go.get(timeout=TIMEOUT)
        if error is not None:
            raise error
