"""Looks for tokens that make a text whole, in a grammar of which only the masks are known."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from dataclasses import dataclass

from mrs.runtime.grammar.preferences import TokenPreferences
from mrs.runtime.grammar.probe import Probe
from mrs.runtime.grammar.token_mask import Bits

Plan = list[int]

_FIRST_WALK = 160
_LAST_WALK = 512
_CIRCLE = 12
_MOST_EXPANDED = 128
_WAYS = 96

# What a step in the search for a way out of a circle costs.
_DETOUR = 1.0
_LATER_WAY = 0.02
_SEEN_BEFORE = 0.3
_FREE_VISITS = 2


@dataclass(frozen=True)
class _Step:
    """A token that may be taken from a state that was reached."""

    before: Probe
    path: Plan
    token: int

    def take(self) -> tuple[Probe, Plan] | None:
        """The state after it, and the way there."""
        probe = self.before.copy()
        return (probe, [*self.path, self.token]) if probe.take(self.token) else None


class PlanSearch:
    """One search: the way that the preferences point to, and where it goes in circles, others.

    Two states with the same mask are taken for the same, which is how circles are noticed. What is
    found does not depend on how busy the machine is: steps are bounded, and not time.

    Args:
        preferences: which tokens lead to an end.
        limit: longest plan that is of use.
        known: a plan that may do from some state on, or None.
        most_steps: after so many steps no new way is tried.

    Attributes:
        steps: masks that were computed.
    """

    def __init__(
        self,
        preferences: TokenPreferences,
        limit: int,
        known: Plan | None = None,
        most_steps: int = 600,
    ) -> None:
        self._preferences = preferences
        self._limit = limit
        self._known = known
        self._most_steps = most_steps
        self.steps = 0
        self._seen: set[bytes] = set()

    def glance(self, start: Probe) -> Plan | None:
        """As `run`, but nothing is tried beside the first way, and that only if it is short."""
        path: Plan = []
        return path if self._walk(start, path, _FIRST_WALK, watchful=True) is None else None

    def run(self, start: Probe) -> Plan | None:
        """A plan from this state, which is changed, or None."""
        path: Plan = []
        circle = self._walk(start, path, _FIRST_WALK, watchful=True)
        while circle is not None and self.steps < self._most_steps:
            outside = self._leave(*circle)
            if outside is None:
                break
            probe, way = outside
            if (circle := self._walk(probe, way, _FIRST_WALK, watchful=True)) is None:
                return way
        if circle is None:
            return path
        # It may be no circle but a long way, say to a least length.
        return path if self._walk(start, path, _LAST_WALK) is None else None

    def _walk(
        self, probe: Probe, path: Plan, most: int, *, watchful: bool = False
    ) -> tuple[Probe, Plan] | None:
        """Follow the preferences, appending to ``path``.

        Returns:
            None at the end of a text; otherwise a state that may be the first of a circle, and the
            way there. A watchful walk ends when nothing new has come for a while.
        """
        firsts: dict[bytes, tuple[Probe, Plan]] = {}
        state = b""
        nothing_new = 0
        for _ in range(most):
            if (end := self._end(probe, len(path))) is not None:
                path += end
                return None
            mask = self._mask(probe)
            state = mask.tobytes()
            self._seen.add(state)
            nothing_new += 1
            if state not in firsts:
                firsts[state] = probe.copy(), list(path)
                nothing_new = 0
            token = next(self._preferences.ordered(mask, 1), None)
            circles = watchful and nothing_new > _CIRCLE
            if circles or len(path) >= self._limit or token is None or not probe.take(token):
                break
            nothing_new -= self._preferences.closes(token)
            path.append(token)
        return firsts[state] if firsts else (probe, path)

    def _end(self, probe: Probe, taken: int) -> Plan | None:
        """What makes the text whole here, if that is known and short enough."""
        if probe.accepting:
            return [] if taken <= self._limit else None
        known = self._known
        if known and taken + len(known) <= self._limit and probe.completed_by(known):
            return known
        return None

    def _mask(self, probe: Probe) -> Bits:
        self.steps += 1
        return probe.mask()

    def _leave(self, circle: Probe, way: Plan) -> tuple[Probe, Plan] | None:
        """The nearest state that was never seen, and the way there.

        Best first, where the cost is how often the preferences were not followed.
        """
        order = itertools.count()
        visits: Counter[bytes] = Counter()
        waiting: list[tuple[float, int, int, _Step]] = []
        reached: tuple[Probe, Plan] | None = circle, way
        cost = 0.0
        for _ in range(_MOST_EXPANDED):
            if reached is not None and len(reached[1]) < self._limit:
                probe, path = reached
                if probe.accepting:
                    return reached
                mask = self._mask(probe)
                state = mask.tobytes()
                if state not in self._seen:
                    return reached
                visits[state] += 1
                circling = _SEEN_BEFORE if visits[state] > _FREE_VISITS else 0.0
                for place, token in enumerate(self._preferences.ordered(mask, _WAYS)):
                    detour = _DETOUR + _LATER_WAY * place if place else 0.0
                    step = _Step(probe, path, token)
                    # Of equal costs, the longer way is nearer to something new.
                    entry = cost + circling + detour, -len(path), next(order), step
                    heapq.heappush(waiting, entry)
            if not waiting:
                return None
            cost, _, _, step = heapq.heappop(waiting)
            reached = step.take()
        return None
