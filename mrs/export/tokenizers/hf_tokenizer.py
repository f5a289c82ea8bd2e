"""A Hugging Face folder's tokenizer -> `TokenizerAssets`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tokenizers

from mrs.errors import CheckpointError
from mrs.export.checkpoints.hf_config import (
    CONFIG_FILE,
    GENERATION_CONFIG_FILE,
    MAX_CONFIG_BYTES,
    read_hf_config,
)
from mrs.export.checkpoints.json_section import JsonSection, read_json
from mrs.export.tokenizers.hf_added_tokens import NamedTokens, read_named_tokens
from mrs.export.tokenizers.hf_fast import FAST_FILE, read_fast_tokenizer
from mrs.export.tokenizers.hf_slow import SlowTokenizer, read_slow_tokenizer
from mrs.export.tokenizers.template_files import read_chat_templates
from mrs.export.tokenizers.token_types import end_token_ids
from mrs.export.tokenizers.tokenizer_assets import PairTokens, TokenizerAssets
from mrs.export.tokenizers.tokenizer_document import load_tokenizer

_DEFAULTS = ("temperature", "top_p", "top_k", "min_p", "typical_p", "repetition_penalty")


def read_hf_tokenizer(folder: Path, *, rows: int | None = None) -> TokenizerAssets:
    """Read the tokenizer, its templates and the facts that go with them.

    ``tokenizer.json`` is taken as it is. Without it, ``tokenizer.model`` (SentencePiece),
    ``vocab.json`` with ``merges.txt`` (byte-level BPE) or ``vocab.txt`` (WordPiece) is converted.

    Args:
        folder: the model.
        rows: rows of the embedding, if they are known: added tokens beyond them are left out.

    Raises:
        UnsupportedTokenizerError: the vocabulary is of a kind that mrs cannot convert.
        CheckpointError: there is none, or a file is malformed.
        StorageError: a file cannot be read.
    """
    named = read_named_tokens(folder)
    vocabulary = _read_vocabulary(folder, named, rows)
    config = read_hf_config(folder) if (folder / CONFIG_FILE).exists() else None
    generation = _generation(folder) if config is None else config.generation
    templates = read_chat_templates(folder, named.config)
    tokens = vocabulary.tokens()
    bos = vocabulary.id_of("bos")
    prefix, suffix = vocabulary.around()
    if bos is None and len(prefix) == 1:
        bos = prefix[0]
    ends = [vocabulary.id_of("eos"), *generation.token_ids("eos_token_id")]
    ends += [] if config is None else config.token_ids("eos_token_id")
    return TokenizerAssets(
        tokenizer_json=vocabulary.tokenizer_json,
        chat_template=templates.default,
        bos_token_id=bos,
        eos_token_ids=end_token_ids(tokens, _existing(ends, len(tokens)), templates.default),
        add_bos=named.config.flag("add_bos_token", prefix == [bos]) and bos is not None,
        vocab_size=len(tokens),
        named_templates=templates.named,
        template_origin=templates.origin,
        end_token_id=_end_token_id(named, vocabulary, suffix),
        pair=vocabulary.pair(),
        pad_token_id=vocabulary.id_of("pad"),
        unk_token_id=vocabulary.id_of("unk"),
        generation_defaults=_generation_defaults(generation, len(tokens)),
    )


@dataclass(frozen=True)
class _Vocabulary:
    """A tokenizer and what its files say of its tokens."""

    tokenizer_json: bytes
    loaded: tokenizers.Tokenizer
    named: NamedTokens
    slow: SlowTokenizer | None

    def id_of(self, task: str) -> int | None:
        """The id of the token with a task, or None."""
        text = self.named.text(task)
        if text is None and self.slow is not None:
            text = self.slow.texts.get(task)
        return None if text is None else self.loaded.token_to_id(text)

    def around(self) -> tuple[list[int], list[int]]:
        """What the tokenizer itself puts before and behind a text."""
        if self.slow is not None:
            end = self.id_of("sep")
            end = self.id_of("eos") if end is None else end
            bos = self.id_of("bos")
            bos = self.id_of("cls") if bos is None else bos
            before = [bos] if self.slow.add_bos and bos is not None else []
            return before, [end] if self.slow.add_end and end is not None else []
        bare = self.loaded.encode("a", add_special_tokens=False).ids
        full = self.loaded.encode("a", add_special_tokens=True).ids
        for start in range(len(full) - len(bare) + 1):
            if full[start : start + len(bare)] == bare:
                return full[:start], full[start + len(bare) :]
        return [], []

    def pair(self) -> PairTokens | None:
        """What the tokenizer itself puts around two texts; None if it does not say."""
        if self.slow is not None:
            # Of the slow tokenizers only BERT's is known to rank.
            cls, sep = self.id_of("cls"), self.id_of("sep")
            if cls is None or sep is None or type(self.loaded.model).__name__ != "WordPiece":
                return None
            return PairTokens((cls,), (sep,), (sep,), second_type=1)
        found = self.loaded.encode("a", "a", add_special_tokens=True)
        texts = found.sequence_ids
        if 0 not in texts or 1 not in texts or texts.index(1) == 1 + _last_index(texts, 0):
            return None
        first, second = texts.index(0), texts.index(1)
        return PairTokens(
            before=tuple(found.ids[:first]),
            between=tuple(found.ids[1 + _last_index(texts, 0) : second]),
            after=tuple(found.ids[1 + _last_index(texts, 1) :]),
            second_type=found.type_ids[second],
        )

    def tokens(self) -> list[str]:
        """The tokens by id; one that does not exist has no text."""
        ids: Mapping[str, int] = self.loaded.get_vocab(with_added_tokens=True)
        tokens = [""] * (max(ids.values(), default=-1) + 1)
        for token, id_ in ids.items():
            tokens[id_] = token
        return tokens


def _last_index(values: Sequence[int | None], value: int) -> int:
    return len(values) - 1 - list(reversed(values)).index(value)


def _read_vocabulary(folder: Path, named: NamedTokens, rows: int | None) -> _Vocabulary:
    if (folder / FAST_FILE).exists():
        encoded, loaded = read_fast_tokenizer(folder, named, rows)
        _check_ids(loaded)
        return _Vocabulary(encoded, loaded, named, None)
    slow = read_slow_tokenizer(folder, named)
    loaded = load_tokenizer(slow.tokenizer_json, "The vocabulary")
    return _Vocabulary(slow.tokenizer_json, loaded, named, slow)


def _check_ids(loaded: tokenizers.Tokenizer) -> None:
    """Ids far beyond the number of tokens would cost memory that no file has."""
    ids = loaded.get_vocab(with_added_tokens=True).values()
    if max(ids, default=-1) >= 2 * len(ids) + 4096:
        raise CheckpointError(
            f"{FAST_FILE} has {len(ids)} tokens with ids up to {max(ids)}.",
            hint="Download the file again.",
        )


def _end_token_id(named: NamedTokens, vocabulary: _Vocabulary, suffix: list[int]) -> int | None:
    if named.config.flag("add_eos_token", False):
        return vocabulary.id_of("eos")
    return suffix[0] if len(suffix) == 1 else None


def _existing(ids: list[int | None], vocab_size: int) -> list[int | None]:
    return [id_ if id_ is not None and id_ < vocab_size else None for id_ in ids]


def _generation(folder: Path) -> JsonSection:
    path = folder / GENERATION_CONFIG_FILE
    return read_json(path, MAX_CONFIG_BYTES) if path.exists() else JsonSection(path.name, {})


def _generation_defaults(
    generation: JsonSection, vocab_size: int
) -> dict[str, bool | int | float | list[int]]:
    """How the authors sample; ``do_sample`` false means that they do not."""
    defaults: dict[str, bool | int | float | list[int]] = {}
    sample = generation.optional_flag("do_sample")
    if sample is not None:
        defaults["do_sample"] = sample
    for key in _DEFAULTS:
        value = generation.optional_number(key)
        if value is not None:
            defaults[key] = int(value) if key == "top_k" else value
    suppressed = [id_ for id_ in generation.token_ids("suppress_tokens") if id_ < vocab_size]
    if suppressed:
        defaults["suppress_tokens"] = suppressed
    return defaults
