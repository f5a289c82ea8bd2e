"""What can be wrong with a grammar."""

from __future__ import annotations

from mrs.errors import InvalidValueError, RequestError


class InvalidGrammarError(InvalidValueError):
    """A grammar does not compile, is beyond the limits, or matches no text."""

    code = "invalid_grammar"


class GrammarBusyError(RequestError):
    """All that compile grammars are at work on others for too long."""

    code = "grammar_busy"
    status = 503
    retry_after = 2


class GrammarStuckError(RequestError):
    """No token can continue an answer that its grammar does not accept yet."""

    code = "grammar_stuck"
    status = 500
