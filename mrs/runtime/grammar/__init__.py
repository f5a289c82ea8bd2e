"""Grammars: what an answer must match, and the tokens that this leaves.

The only part of mrs that knows llguidance, and it imports it on first use.
"""

from mrs.runtime.grammar.errors import GrammarStuckError, InvalidGrammarError
from mrs.runtime.grammar.kinds import (
    choice_grammar,
    json_object_grammar,
    json_schema_grammar,
    lark_grammar,
    llguidance_grammar,
    regex_grammar,
)

__all__ = [
    "GrammarStuckError",
    "InvalidGrammarError",
    "choice_grammar",
    "json_object_grammar",
    "json_schema_grammar",
    "lark_grammar",
    "llguidance_grammar",
    "regex_grammar",
]
