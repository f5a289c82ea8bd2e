"""What a Hugging Face folder says of tokens beside its vocabulary: ``tokenizer_config.json`` and
its like."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrs.errors import CorruptCheckpointError
from mrs.export.checkpoints.json_section import JsonSection, read_json

TOKENIZER_CONFIG_FILE = "tokenizer_config.json"
SPECIAL_TOKENS_FILE = "special_tokens_map.json"
ADDED_TOKENS_FILE = "added_tokens.json"
MAX_CONFIG_BYTES = 16 << 20
"""Configurations list thousands of added tokens, with half a kilobyte for each."""

TASKS = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")

# The newer name comes with transformers 5; it may be an object, of tokens by their attributes.
_SPECIAL_LISTS = ("additional_special_tokens", "extra_special_tokens")
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


@dataclass(frozen=True)
class NamedTokens:
    """The configuration of a tokenizer.

    Attributes:
        config: ``tokenizer_config.json``, with ``special_tokens_map.json`` behind it; empty if
            there is neither.
        legacy: ``added_tokens.json``: ids by token.
    """

    config: JsonSection
    legacy: JsonSection

    def text(self, task: str) -> str | None:
        """The token with a task (``bos``), or None.

        Raises:
            CorruptCheckpointError: it is neither a text nor an object with its ``content``.
        """
        key = f"{task}_token"
        if not self.config.has(key):
            return None
        return _content(self.config, key)

    def special_texts(self) -> Iterator[str]:
        """All tokens that have a task or are listed as special."""
        for task in TASKS:
            if text := self.text(task):
                yield text
        sections = (self.config, *([self.config.fallback] if self.config.fallback else ()))
        for section in sections:
            for key in _SPECIAL_LISTS:
                listed = section.values.get(key)
                values = listed.values() if isinstance(listed, dict) else listed
                yield from _texts_of(values)

    def added(self) -> list[dict[str, Any]]:
        """The added tokens in the form of `tokenizer.json`, in the order of their ids.

        Raises:
            CorruptCheckpointError: an entry is malformed.
        """
        tokens = {id_: _legacy_token(id_, text) for text, id_ in self._legacy_ids()}
        decoder = self.config.optional_section("added_tokens_decoder")
        for key, value in (decoder.values if decoder else {}).items():
            token = _added_token(key, value)
            tokens[token["id"]] = token
        special = set(self.special_texts())
        for token in tokens.values():
            token["special"] = token["special"] or token["content"] in special
        return [tokens[id_] for id_ in sorted(tokens)]

    def _legacy_ids(self) -> Iterator[tuple[str, int]]:
        for text in self.legacy.values:
            yield text, self.legacy.count(text)


def read_named_tokens(folder: Path) -> NamedTokens:
    """Read what there is of the files.

    Raises:
        CorruptCheckpointError, StorageError: a file is too large, no JSON, or cannot be read.
    """
    special = _optional(folder / SPECIAL_TOKENS_FILE)
    config = _optional(folder / TOKENIZER_CONFIG_FILE)
    return NamedTokens(
        JsonSection(TOKENIZER_CONFIG_FILE, config.values, fallback=special),
        _optional(folder / ADDED_TOKENS_FILE),
    )


def _optional(path: Path) -> JsonSection:
    if not path.exists():
        return JsonSection(path.name, {})
    return read_json(path, MAX_CONFIG_BYTES)


def _content(config: JsonSection, key: str) -> str | None:
    owner = config if config.values.get(key) is not None else config.fallback
    value = (owner or config).values[key]
    text = _text_of(value)
    if text is None:
        raise CorruptCheckpointError(f"{(owner or config).file}: {key} is no token.")
    return text or None


def _texts_of(values: Any) -> Iterator[str]:
    for value in values if isinstance(values, Iterable) and not isinstance(values, str) else ():
        if text := _text_of(value):
            yield text


def _text_of(value: Any) -> str | None:
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _added_token(key: str, value: Any) -> dict[str, Any]:
    content = _text_of(value)
    if not content or not isinstance(value, dict) or not (key.isascii() and key.isdigit()):
        raise CorruptCheckpointError(
            f"{TOKENIZER_CONFIG_FILE}: the added token {key[:20]!r} is malformed."
        )
    flags = {flag: value.get(flag) is True for flag in _FLAGS}
    return {"id": int(key[:9]), "content": content, **flags}


def _legacy_token(id_: int, text: str) -> dict[str, Any]:
    return {"id": id_, "content": text, **dict.fromkeys(_FLAGS, False)}
