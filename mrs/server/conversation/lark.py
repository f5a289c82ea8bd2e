"""Writes grammars in the Lark dialect of llguidance.

https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from mrs.errors import InvalidValueError
from mrs.runtime.generation import Grammar, GrammarKind
from mrs.runtime.grammar.sources import embeddable
from mrs.runtime.literals import any_of

ANY_TEXT = r"/(?s:.*)/"


class LarkBuilder:
    """The rules of one grammar.

    Args:
        special_tokens: control tokens by their text. They are no text to a grammar: a literal that
            spells one means the token.
    """

    def __init__(self, special_tokens: Mapping[str, int]) -> None:
        self._ids = special_tokens
        pattern = any_of(special_tokens)
        self._special = re.compile(pattern) if pattern else None
        self._rules: list[str] = []
        self._included: list[Any] = []

    def rule(self, body: str, attributes: str = "") -> str:
        """Add a rule; its name."""
        name = f"rule_{len(self._rules)}"
        self._rules.append(f"{name}{attributes}: {body}")
        return name

    def terminal(self, body: str) -> str:
        """Add a terminal, which may hold ``&`` and ``~``; its name."""
        name = f"TERMINAL_{len(self._rules)}"
        self._rules.append(f"{name}: {body}")
        return name

    def json(self, schema: Mapping[str, Any] | bool) -> str:
        """What matches a JSON schema."""
        if isinstance(schema, Mapping):
            schema = embeddable(schema)
        return self.rule("%json " + json.dumps(schema))

    def literal(self, text: str) -> str:
        """What matches exactly this text."""
        parts: list[str] = []
        end = 0
        for match in self._special.finditer(text) if self._special else ():
            parts += self._quoted(text[end : match.start()])
            parts.append(f"<[{self._ids[match.group()]}]>")
            end = match.end()
        parts += self._quoted(text[end:])
        return " ".join(parts) or '""'

    def text_up_to(self, marker: str) -> str:
        """What matches any text without ``marker``, and then the marker."""
        if marker in self._ids:
            return f"{self.rule(ANY_TEXT)} {self.literal(marker)}"
        return self.rule(ANY_TEXT, f"[suffix={json.dumps(marker)}]")

    def include(self, grammar: Grammar) -> str:
        """What matches another grammar, in Lark or in llguidance's own form.

        Raises:
            InvalidValueError: it is not well-formed.
        """
        name = f"included_{len(self._included)}"
        if grammar.kind is GrammarKind.LARK:
            self._included.append({"name": name, "lark_grammar": grammar.source})
            return "@" + name
        try:
            first, *others = json.loads(grammar.source)["grammars"]
            self._included += [{**first, "name": name}, *others]
        except (ValueError, TypeError, KeyError) as error:
            raise InvalidValueError(
                "The grammar is not of llguidance's form: a JSON object with 'grammars'.",
                param="grammar",
            ) from error
        return "@" + name

    def grammar(self, start: str) -> Grammar:
        """The whole grammar."""
        source = "\n".join([f"start: {start}", *self._rules, ""])
        if not self._included:
            return Grammar(GrammarKind.LARK, source)
        grammars = [{"lark_grammar": source}, *self._included]
        return Grammar(GrammarKind.LLGUIDANCE, json.dumps({"grammars": grammars}))

    @staticmethod
    def _quoted(text: str) -> list[str]:
        return [json.dumps(text, ensure_ascii=False)] if text else []


def one_of(alternatives: list[str]) -> str:
    """What matches any of these."""
    return alternatives[0] if len(alternatives) == 1 else f"({' | '.join(alternatives)})"
