"""How large a grammar may be, and what may be spent on it."""

from __future__ import annotations

from typing import Any, Final

MOST_SOURCE_BYTES: Final = 256 * 1024
"""Of one grammar, as it is written."""

MOST_SCHEMA_DEPTH: Final = 64
"""Levels of nesting in a JSON schema; the library's own parser gives up at 128."""

COMPILE_SECONDS: Final = 5.0
"""Processor and wall time for one grammar, in the process that tries it."""

COMPILE_BYTES: Final = 1 << 30
"""Address space of the process that tries grammars."""

TRIAL_STACK_BYTES: Final = 8 << 20
WORKER_STACK_BYTES: Final = 8 * TRIAL_STACK_BYTES
"""What has compiled on the first of these stacks cannot overflow the second."""

WAIT_SECONDS: Final = 15.0
"""How long a grammar waits for others to be compiled."""

MOST_CACHED: Final = 128
MOST_CACHED_BYTES: Final = 128 << 20
"""Compiled grammars that are kept for others who ask for the same."""

MOST_TOKENS_OF_ONE_LEXER: Final = 50_000
"""After so many tokens a grammar is compiled anew: its lexer keeps each state it was ever in."""

PARSER_LIMITS: Final[dict[str, Any]] = {
    "max_items_in_row": 2000,
    "initial_lexer_fuel": 1_000_000,
    "step_lexer_fuel": 200_000,
    "step_max_items": 50_000,
    "max_lexer_states": 50_000,
    "max_grammar_size": 200_000,
    "verbose_errors": False,
}
"""llguidance's own: at most some 20 ms of work for one mask, and 100 MB for one lexer."""
