"""The engine: one thread that owns the model and runs schedule -> run -> sample -> publish.

Other threads talk to it through `submit` and `cancel`; it answers through one callback per step.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from collections.abc import Sequence as Collection
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mrs.errors import (
    ContextLengthExceededError,
    EngineError,
    InvalidValueError,
    ShuttingDownError,
)
from mrs.runtime.answer import Answer
from mrs.runtime.detokenizer import Detokenizer
from mrs.runtime.generation import (
    EngineStats,
    FinishReason,
    GenerationDelta,
    GenerationRequest,
)
from mrs.runtime.kv_cache import KVCache
from mrs.runtime.sampling import Sampler
from mrs.runtime.scheduler import Scheduler, Step
from mrs.runtime.sequence import Sequence

_log = logging.getLogger(__name__)


class StepRunner(Protocol):
    """Computes a step; `mrs.runtime.decoder.Decoder`, or a stand-in in tests."""

    def run(self, step: Step) -> NDArray[np.float32]:
        """Logits ``[rows that draw, vocab]``."""


@dataclass(eq=False)
class Ticket:
    """One admitted request: its choices, and the ones that still run.

    Attributes:
        sequences: one per choice.
        listener: opaque to the engine; comes back with every delta.
    """

    sequences: tuple[Sequence, ...]
    listener: object
    cancelled: bool = False


Published = list[tuple[Ticket, GenerationDelta]]


@dataclass(eq=False)
class _Running:
    ticket: Ticket
    sampler: Sampler
    answer: Answer


@dataclass(frozen=True)
class EngineModel:
    """What the engine must know of the model.

    Attributes:
        vocab_size: width of the logits.
        eos_token_ids: ids that end an answer.
        max_length: most tokens of prompt and answer together.
        new_detokenizer: makes a fresh detokenizer.
    """

    vocab_size: int
    eos_token_ids: frozenset[int]
    max_length: int
    new_detokenizer: Callable[[], Detokenizer]


@dataclass
class _Inbox:
    """Commands for the engine thread, under one lock."""

    submitted: deque[Ticket] = field(default_factory=deque)
    cancelled: deque[Ticket] = field(default_factory=deque)
    stopping: bool = False
    draining: bool = False


class Engine:
    """Continuous batching over one model.

    Args:
        model: what to know of the model.
        runner: computes steps.
        cache: the KV cache that the runner uses.
        scheduler: decides the steps.
        publish: called on the engine thread after each step with all that it produced.
    """

    def __init__(
        self,
        model: EngineModel,
        runner: StepRunner,
        cache: KVCache,
        scheduler: Scheduler,
        publish: Callable[[Published], None],
    ) -> None:
        self._model = model
        self._runner = runner
        self._cache = cache
        self._scheduler = scheduler
        self._publish = publish
        self._running: dict[Sequence, _Running] = {}
        self._inbox = _Inbox()
        self._wake = threading.Condition()
        self._thread = threading.Thread(target=self._loop, name="mrs-engine", daemon=True)
        self._ready = threading.Event()
        self._generated = 0
        self._prefilled = 0

    # --- called from other threads --------------------------------------------------------------

    def start(self) -> None:
        """Start the thread; it produces a warm-up token before `ready` turns true."""
        self._thread.start()

    def wait_ready(self, timeout: float | None = None) -> bool:
        """Block until the warm-up token is out; False if the time ran out first."""
        return self._ready.wait(timeout)

    @property
    def ready(self) -> bool:
        """The warm-up token is out, the thread runs, and new requests are taken."""
        return self._ready.is_set() and self.alive and not self._inbox.draining

    @property
    def alive(self) -> bool:
        """The engine thread runs."""
        return self._thread.is_alive()

    def submit(self, request: GenerationRequest, listener: object = None) -> Ticket:
        """Admit a request.

        Raises:
            ContextLengthExceededError: it can never fit.
            InvalidValueError: a token id is outside the vocabulary, or the prompt is empty.
            QueueFullError: the waiting queue is at its bound.
            ShuttingDownError: the engine drains or has stopped.
        """
        check_request(request, self._model)
        sequences = tuple(self._sequence(request, index) for index in range(request.n))
        ticket = Ticket(sequences, listener)
        with self._wake:
            if self._inbox.draining or self._inbox.stopping or not self.alive:
                raise ShuttingDownError(
                    "The server is shutting down.", hint="Send the request to another server."
                )
            pending = sum(len(waiting.sequences) for waiting in self._inbox.submitted)
            self._scheduler.check_room(pending + request.n, len(request.prompt_ids) * request.n)
            self._inbox.submitted.append(ticket)
            self._wake.notify()
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        """Give a request up; its slots are free by the next step. Idempotent."""
        with self._wake:
            if not ticket.cancelled:
                ticket.cancelled = True
                self._inbox.cancelled.append(ticket)
                self._wake.notify()

    def drain(self) -> None:
        """Take no new requests; those admitted go on."""
        with self._wake:
            self._inbox.draining = True

    def stop(self, timeout: float = 10.0) -> None:
        """End the thread after the step it is in; what still runs ends as cancelled."""
        with self._wake:
            self._inbox.stopping = True
            self._wake.notify()
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def stats(self) -> EngineStats:
        """Numbers of this moment."""
        holders = self._scheduler.running
        tokens = sum(sequence.num_computed for sequence in holders)
        return EngineStats(
            running=len(holders),
            waiting=self._scheduler.waiting,
            slots=self._scheduler.config.max_seqs,
            kv_bytes=tokens * self._cache.shape.bytes_per_token,
            generated_tokens=self._generated,
            prefilled_tokens=self._prefilled,
        )

    # --- the engine thread ----------------------------------------------------------------------

    def _loop(self) -> None:
        try:
            self._warm_up()
            self._ready.set()
            while self._take_commands():
                step = self._scheduler.schedule()
                if step is not None:
                    self._publish(self._run(step))
        except Exception:
            _log.exception("the engine thread died")
        finally:
            self._abandon()

    def _take_commands(self) -> bool:
        """Wait until there is something to do; False when the engine must stop."""
        with self._wake:
            inbox = self._inbox
            while not (
                inbox.submitted or inbox.cancelled or inbox.stopping or self._scheduler.has_work
            ):
                self._check_idle()
                self._wake.wait()
            submitted, inbox.submitted = inbox.submitted, deque()
            cancelled, inbox.cancelled = inbox.cancelled, deque()
            stopping = inbox.stopping
            for ticket in submitted:
                self._admit(ticket)
        self._end_cancelled(cancelled)
        return not stopping

    def _admit(self, ticket: Ticket) -> None:
        for sequence in ticket.sequences:
            detokenizer = self._model.new_detokenizer()
            self._running[sequence] = _Running(
                ticket,
                Sampler(sequence.sampling, sequence.index),
                Answer(sequence, detokenizer, self._model.eos_token_ids),
            )
            self._scheduler.add(sequence)

    def _end_cancelled(self, tickets: Collection[Ticket]) -> None:
        published: Published = []
        for ticket in tickets:
            for sequence in ticket.sequences:
                if not sequence.is_finished:
                    published.append(self._end(sequence, FinishReason.CANCELLED))
        if published:
            self._publish(published)

    def _run(self, step: Step) -> Published:
        try:
            logits = self._runner.run(step)
        except Exception as error:
            _log.exception("a step over %d sequences failed", len(step.rows))
            return self._fail(step, error)
        published: Published = []
        drawn = iter(logits)
        for row in step.active:
            sequence = row.sequence
            sequence.num_computed += row.new
            if sequence.num_computed <= len(sequence.prompt_ids):
                self._prefilled += row.new
            if row.draws:
                published.append(self._draw(sequence, next(drawn)))
        return published

    def _draw(
        self, sequence: Sequence, logits: NDArray[np.float32]
    ) -> tuple[Ticket, GenerationDelta]:
        """Draw a sequence's next token; whatever goes wrong here is its own."""
        running = self._running[sequence]
        try:
            delta = running.answer.add(running.sampler.sample(logits))
        except Exception as error:
            _log.exception("drawing a token failed")
            return self._end(sequence, FinishReason.ERROR, error)
        self._generated += 1
        if sequence.is_finished:
            self._forget(sequence)
        return running.ticket, delta

    def _fail(self, step: Step, error: Exception) -> Published:
        return [self._end(row.sequence, FinishReason.ERROR, error) for row in list(step.active)]

    def _end(
        self, sequence: Sequence, reason: FinishReason, cause: Exception | None = None
    ) -> tuple[Ticket, GenerationDelta]:
        """End a sequence from outside its own answer."""
        sequence.finish_reason = reason
        ticket = self._running[sequence].ticket
        self._forget(sequence)
        error = None
        if cause is not None:
            error = EngineError("The model failed on this request.", hint="Try it again.")
            error.__cause__ = cause
        return ticket, GenerationDelta(sequence.index, "", (), reason, error)

    def _forget(self, sequence: Sequence) -> None:
        del self._running[sequence]
        slot = self._scheduler.remove(sequence)
        # A slot that is taken over at once is simply overwritten.
        if slot is not None and not self._scheduler.waiting:
            self._cache.release(slot)

    def _check_idle(self) -> None:
        if self._running or self._scheduler.running:
            raise RuntimeError("the engine is idle but sequences hold slots")

    def _warm_up(self) -> None:
        """Produce one token: the first request then meets a model that works and is in memory."""
        sequence = self._sequence(GenerationRequest(prompt_ids=(0,)), 0)
        self._scheduler.add(sequence)
        step = self._scheduler.schedule()
        assert step is not None
        logits = self._runner.run(step)
        if not np.isfinite(logits).all():
            raise RuntimeError("the model's logits are not finite")
        slot = self._scheduler.remove(sequence)
        if slot is not None:
            self._cache.release(slot)

    def _abandon(self) -> None:
        """The thread ends: everything that was admitted must hear of it."""
        with self._wake:
            self._inbox.stopping = True
            for ticket in self._inbox.submitted:
                self._admit(ticket)
            self._inbox.submitted.clear()
        ended = [self._end(sequence, FinishReason.CANCELLED) for sequence in list(self._running)]
        if ended:
            self._publish(ended)

    def _sequence(self, request: GenerationRequest, index: int) -> Sequence:
        return Sequence(request.prompt_ids, request.sampling, index, self._model.max_length)


def check_request(request: GenerationRequest, model: EngineModel) -> None:
    """Refuse what could only fail later.

    Raises:
        ContextLengthExceededError: prompt plus requested tokens exceed the model's length.
        InvalidValueError: a token id is outside the vocabulary, or the prompt is empty.
    """
    prompt = request.prompt_ids
    if not prompt:
        raise InvalidValueError("The prompt is empty.", hint="Send some text.")
    if min(prompt) < 0 or max(prompt) >= model.vocab_size:
        raise InvalidValueError(
            f"The prompt holds a token id outside 0..{model.vocab_size - 1}.",
            hint="Encode the text with the model's own tokenizer.",
        )
    wanted = request.sampling.max_tokens or 1
    if len(prompt) + wanted > model.max_length:
        raise ContextLengthExceededError(
            f"This model's context holds {model.max_length} tokens; the request needs "
            f"{len(prompt) + wanted}: {len(prompt)} in the prompt and {wanted} in the answer.",
            hint="Shorten the messages or lower max_tokens.",
        )
