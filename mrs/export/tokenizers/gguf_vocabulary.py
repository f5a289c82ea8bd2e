"""The ``tokenizer.*`` keys of GGUF metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from mrs.errors import CorruptCheckpointError
from mrs.export.checkpoints.checkpoint import MetadataValue
from mrs.export.tokenizers.token_types import TokenType, effective_types

_PREFIX = "tokenizer.ggml."

Element = TypeVar("Element", int, str)


class GgufVocabulary:
    """The keys, checked on the way out: each getter raises `CorruptCheckpointError`."""

    def __init__(self, metadata: Mapping[str, MetadataValue]) -> None:
        self._metadata = metadata

    @property
    def model(self) -> str:
        """The kind of vocabulary: ``gpt2``, ``llama``, ``t5``, ``bert``."""
        model = self.text("model")
        if model is None:
            raise CorruptCheckpointError(
                "The checkpoint holds no vocabulary: it lacks tokenizer.ggml.model."
            )
        return model

    @property
    def model_name(self) -> str:
        """What the checkpoint calls itself, in lower case."""
        name = self._metadata.get("general.name")
        return name.lower() if isinstance(name, str) else ""

    def tokens(self) -> list[str]:
        """The tokens, distinct and not empty."""
        stored = self._list("tokens", str)
        if not stored:
            raise CorruptCheckpointError(
                "The vocabulary has no tokens: tokenizer.ggml.tokens is missing or empty."
            )
        # An empty token can never occur in text. llama.cpp's name for it keeps it distinct.
        tokens = [token or f"[EMPTY_{index}]" for index, token in enumerate(stored)]
        seen: dict[str, int] = {}
        for index, token in enumerate(tokens):
            if seen.setdefault(token, index) != index:
                raise CorruptCheckpointError(
                    f"Tokens {seen[token]} and {index} are both {token[:60]!a}."
                )
        return tokens

    def types(self, tokens: list[str]) -> list[TokenType]:
        """One type per token."""
        stored = self._list("token_type", int)
        if stored is not None and len(stored) != len(tokens):
            raise CorruptCheckpointError(
                f"The vocabulary has {len(tokens)} tokens but {len(stored)} token types."
            )
        return list(effective_types(tokens, stored))

    def scores(self, tokens: list[str]) -> list[float]:
        """How likely each token is; all the same if the checkpoint does not say."""
        stored = self._metadata.get(_PREFIX + "scores")
        if stored is None:
            return [0.0] * len(tokens)
        if not isinstance(stored, list):
            raise _wrong_type("scores", "a list")
        scores = [float(item) for item in stored if type(item) in (int, float)]
        if len(scores) != len(stored):
            raise _wrong_type("scores", "a list of numbers")
        return scores

    def charsmap(self) -> bytes:
        """SentencePiece's compiled normalization; empty for none."""
        stored = self._list("precompiled_charsmap", int) or []
        if not all(-128 <= value <= 255 for value in stored):
            raise _wrong_type("precompiled_charsmap", "a list of bytes")
        return bytes(value & 0xFF for value in stored)

    def merges(self) -> list[str]:
        """``left right`` pairs, the most urgent first."""
        stored = self._list("merges", str)
        if stored is None:
            raise CorruptCheckpointError(
                "The vocabulary has no merges: tokenizer.ggml.merges is missing."
            )
        return stored

    def token_id(self, key: str, vocab_size: int, default: int | None = None) -> int | None:
        """The id of a token with a task; ``default`` only if there is such a token."""
        value = self._metadata.get(_PREFIX + key)
        if value is None:
            return default if default is not None and default < vocab_size else None
        if isinstance(value, bool) or not isinstance(value, int):
            raise _wrong_type(key, "an integer")
        if not 0 <= value < vocab_size:
            raise CorruptCheckpointError(
                f"tokenizer.ggml.{key} is {value}, but the vocabulary has {vocab_size} tokens."
            )
        return value

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self._metadata.get(_PREFIX + key, default)
        if not isinstance(value, bool):
            raise _wrong_type(key, "true or false")
        return value

    def chat_templates(self) -> dict[str, str]:
        """The chat templates by name; the usual one is called ``default``."""
        prefix = "tokenizer.chat_template"
        templates = {}
        for key, value in self._metadata.items():
            if key != prefix and not key.startswith(prefix + "."):
                continue
            if not isinstance(value, str):
                raise CorruptCheckpointError(f"{key} is not a string.")
            if value:
                templates[key[len(prefix) + 1 :] or "default"] = value
        return templates

    def text(self, key: str) -> str | None:
        """A string."""
        value = self._metadata.get(_PREFIX + key)
        if value is not None and not isinstance(value, str):
            raise _wrong_type(key, "a string")
        return value

    def _list(self, key: str, element: type[Element]) -> list[Element] | None:
        value = self._metadata.get(_PREFIX + key)
        if value is None:
            return None
        if not isinstance(value, list):
            raise _wrong_type(key, "a list")
        elements = [item for item in value if isinstance(item, element)]
        if len(elements) != len(value):
            raise _wrong_type(key, f"a list of {element.__name__} values")
        return elements


def _wrong_type(key: str, expected: str) -> CorruptCheckpointError:
    return CorruptCheckpointError(f"tokenizer.ggml.{key} is not {expected}.")
