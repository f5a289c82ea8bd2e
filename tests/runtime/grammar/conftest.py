from __future__ import annotations

from collections.abc import Iterator

import pytest

from mrs.runtime.grammar.compiler import GrammarCompiler
from tests.runtime.grammar.vocabularies import small_compiler


@pytest.fixture(scope="session")
def compiler() -> Iterator[GrammarCompiler]:
    """One for all tests, as a model has one for all requests."""
    made = small_compiler()
    yield made
    made.close()
