"""The engine: one thread that owns the model and runs schedule -> run -> sample -> publish.

Other threads talk to it through `submit` and `cancel`; it answers through one callback per step.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import asdict, replace

import numpy as np
from numpy.typing import NDArray

from mrs.errors import EngineError, MrsError, ShuttingDownError
from mrs.runtime.admission import EngineModel, admit_request
from mrs.runtime.admitted import Admitted
from mrs.runtime.cache_operations import Release, RowCache
from mrs.runtime.choices import make_choices
from mrs.runtime.drawing import draw_tokens
from mrs.runtime.generation import (
    EngineStats,
    FinishReason,
    GenerationDelta,
    GenerationRequest,
    SamplingParams,
)
from mrs.runtime.grammar.compiler import GrammarCompiler
from mrs.runtime.prompt_scoring import score_prompt
from mrs.runtime.scheduler import Scheduler
from mrs.runtime.sequence import Sequence
from mrs.runtime.speculation.speculator import GuessCounts, Speculator
from mrs.runtime.step import Row, Step, StepRunner
from mrs.runtime.ticket import Choice, Published, Ticket
from mrs.runtime.token_counts import TokenCounts
from mrs.runtime.watchdog import DEFAULT_LIMIT, Watchdog

_log = logging.getLogger(__name__)


class Engine:
    """Continuous batching over one model.

    The scheduler, and who runs, are touched by any thread, under one lock; runner, cache, samplers
    and answers by the engine thread alone, outside of it.

    Args:
        model: what to know of the model.
        runner: computes steps.
        cache: the KV cache that the runner uses.
        scheduler: decides the steps.
        publish: called on the engine thread after each step with all that it produced.
        step_limit: seconds after which a step is interrupted and ends its sequences with an error;
            if it does not end even so, all requests do, and the engine has failed.
        speculator: guesses tokens; None for no guesses.
    """

    def __init__(
        self,
        model: EngineModel,
        runner: StepRunner,
        cache: RowCache,
        scheduler: Scheduler,
        publish: Callable[[Published], None],
        step_limit: float = DEFAULT_LIMIT,
        speculator: Speculator | None = None,
    ) -> None:
        self._model = model
        self._runner = runner
        self._cache = cache
        self._scheduler = scheduler
        self._publish = publish
        self._admitted = Admitted()
        self._changed = threading.Condition()
        self._warm = self._draining = self._stopping = False
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._loop, name="mrs-engine", daemon=True)
        self._watchdog = Watchdog(step_limit, runner.interrupt, self._give_up_step)
        self._counts = TokenCounts()
        self._speculator = speculator
        self._guess_counts = GuessCounts() if speculator is None else speculator.counts

    # --- called from other threads --------------------------------------------------------------

    def start(self) -> None:
        """Start the thread; it produces a warm-up token before `ready` turns true."""
        self._thread.start()

    def wait_ready(self, timeout: float | None = None) -> bool:
        """Block until the warm-up token is out; False if there will be none or time ran out."""
        with self._changed:
            self._changed.wait_for(lambda: self._warm or self._stopping, timeout)
            return self._warm and not self._stopping

    @property
    def grammars(self) -> GrammarCompiler | None:
        """What compiles grammars for `submit`, which does so itself where it was not done."""
        return self._model.grammars

    @property
    def max_length(self) -> int:
        """Most tokens of prompt and answer of one sequence, by the model and by memory."""
        return self._model.capacity

    @property
    def ready(self) -> bool:
        """The warm-up token is out, the thread makes progress, and new requests are taken."""
        takes = not (self._draining or self._stopping)
        return self._warm and self.alive and takes and not self.stalled

    @property
    def alive(self) -> bool:
        """The engine thread runs, and has not been given up."""
        return self._thread.is_alive() and self._failure is None

    @property
    def stalled(self) -> bool:
        """The step of this moment takes longer than it may."""
        return self._watchdog.overdue

    @property
    def failure(self) -> Exception | None:
        """What the engine thread died of, if it did, or why it was given up."""
        return self._failure

    def submit(self, request: GenerationRequest, listener: object = None) -> Ticket:
        """Admit a request; before `start`, it waits for that.

        Raises:
            ContextLengthExceededError: it can never fit the context, or the memory.
            InvalidValueError: a token id is outside the vocabulary, the prompt is empty, or a
                number is outside what it may be.
            QueueFullError: the waiting queue is at its bound.
            ShuttingDownError: the engine drains or has stopped.
        """
        asked, request = request, admit_request(request, self._model)
        self._check_room(request)  # Here already: a full engine prepares nothing.
        dropped = len(asked.prompt_ids) - len(request.prompt_ids)
        ticket = Ticket(request, listener, dropped)
        # All that may fail is made here: the caller hears of it, and the engine thread is safe.
        choices = make_choices(ticket, self._model)
        with self._changed:
            self._check_room(request)
            self._admitted.add(ticket, choices)
            for choice in choices:
                self._scheduler.add(choice.sequence)
            self._changed.notify_all()
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        """Give a request up; its slots are free by the next step. Idempotent."""
        with self._changed:
            if not self._stopping:
                self._admitted.give_up(ticket)

    def drain(self) -> None:
        """Take no new requests; those admitted go on."""
        with self._changed:
            self._draining = True

    def stop(self, timeout: float = 10.0) -> None:
        """End the thread after the step it is in; what still runs ends as cancelled.

        Args:
            timeout: seconds after which that step is interrupted.
        """
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.ident is None:  # It never started, and so nobody else would tell.
            self._abandon()
            return
        self._thread.join(timeout)
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._runner.interrupt()
            self._thread.join(timeout)

    def stats(self) -> EngineStats:
        """Numbers of this moment."""
        with self._changed:
            holders = self._scheduler.running
            return EngineStats(
                running=len(holders),
                waiting=self._scheduler.waiting,
                slots=self._scheduler.config.max_seqs,
                kv_bytes=self._scheduler.kv_bytes,
                kv_budget=self._scheduler.config.max_kv_bytes,
                generated_tokens=self._counts.generated,
                prefilled_tokens=self._counts.prefilled,
                cached_tokens=self._counts.cached,
                preemptions=self._scheduler.preemptions,
                recomputed_tokens=self._counts.recomputed,
                **asdict(self._guess_counts),
            )

    def _check_room(self, request: GenerationRequest) -> None:
        with self._changed:
            if self._failure is not None:
                raise ShuttingDownError("The engine has failed and takes no more requests.")
            if self._draining or self._stopping:
                raise ShuttingDownError(
                    "The server is shutting down.", hint="Send the request to another server."
                )
            self._scheduler.check_room(request.n, len(request.prompt_ids))

    # --- the engine thread ----------------------------------------------------------------------

    def _loop(self) -> None:
        self._watchdog.start()
        try:
            self._watchdog.begin()
            self._warm_up()
            self._watchdog.end()
            while self._take_commands():
                self._watchdog.begin()
                self._guess()
                with self._changed:
                    step = self._scheduler.schedule()
                if step is not None:
                    self._carry_out(step)
                self._watchdog.end()
        except Exception as error:
            # What has been given up fails as it comes to its end: that is no news.
            self._failure = self._failure or error
        except BaseException as error:
            self._failure = RuntimeError(f"the engine thread was ended by {type(error).__name__}")
        finally:
            self._watchdog.end()
            self._watchdog.stop()
            self._abandon()

    def _warm_up(self) -> None:
        """Produce one token: the first request then meets a model that works and is in memory."""
        sequence = Sequence((0,), SamplingParams(), index=0, max_length=1)
        logits = self._runner.run(Step(0, (Row(sequence, past=0, new=1, draws=True),)))
        if not np.isfinite(logits).all():
            raise FloatingPointError("the model's logits are not finite")
        self._cache.carry_out(Release(0))
        with self._changed:
            self._warm = True
            self._changed.notify_all()

    def _take_commands(self) -> bool:
        """Wait until there is something to do; False when the engine must stop."""
        with self._changed:
            while not (self._stopping or self._scheduler.has_work):
                if self._admitted:
                    raise RuntimeError("the engine is idle, but not all sequences have ended")
                self._scheduler.check_idle()
                self._changed.wait()
            leaving = self._admitted.take_leaving()
        for sequence, error in leaving.items():
            reason = FinishReason.CANCELLED if error is None else FinishReason.ERROR
            self._tell([self._end(sequence, reason, error)])
        return not self._stopping

    def _guess(self) -> None:
        """Guess how those go on who decode in the next step."""
        if self._speculator is None:
            return
        with self._changed:
            decoding = [self._admitted[sequence] for sequence in self._scheduler.next_decoding]
        try:
            self._speculator.guess(decoding)
        except Exception:
            # Nobody needs guesses.
            _log.exception("Guessing tokens failed; there will be no more guesses.")
            self._speculator = None
            for choice in decoding:
                choice.sequence.guesses = ()

    def _carry_out(self, step: Step) -> None:
        # Here and not in the runner: a step that fails must not lose the cache of others.
        for operation in step.moves:
            self._cache.carry_out(operation)
        published: Published = []
        try:
            self._compute(step, published)
        finally:
            self._tell(published)

    def _compute(self, step: Step, published: Published) -> None:
        try:
            logits = self._runner.run(step)
        except Exception as error:
            _log.exception("A step over %d sequences failed.", len(list(step.active)))
            cause: Exception = self._too_long() if self.stalled else error
            for row in step.active:
                published.append(self._end(row.sequence, FinishReason.ERROR, cause))
            return
        drawing: list[tuple[Choice, NDArray[np.float32]]] = []
        first = 0
        for row in step.active:
            self._counts.advance(row.sequence, row.past + row.new - row.guesses)
            wanted, first = logits[first : first + row.wanted], first + row.wanted
            choice = self._admitted[row.sequence]
            try:
                if row.scored:
                    score_prompt(choice, row, wanted)
            except Exception as error:
                _log.exception("Scoring a prompt failed.")
                published.append(self._end(row.sequence, FinishReason.ERROR, error))
                continue
            if row.draws:
                drawing.append((choice, wanted[-1 - row.guesses :]))
        for (choice, _), result in zip(drawing, draw_tokens(drawing), strict=True):
            self._learn(choice.sequence, result)
            published.append(self._take(choice, result))

    def _learn(self, sequence: Sequence, drawn: GenerationDelta | Exception) -> None:
        """Guesses that were right are in the cache now; what is there of others does not count."""
        guesses, sequence.guesses = sequence.guesses, ()
        if not guesses or isinstance(drawn, Exception) or self._speculator is None:
            return
        right = len(drawn.token_ids) - 1
        self._counts.advance(sequence, sequence.num_computed + right)
        self._speculator.learn(sequence, len(guesses), right)

    def _take(
        self, choice: Choice, drawn: GenerationDelta | Exception
    ) -> tuple[Ticket, GenerationDelta]:
        if isinstance(drawn, Exception):
            return self._end(choice.sequence, FinishReason.ERROR, drawn)
        self._counts.generated += len(drawn.token_ids)
        if choice.prompt_logprobs:
            drawn = replace(drawn, prompt_logprobs=tuple(choice.prompt_logprobs))
            choice.prompt_logprobs.clear()
        if choice.sequence.is_finished:
            self._forget(choice.sequence)
        return choice.ticket, drawn

    def _end(
        self, sequence: Sequence, reason: FinishReason, cause: Exception | None = None
    ) -> tuple[Ticket, GenerationDelta]:
        """End a sequence from outside its own answer."""
        error: Exception | None = cause
        if cause is not None and not isinstance(cause, MrsError):
            error = EngineError("The model failed on this request.", hint="Try it again.")
            error.__cause__ = cause
        # What a step that failed has left in the cache is of no use.
        return self._forget(sequence, keep=cause is None).end(reason, error)

    def _forget(self, sequence: Sequence, *, keep: bool = True) -> Choice:
        with self._changed:
            self._scheduler.remove(sequence, keep=keep)
            operations = self._scheduler.take_operations()
        for operation in operations:
            self._cache.carry_out(operation)
        with self._changed:
            return self._admitted.remove(sequence)

    def _tell(self, published: Published) -> None:
        """Publish; what the callback cannot take is lost to its own requests alone."""
        if not published:
            return
        try:
            self._publish(published)
        except Exception:
            _log.exception("The results of a step could not be handed on.")
            for ticket, _ in published:
                self.cancel(ticket)

    def _too_long(self) -> EngineError:
        return EngineError(
            f"A step of the model took longer than {self._watchdog.limit:g} seconds.",
            hint="Try it again; the machine may be too busy, or short of memory.",
        )

    def _give_up_step(self) -> None:
        """A step neither ends nor can be interrupted; called on the watchdog's thread."""
        self._failure = self._failure or self._too_long()
        self._abandon()

    def _abandon(self) -> None:
        """The thread ends, or never will: everything that was admitted hears of it.

        Neither scheduler nor cache is relied on: it may be they that have failed.
        """
        with self._changed:
            self._stopping = True
            left = self._admitted.take_all()
            self._scheduler = Scheduler(self._scheduler.config)
            self._changed.notify_all()
        if self._failure is None:
            self._tell([choice.end(FinishReason.CANCELLED) for choice in left])
            return
        error = EngineError("The engine failed.", hint="Start it again.")
        error.__cause__ = self._failure
        self._tell([choice.end(FinishReason.ERROR, error) for choice in left])
        if self._warm:
            _log.critical("The engine thread died.", exc_info=self._failure)
