"""Compiles grammars for one model, once each."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mrs.runtime.generation import Grammar, SamplingParams
from mrs.runtime.grammar import limits
from mrs.runtime.grammar.completion import CompletionPlanner, first_plan
from mrs.runtime.grammar.constraint import GrammarConstraint
from mrs.runtime.grammar.diagnosis import not_compiled
from mrs.runtime.grammar.errors import GrammarBusyError, InvalidGrammarError
from mrs.runtime.grammar.matcher import GrammarMatcher
from mrs.runtime.grammar.plan_search import Plan
from mrs.runtime.grammar.preferences import TokenPreferences
from mrs.runtime.grammar.probe import Probe
from mrs.runtime.grammar.sandbox import Sandbox
from mrs.runtime.grammar.sources import compilable, required_names
from mrs.runtime.grammar.stats import GrammarStats
from mrs.runtime.grammar.token_mask import Bits, fill_mask
from mrs.runtime.grammar.vocabulary import GrammarVocabulary
from mrs.runtime.grammar.workers import Workers

if TYPE_CHECKING:
    import llguidance

_MASK_WORKERS = 2
_BYTES_PER_SOURCE_BYTE = 64
_BYTES_PER_LEXER = 512 * 1024

_Key = tuple[str, bytes]


@dataclass(eq=False)
class _Compiled:
    """A grammar, ready to be followed.

    Attributes:
        matcher: at its beginning; it is copied and never moved.
        first_mask: of that state.
        preferences: which tokens lead to an end.
        plan: some that do, from the beginning.
        size: an estimate of its memory, in bytes.
        tokens: tokens of answers that its lexer has seen.
        broken: the library has failed on it.
    """

    matcher: llguidance.LLMatcher
    first_mask: Bits
    preferences: TokenPreferences
    plan: Plan | None
    size: int
    tokens: int = 0
    broken: bool = False

    @property
    def worn(self) -> bool:
        """Its lexer may have grown large, or is of no use any more."""
        return self.broken or self.tokens > limits.MOST_TOKENS_OF_ONE_LEXER


@dataclass(eq=False)
class _Refused:
    """What is wrong with a grammar."""

    error: InvalidGrammarError
    size: int = field(default=1024)


class GrammarCompiler:
    """Grammars of one model: compiled off the caller's thread, within limits, and kept.

    Each is tried in a process of its own first, which can be killed. All methods are thread-safe;
    nothing is imported, started or allocated before the first grammar comes.

    Args:
        vocabulary: the model's tokens.
        seconds: how long compiling may take.
    """

    def __init__(
        self, vocabulary: GrammarVocabulary, *, seconds: float = limits.COMPILE_SECONDS
    ) -> None:
        self._vocabulary = vocabulary
        self._seconds = seconds
        self.stats = GrammarStats()
        self._kept: OrderedDict[_Key, _Compiled | _Refused] = OrderedDict()
        self._lock = threading.Lock()
        self._compiling = threading.Lock()
        self._sandbox: Sandbox | None = None
        self._compilers: Workers | None = None
        self._masks: Workers | None = None

    def warm_up(self) -> None:
        """Make what all grammars share; holds the interpreter's lock for up to two seconds.

        Who does not call this has the first grammar do it, and all other threads stand still.
        """
        with self._compiling:
            self._vocabulary.warm_up()

    def compile(self, grammar: Grammar) -> None:
        """Compile a grammar, so that `constraint` need not; blocks for milliseconds to seconds.

        Raises:
            InvalidGrammarError: it does not compile, is beyond the limits, or matches no text.
            GrammarBusyError: too many others are being compiled.
        """
        self._get(grammar)

    def is_compiled(self, grammar: Grammar) -> bool:
        """Whether `compile` would only look it up."""
        with self._lock:
            kept = self._kept.get(_key(grammar))
            return isinstance(kept, _Refused) or (kept is not None and not kept.worn)

    def constraint(self, sampling: SamplingParams) -> GrammarConstraint | None:
        """What follows the grammar of a sequence, from its first token; None if it has none.

        Raises:
            InvalidGrammarError: as `compile`, which is called if it was not before.
        """
        if sampling.grammar is None:
            return None
        compiled = self._get(sampling.grammar)
        assert self._masks is not None

        def fail() -> None:
            compiled.broken = True

        def count() -> None:
            compiled.tokens += 1

        matcher = GrammarMatcher(
            compiled.matcher.deep_copy(),
            self._masks,
            self.stats,
            mask_bytes=self._vocabulary.mask_bytes,
            end=self._vocabulary.end,
            first_mask=compiled.first_mask,
            broken=fail,
        )
        planner = CompletionPlanner(
            matcher, compiled.preferences, self._vocabulary, self.stats, compiled.plan
        )
        return GrammarConstraint(matcher, planner, self._vocabulary, sampling, accepted=count)

    def close(self) -> None:
        """End process and threads. Constraints that are in use still work."""
        with self._lock:
            self._kept.clear()
        if self._sandbox is not None:
            self._sandbox.close()
        for workers in (self._compilers, self._masks):
            if workers is not None:
                workers.close()

    def _get(self, grammar: Grammar) -> _Compiled:
        key = _key(grammar)
        found = self._look_up(key)
        if found is None:
            started = time.perf_counter()
            source = compilable(grammar)
            if not self._compiling.acquire(timeout=limits.WAIT_SECONDS):
                raise GrammarBusyError("Too many grammars are being compiled.", hint="Try again.")
            try:
                found = self._look_up(key) or self._make(grammar, source, key)
            finally:
                self._compiling.release()
            self.stats.compile_seconds += time.perf_counter() - started
        else:
            self.stats.cache_hits += 1
        if isinstance(found, _Refused):
            self.stats.refused += 1
            raise InvalidGrammarError(found.error.message, hint=found.error.hint)
        return found

    def _look_up(self, key: _Key) -> _Compiled | _Refused | None:
        with self._lock:
            found = self._kept.get(key)
            if isinstance(found, _Compiled) and found.worn:
                del self._kept[key]
                return None
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def _make(self, grammar: Grammar, source: str, key: _Key) -> _Compiled | _Refused:
        made: _Compiled | _Refused
        try:
            made = self._compiled(grammar, source)
        except InvalidGrammarError as error:
            made = _Refused(error)
        with self._lock:
            self._kept[key] = made
            while len(self._kept) > limits.MOST_CACHED or (
                len(self._kept) > 1 and self._kept_bytes > limits.MOST_CACHED_BYTES
            ):
                self._kept.popitem(last=False)
        return made

    @property
    def _kept_bytes(self) -> int:
        return sum(kept.size for kept in self._kept.values())

    def _compiled(self, grammar: Grammar, source: str) -> _Compiled:
        self._prepare()
        assert self._sandbox is not None and self._compilers is not None
        error = self._sandbox.try_out(source)
        if error is not None:
            raise not_compiled(grammar, error)
        compiling = self._compilers.submit(lambda: self._build(grammar, source))
        try:
            compiled = compiling.result(4 * self._seconds)
        except TimeoutError as late:  # In the trial it did not: the machine is busy, or worse.
            self._compilers = None
            raise InvalidGrammarError(
                f"The grammar takes more than {4 * self._seconds:g} seconds to compile."
            ) from late
        self.stats.compiled += 1
        return compiled

    def _prepare(self) -> None:
        """Start what is not there yet; under the lock of compiling."""
        if self._compilers is None:
            self._compilers = Workers("mrs-grammar", 1)
        if self._masks is None:
            self._masks = Workers("mrs-mask", _MASK_WORKERS)
        if self._sandbox is None:
            self._sandbox = Sandbox(
                {
                    **self._vocabulary.describe(),
                    "limits": limits.PARSER_LIMITS,
                    "bytes": limits.COMPILE_BYTES,
                    "stack": limits.TRIAL_STACK_BYTES,
                    "seconds": self._seconds,
                },
                seconds=self._seconds,
            )

    def _build(self, grammar: Grammar, source: str) -> _Compiled:
        import llguidance

        parser_limits = llguidance.LLParserLimits(**limits.PARSER_LIMITS)
        try:
            matcher = llguidance.LLMatcher(
                self._vocabulary.library_tokenizer, source, log_level=0, limits=parser_limits
            )
            mask = None if matcher.is_error() else fill_mask(matcher, self._vocabulary.mask_bytes)
            error = matcher.get_error()
        except BaseException as panic:  # a panic of the library is no Exception
            error = f"panic: {panic}"
        if error or mask is None:
            raise not_compiled(grammar, error)
        mask.flags.writeable = False
        vocabulary = self._vocabulary
        preferences = vocabulary.preferences.with_names(required_names(grammar), vocabulary.ids)
        beginning = Probe(matcher.deep_copy(), vocabulary.mask_bytes, vocabulary.end)
        return _Compiled(
            matcher,
            mask,
            preferences,
            first_plan(preferences, beginning),
            size=_BYTES_PER_LEXER + len(mask) + _BYTES_PER_SOURCE_BYTE * len(source),
        )


def _key(grammar: Grammar) -> _Key:
    digest = hashlib.sha256(grammar.source.encode("utf-8", "surrogatepass")).digest()
    return grammar.kind.value, digest
