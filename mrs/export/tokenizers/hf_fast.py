"""A folder's ``tokenizer.json``, taken as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tokenizers

from mrs.canonical_json import canonical_json
from mrs.errors import CorruptCheckpointError
from mrs.export.checkpoints.json_section import read_json
from mrs.export.tokenizers.hf_added_tokens import NamedTokens
from mrs.export.tokenizers.small_file import MAX_VOCABULARY_BYTES
from mrs.export.tokenizers.tokenizer_document import load_tokenizer, shown

FAST_FILE = "tokenizer.json"


def read_fast_tokenizer(
    folder: Path, named: NamedTokens, rows: int | None
) -> tuple[bytes, tokenizers.Tokenizer]:
    """The canonical copy of the file, and what it is when it is loaded.

    The copy cuts off and fills up nothing. It has the added tokens that only the configuration
    names, as transformers adds them, and those with a task are special.

    Args:
        folder: the model.
        named: its configuration.
        rows: rows of the embedding. Added tokens beyond them have none, and become plain text.

    Raises:
        CorruptCheckpointError: the file is too large, malformed, or does not load.
        UnsupportedTokenizerError: its tokens cannot be turned into text one by one.
    """
    document = dict(read_json(folder / FAST_FILE, MAX_VOCABULARY_BYTES).values)
    added = document.get("added_tokens") or []
    if not isinstance(added, list) or not all(_is_added_token(token) for token in added):
        raise CorruptCheckpointError(f"{FAST_FILE}: added_tokens is no list of tokens.")
    document |= {"truncation": None, "padding": None, "added_tokens": added}
    loaded = load_tokenizer(_encoded(document), FAST_FILE)
    completed = _with_rows(_completed(added, named, loaded), rows)
    document["added_tokens"] = completed
    encoded = _encoded(document)
    if completed != added:
        loaded = load_tokenizer(encoded, FAST_FILE)
    _check_ids(completed, loaded)
    return encoded, loaded


def _completed(
    added: list[dict[str, Any]], named: NamedTokens, loaded: tokenizers.Tokenizer
) -> list[dict[str, Any]]:
    known = {token["content"]: dict(token) for token in added}
    next_id = loaded.get_vocab_size(with_added_tokens=True)
    for token in named.added():
        if token["content"] in known:
            known[token["content"]]["special"] |= token["special"]
        elif loaded.token_to_id(token["content"]) == token["id"]:
            known[token["content"]] = token
        elif token["id"] == next_id:
            known[token["content"]] = token
            next_id += 1
    for text in named.special_texts():
        id_ = loaded.token_to_id(text)
        if text in known:
            known[text]["special"] = True
        elif id_ is not None:
            known[text] = _special(id_, text)
    return sorted(known.values(), key=lambda token: int(token["id"]))


def _check_ids(added: list[dict[str, Any]], loaded: tokenizers.Tokenizer) -> None:
    """The library gives added tokens that leave a gap other ids than the file says."""
    for token in added:
        id_ = loaded.token_to_id(token["content"])
        if id_ != token["id"]:
            raise CorruptCheckpointError(
                f"{FAST_FILE} gives the added token {shown(token['content'])} the id "
                f"{token['id']}, but its place is {id_}.",
                hint="Download the file again, or save the model with transformers once.",
            )


def _with_rows(added: list[dict[str, Any]], rows: int | None) -> list[dict[str, Any]]:
    return added if rows is None else [token for token in added if token["id"] < rows]


def _special(id_: int, text: str) -> dict[str, Any]:
    return {
        "id": id_,
        "content": text,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }


def _is_added_token(token: Any) -> bool:
    return (
        isinstance(token, dict)
        and type(token.get("id")) is int
        and isinstance(token.get("content"), str)
        and isinstance(token.get("special"), bool)
    )


def _encoded(document: dict[str, Any]) -> bytes:
    try:
        return canonical_json(document, compact=True)
    except (ValueError, RecursionError) as error:  # no Unicode, or NaN
        raise CorruptCheckpointError(f"{FAST_FILE} cannot be written again: {error}.") from error
