"""Any checkpoint's vocabulary -> `TokenizerAssets`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from mrs.errors import CorruptCheckpointError, UnsupportedTokenizerError
from mrs.export.checkpoints.checkpoint import Checkpoint, MetadataValue
from mrs.export.tokenizers.byte_level_bpe import byte_level_bpe_json
from mrs.export.tokenizers.pre_tokenizers import PRE_TOKENIZERS, PreTokenizer
from mrs.export.tokenizers.token_types import END_OF_TURN_TOKENS, TokenType, effective_types
from mrs.export.tokenizers.tokenizer_assets import TokenizerAssets

_PREFIX = "tokenizer.ggml."
_BYTE_LEVEL_BPE = "gpt2"
_END_IDS = ("eos_token_id", "eot_token_id", "eom_token_id")

Element = TypeVar("Element", int, str)


def convert_tokenizer(checkpoint: Checkpoint) -> TokenizerAssets:
    """Convert the vocabulary that a checkpoint's metadata holds.

    Raises:
        UnsupportedTokenizerError: the model or the pre-tokenizer is of a kind that mrs has not.
        CorruptCheckpointError: parts of the vocabulary are missing or contradict each other.
    """
    vocabulary = _Vocabulary(checkpoint.metadata)
    rule = vocabulary.pre_tokenizer()
    tokens = vocabulary.tokens()
    types = vocabulary.types(tokens)
    template = vocabulary.chat_template()
    bos = vocabulary.token_id("bos_token_id", len(tokens))
    return TokenizerAssets(
        tokenizer_json=byte_level_bpe_json(tokens, types, vocabulary.merges(), rule),
        chat_template=template,
        bos_token_id=bos,
        eos_token_ids=_eos_token_ids(vocabulary, tokens, template),
        add_bos=bos is not None and vocabulary.flag("add_bos_token", rule.add_bos),
        vocab_size=len(tokens),
    )


class _Vocabulary:
    """The ``tokenizer.*`` keys of GGUF metadata, checked on the way out."""

    def __init__(self, metadata: Mapping[str, MetadataValue]) -> None:
        self._metadata = metadata

    def pre_tokenizer(self) -> PreTokenizer:
        model = self._text("model")
        if model is None:
            raise CorruptCheckpointError(
                "The checkpoint holds no vocabulary: it lacks tokenizer.ggml.model."
            )
        if model != _BYTE_LEVEL_BPE:
            raise UnsupportedTokenizerError(
                f"The vocabulary is of the kind {model!r}, which mrs cannot convert.",
                hint=f"Supported: {_BYTE_LEVEL_BPE!r} (byte-level BPE).",
            )
        name = self._text("pre") or "default"
        if name not in PRE_TOKENIZERS:
            raise UnsupportedTokenizerError(
                f"The vocabulary uses the pre-tokenizer {name!r}, which mrs does not have.",
                hint=f"Supported: {', '.join(sorted(PRE_TOKENIZERS))}.",
            )
        return PRE_TOKENIZERS[name]

    def tokens(self) -> list[str]:
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
        stored = self._list("token_type", int)
        if stored is not None and len(stored) != len(tokens):
            raise CorruptCheckpointError(
                f"The vocabulary has {len(tokens)} tokens but {len(stored)} token types."
            )
        types = list(effective_types(tokens, stored))
        if TokenType.BYTE in types:
            raise UnsupportedTokenizerError(
                f"Token {types.index(TokenType.BYTE)} stands for a raw byte, "
                "which a byte-level vocabulary has no use for."
            )
        return types

    def merges(self) -> list[str]:
        stored = self._list("merges", str)
        if stored is None:
            raise CorruptCheckpointError(
                "The vocabulary has no merges: tokenizer.ggml.merges is missing."
            )
        return stored

    def token_id(self, key: str, vocab_size: int) -> int | None:
        value = self._metadata.get(_PREFIX + key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise _wrong_type(key, "an integer")
        if not 0 <= value < vocab_size:
            raise CorruptCheckpointError(
                f"tokenizer.ggml.{key} is {value}, but the vocabulary has {vocab_size} tokens."
            )
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self._metadata.get(_PREFIX + key, default)
        if not isinstance(value, bool):
            raise _wrong_type(key, "true or false")
        return value

    def chat_template(self) -> str | None:
        value = self._metadata.get("tokenizer.chat_template")
        if value is not None and not isinstance(value, str):
            raise CorruptCheckpointError("tokenizer.chat_template is not a string.")
        return value or None

    def _text(self, key: str) -> str | None:
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


def _eos_token_ids(
    vocabulary: _Vocabulary, tokens: list[str], template: str | None
) -> tuple[int, ...]:
    """The vocabulary's own end first, the others after it in ascending order."""
    named = [vocabulary.token_id(key, len(tokens)) for key in _END_IDS]
    spoken = {token for token in END_OF_TURN_TOKENS if template and token in template}
    others = {index for index, token in enumerate(tokens) if token in spoken}
    others.update(index for index in named if index is not None)
    first = [named[0]] if named[0] is not None else []
    return (*first, *sorted(others.difference(first)))
