"""Where one answer is in its grammar."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

from mrs.runtime.grammar.errors import GrammarStuckError
from mrs.runtime.grammar.probe import Probe
from mrs.runtime.grammar.stats import GrammarStats
from mrs.runtime.grammar.token_mask import Bits, fill_mask
from mrs.runtime.grammar.workers import Workers

if TYPE_CHECKING:
    import llguidance

_log = logging.getLogger(__name__)
Result = TypeVar("Result")


class GrammarMatcher:
    """Follows the tokens of one answer and tells which may come next.

    The mask of the next token is computed beside whatever the caller does, from the moment the last
    one was accepted. For one thread at a time.

    Args:
        matcher: llguidance's; it belongs to this object from now on.
        workers: compute masks.
        stats: what is counted.
        mask_bytes: size of a mask.
        end: an end of sequence.
        first_mask: the mask of the state that ``matcher`` is in, if it is known.
        broken: called once if the library fails: what shares its state should not be used.
    """

    def __init__(
        self,
        matcher: llguidance.LLMatcher,
        workers: Workers,
        stats: GrammarStats,
        *,
        mask_bytes: int,
        end: int,
        first_mask: Bits | None = None,
        broken: Callable[[], None] = lambda: None,
    ) -> None:
        self._matcher = matcher
        self._mask_bytes = mask_bytes
        self._end = end
        self._workers = workers
        self._stats = stats
        self._mask = first_mask
        self._pending: Future[Bits] | None = None
        self._broken = broken
        self._accepting: bool | None = None
        self._stopped: bool | None = None
        self._forced: tuple[int, ...] | None = None
        self._foresees = False

    def mask(self) -> Bits:
        """The tokens that may come next, ends of sequence among them where the grammar accepts.

        Not to be changed. After the last possible token, only the ends are left.

        Raises:
            GrammarStuckError: none may come, or the library gave up.
        """
        if self._mask is None:
            pending = self._pending or self._start()
            started = time.perf_counter()
            self._mask = self._finished(pending)
            self._stats.waited_seconds += time.perf_counter() - started
        return self._mask

    @property
    def accepting(self) -> bool:
        """What is there is whole: an end of sequence may come."""
        if self._accepting is None:
            self._accepting = self._call(lambda matcher: matcher.is_accepting())
        return self._accepting

    @property
    def stopped(self) -> bool:
        """What is there is whole, and nothing but an end of sequence may come."""
        if self._stopped is None:
            self._stopped = self._call(lambda m: m.is_stopped() and not m.is_error())
        return self._stopped

    def accept(self, *tokens: int) -> None:
        """Take the next tokens; not an end of sequence.

        Raises:
            GrammarStuckError: one of them is not allowed.
        """
        taken = self._call(lambda matcher: matcher.consume_tokens(list(tokens)))
        self._forget_state()
        if not taken:
            raise self._stuck(f"the tokens {tokens} are not allowed")
        # What is asked while the mask is computed must be known before.
        if not self.stopped and self.accepting is not None:
            if self._foresees:
                self.forced_tokens()
            self._start()

    def validate(self, tokens: Sequence[int]) -> int:
        """How many of these tokens could come next, one after the other."""
        if not tokens or tuple(tokens) == (self._forced or ())[: len(tokens)]:
            return len(tokens)
        return self._call(lambda matcher: matcher.validate_tokens(list(tokens)))

    def forced_tokens(self) -> tuple[int, ...]:
        """The tokens that must come next, as the model would cut their text; often none.

        Who has asked once gets them without waiting for the mask from then on.
        """
        self._foresees = True
        if self._forced is None:
            self._forced = tuple(self._call(lambda matcher: matcher.compute_ff_tokens()))
        return self._forced

    def rollback(self, count: int) -> None:
        """Take the last ``count`` tokens back.

        Raises:
            GrammarStuckError: there are not so many, or the library has failed before.
        """
        if not count:
            return
        undone = self._call(lambda matcher: matcher.rollback(count))
        self._forget_state()
        if not undone:
            raise self._stuck(f"{count} tokens cannot be taken back")

    def probe(self) -> Probe:
        """A copy to try things with."""
        return self._call(lambda matcher: Probe(matcher.deep_copy(), self._mask_bytes, self._end))

    def _forget_state(self) -> None:
        self._mask = self._accepting = self._stopped = self._forced = None

    def _start(self) -> Future[Bits]:
        self._pending = pending = self._workers.submit(self._fill)
        return pending

    def _finished(self, pending: Future[Bits]) -> Bits:
        self._pending = None
        try:
            return pending.result()
        except GrammarStuckError:
            raise
        except BaseException as error:
            raise self._stuck(str(error)) from error

    def _fill(self) -> Bits:
        started = time.perf_counter()
        mask = fill_mask(self._matcher, self._mask_bytes)
        if self._matcher.is_error():
            raise self._stuck(self._matcher.get_error())
        mask.flags.writeable = False
        self._stats.count_mask(time.perf_counter() - started)
        return mask

    def _call(self, function: Callable[[llguidance.LLMatcher], Result]) -> Result:
        """Ask the library, once it has done what it was asked before."""
        if self._pending is not None:
            try:
                self._mask = self._finished(self._pending)
            except GrammarStuckError:
                self._mask = None  # Whoever asks for the mask hears of it.
        try:
            return function(self._matcher)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            raise self._stuck(str(error)) from error

    def _stuck(self, reason: str) -> GrammarStuckError:
        self._broken()
        reason = reason.split("\n", 1)[0]
        _log.warning("A grammar cannot be followed: %s", reason)
        return GrammarStuckError(f"The grammar cannot be followed any further: {reason:.300}.")
