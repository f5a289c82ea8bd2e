"""JSON-Schema-Test-Suite as an oracle over the matcher: what it takes and what it refuses.

As a program: ``python -m tests.runtime.grammar.schema_suite FOLDER`` tells the counts, and with
``--write`` makes the list of outcomes that `test_schema_suite.py` holds later versions to.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

from mrs.runtime.grammar import InvalidGrammarError, json_schema_grammar
from mrs.runtime.grammar.compiler import GrammarCompiler
from mrs.runtime.grammar.constraint import GrammarConstraint
from tests.runtime.grammar.vocabularies import accepts, constrained, small_compiler

DRAFT = "draft2020-12"
OUTCOMES = Path(__file__).parents[2] / "data" / "json_schema_suite" / f"{DRAFT}.json"


class Outcome(StrEnum):
    """What became of one case of the suite."""

    PASS = "pass"
    FALSE_NEGATIVE = "false_negative"
    """A valid instance is refused."""
    FALSE_POSITIVE = "false_positive"
    """An instance that is not valid is taken."""
    COMPILE_ERROR = "compile_error"
    """The schema is refused, and so nothing is generated for it."""


def run_suite(folder: Path, compiler: GrammarCompiler) -> dict[str, Outcome]:
    """The outcome of each case: ``file / schema / instance``.

    Args:
        folder: of the suite: it holds ``tests/draft2020-12``.
        compiler: of a vocabulary that can spell everything.
    """
    outcomes: dict[str, Outcome] = {}
    for file in sorted((folder / "tests" / DRAFT).glob("*.json")):
        for group in json.loads(file.read_text(encoding="utf-8")):
            for case, outcome in _outcomes(group, compiler):
                outcomes[f"{file.stem} / {group['description']} / {case}"] = outcome
    return outcomes


def _outcomes(group: dict[str, Any], compiler: GrammarCompiler) -> Iterator[tuple[str, Outcome]]:
    constraint: GrammarConstraint | None
    try:
        constraint = constrained(compiler, json_schema_grammar(group["schema"]))
    except InvalidGrammarError:
        constraint = None
    for case in group["tests"]:
        yield case["description"], _outcome(constraint, case["data"], case["valid"])


def _outcome(constraint: GrammarConstraint | None, instance: Any, valid: bool) -> Outcome:
    if constraint is None:
        return Outcome.COMPILE_ERROR
    if accepts(constraint, json.dumps(instance, ensure_ascii=False)) is valid:
        return Outcome.PASS
    return Outcome.FALSE_NEGATIVE if valid else Outcome.FALSE_POSITIVE


def main() -> None:
    compiler = small_compiler()
    try:
        outcomes = run_suite(Path(sys.argv[1]), compiler)
    finally:
        compiler.close()
    for outcome, count in sorted(Counter(outcomes.values()).items()):
        print(f"{outcome}: {count}")
    if "--write" in sys.argv:
        text = json.dumps(outcomes, indent=0, sort_keys=True, ensure_ascii=False)
        OUTCOMES.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
