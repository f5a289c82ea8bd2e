"""The `tokenizer.json` that every converted vocabulary becomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tokenizers

from mrs.canonical_json import canonical_json
from mrs.errors import CorruptCheckpointError, UnsupportedTokenizerError
from mrs.export.tokenizers.token_types import TokenType
from mrs.token_decoding import UnknownDecoderError, token_decoding

# What some parts of a tokenizer only trip over when they are used.
_TRIAL = "Naïve ﬁ 中\n\t x<s>"


def tokenizer_json(
    tokens: Sequence[str],
    types: Sequence[TokenType],
    *,
    model: Mapping[str, Any],
    decoder: Mapping[str, Any],
    normalizer: Mapping[str, Any] | None = None,
    pre_tokenizer: Mapping[str, Any] | None = None,
    swallow_after: frozenset[str] = frozenset(),
) -> bytes:
    """A file for the ``tokenizers`` library; equal input gives equal bytes.

    Control and unknown tokens become special added tokens, user-defined ones become added tokens
    that text can always contain. There is no post-processor: the runtime puts BOS and its like
    where they belong.

    Args:
        tokens: distinct and not empty; the index is the id.
        types: one per token.
        model, decoder, normalizer, pre_tokenizer: as the library writes them.
        swallow_after: added tokens that swallow the white space behind them.

    Raises:
        CorruptCheckpointError: the library does not load it as it is, or a token is not text.
    """
    document = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            _added_token(index, token, types[index], token in swallow_after)
            for index, token in enumerate(tokens)
            if types[index].is_found_in_text
        ],
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": None,
        "decoder": decoder,
        "model": model,
    }
    encoded = _encoded(document)
    loaded = load_tokenizer(encoded, "The vocabulary")
    if loaded.get_vocab_size(with_added_tokens=True) != len(tokens):
        raise CorruptCheckpointError("The vocabulary changes when it is loaded.")
    return encoded


def load_tokenizer(encoded: bytes, what: str) -> tokenizers.Tokenizer:
    """Load a `tokenizer.json` of which the runtime will make use.

    Args:
        encoded: the file.
        what: its name in errors.

    Raises:
        CorruptCheckpointError: the library cannot load it.
        UnsupportedTokenizerError: its tokens cannot be turned into text one by one.
    """
    try:
        loaded = tokenizers.Tokenizer.from_buffer(encoded)
        token_decoding(loaded)
        loaded.encode(_TRIAL)
    except UnknownDecoderError as error:
        raise UnsupportedTokenizerError(f"{what} cannot be used: {error}.") from error
    except BaseException as error:  # the library raises bare Exception, and panics beside it
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        raise CorruptCheckpointError(f"{what} cannot be loaded: {error}.") from error
    return loaded


def shown(text: str) -> str:
    """A token in an error."""
    return ascii(text if len(text) <= 60 else text[:60] + "...")


def _added_token(index: int, token: str, kind: TokenType, swallow_after: bool) -> dict[str, Any]:
    return {
        "id": index,
        "content": token,
        "single_word": False,
        "lstrip": False,
        "rstrip": swallow_after,
        "normalized": False,
        "special": kind is not TokenType.USER_DEFINED,
    }


def _encoded(document: dict[str, Any]) -> bytes:
    try:
        return canonical_json(document, compact=True)
    except UnicodeEncodeError as error:
        token = error.object[max(error.start - 20, 0) : error.end]
        raise CorruptCheckpointError(
            f"The vocabulary holds {shown(token)}, which is not text."
        ) from error
