"""Answers that are whole when their last token is drawn.

A model may go on with a string, a list or nested objects for ever. Near the limit of an answer a
plan is kept: tokens that would make what is there whole. A token that leaves no plan short enough
is not taken; the first token of the plan is, instead. So once there was a plan, the answer ends
whole, however good or bad the plans are; they decide only how early one must be followed.

Far from the limit it is looked at in growing distances, a sixteenth of the tokens to spare.
"""

from __future__ import annotations

from collections.abc import Iterator

from mrs.runtime.grammar.matcher import GrammarMatcher
from mrs.runtime.grammar.plan_search import Plan, PlanSearch
from mrs.runtime.grammar.preferences import TokenPreferences
from mrs.runtime.grammar.probe import Probe
from mrs.runtime.grammar.stats import GrammarStats
from mrs.runtime.grammar.vocabulary import GrammarVocabulary

_NEAR = 128
_STRIDE = 16
_MOST_STEPS = 2000
_LONGEST_PLAN = 2000
_FIRST_STEPS = 1000


class CompletionPlanner:
    """Keeps a plan for one answer. For the engine's thread.

    Args:
        matcher: of the answer; only asked and copied here.
        preferences: which tokens lead to an end.
        vocabulary: the model's.
        stats: what is counted.
        first: a plan from the beginning of the grammar, see `first_plan`; None if there is none.
    """

    def __init__(
        self,
        matcher: GrammarMatcher,
        preferences: TokenPreferences,
        vocabulary: GrammarVocabulary,
        stats: GrammarStats,
        first: Plan | None,
    ) -> None:
        self._matcher = matcher
        self._preferences = preferences
        self._pieces = vocabulary.pieces
        self._spell = vocabulary.spell
        self._stats = stats
        self._plan = None if first is None else list(first)
        self._check_at: int | None = None
        self._steps = _MOST_STEPS

    def settle(self, token: int, remaining: int) -> int:
        """The token to take, where ``remaining`` may come, this one included."""
        if self._check_at is None:
            self._check_at = _next_check(remaining, len(self._plan or ()))
        if remaining > self._check_at:
            self._plan = None
            return token
        probe = self._matcher.probe()
        after = self._plan_after(probe, token, remaining - 1)
        if after is not None:
            self._plan = after
            self._check_at = _next_check(remaining - 1, len(after))
            return token
        if self._plan is None and self._steps > 0 and not probe.accepting:
            self._plan = self._thorough(probe.copy(), remaining)
        if self._plan and len(self._plan) <= remaining:
            self._stats.steered += 1
            return self._plan.pop(0)
        # No way is known, or what is there is whole and would be no more: then it is cut here.
        self._check_at = remaining - 1 - remaining // _STRIDE
        return token

    def _plan_after(self, probe: Probe, token: int, limit: int) -> Plan | None:
        """How to make the answer whole after this token, in at most ``limit`` others."""
        for rest in () if self._plan is None else self._rests(self._plan, token):
            if len(rest) <= limit and probe.completed_by([token, *rest]):
                return rest
        after = probe.copy()
        if self._steps <= 0 or not after.take(token):
            return None
        search = PlanSearch(self._preferences, limit, self._plan)
        plan = search.glance(after)
        self._steps -= search.steps
        return plan

    def _rests(self, plan: Plan, token: int) -> Iterator[Plan]:
        """What may be left of a plan after a token that may not be its first."""
        text = self._pieces[token]
        for count, planned in enumerate(plan):
            piece = self._pieces[planned]
            if piece.startswith(text):
                yield [*self._spell(piece[len(text) :]), *plan[count + 1 :]]
            if not piece or not text.startswith(piece):
                break
            text = text[len(piece) :]
            if not text:
                break
        # Beside the plan, as white space is, or instead of its beginning.
        yield from (plan[start:] for start in range(min(3, len(plan))))

    def _thorough(self, probe: Probe, limit: int) -> Plan | None:
        search = PlanSearch(self._preferences, limit, most_steps=min(150, self._steps))
        plan = search.run(probe)
        self._steps -= search.steps
        return plan


def first_plan(preferences: TokenPreferences, beginning: Probe) -> Plan | None:
    """A plan from the beginning of a grammar. It may take long; no answer waits for it."""
    return PlanSearch(preferences, _LONGEST_PLAN, most_steps=_FIRST_STEPS).run(beginning)


def _next_check(remaining: int, needed: int) -> int:
    """How many tokens may be left when a plan is looked at again.

    Near the limit that is at each token; one token may start something that takes many to end.
    """
    spare = remaining - needed
    return remaining if spare <= _NEAR + needed else remaining - spare // _STRIDE
