"""What of JSON-Schema-Test-Suite passed must pass, and no invalid instance may newly be taken.

The suite is not part of this repository: ``make schema-suite`` fetches it and runs this.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mrs.runtime.grammar.compiler import GrammarCompiler
from tests.runtime.grammar.schema_suite import OUTCOMES, Outcome, run_suite

VARIABLE = "MRS_JSON_SCHEMA_TEST_SUITE"


@pytest.mark.skipif(
    VARIABLE not in os.environ, reason=f"{VARIABLE} names no folder; make schema-suite"
)
def test_outcomes_only_get_better(compiler: GrammarCompiler) -> None:
    expected = json.loads(OUTCOMES.read_text(encoding="utf-8"))
    found = run_suite(Path(os.environ[VARIABLE]), compiler)
    lost = [
        case
        for case, outcome in expected.items()
        if outcome == Outcome.PASS and found.get(case) is not Outcome.PASS
    ]
    wrongly_taken = [
        case
        for case, outcome in found.items()
        if outcome is Outcome.FALSE_POSITIVE and expected.get(case) != Outcome.FALSE_POSITIVE
    ]
    assert not lost
    assert not wrongly_taken
    better = [
        case for case in found if found[case] is Outcome.PASS and expected.get(case) != Outcome.PASS
    ]
    assert not better, "write the list anew: more passes"
