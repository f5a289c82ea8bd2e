"""What bytes each token of a `tokenizer.json` stands for.

The ``tokenizers`` library turns a list of tokens into text at once. Text that streams needs the
bytes of each token by itself, so the library's decoder is read as a rule for one token, and what
it does to the whole is kept apart: how many spaces the text loses at its start.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import tokenizers

SHOWN_CONTROL_TOKENS = frozenset({"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"})
"""Control tokens that are part of an answer and must be seen in it: where the channels of GPT-OSS
begin. llama.cpp shows them because it takes them for text that anyone may write; here they are
shown, and still no one but the template and the model can write them."""

ANSWER_MARKS = frozenset(
    {
        *("<think>", "</think>", "<seed:think>", "</seed:think>", "[THINK]", "[/THINK]"),
        *("<|START_THINKING|>", "<|END_THINKING|>", "<|START_ACTION|>", "<|END_ACTION|>"),
        *("<|inner_prefix|>", "<|inner_suffix|>", "<|channel>", "<channel|>"),
        *("<tool_call>", "</tool_call>", "<seed:tool_call>", "</seed:tool_call>"),
        *("<|tool_call>", "<tool_call|>", '<|"|>', "<|tool_call|>", "<|/tool_call|>"),
        *("<start_function_call>", "<end_function_call>", "<escape>"),
        *("<|tool_call_start|>", "<|tool_call_end|>", "<|python_tag|>"),
        *("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"),
        *("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>"),
        *("<｜tool▁call▁end｜>", "<｜tool▁sep｜>"),
    }
)
"""Marks of reasoning and calls, which have to be seen where a vocabulary has a control token for
them."""

_BYTE_TOKEN = re.compile("<0x([0-9A-F]{2})>")
_BYTE_TOKEN_LENGTH = 6


@dataclass(frozen=True)
class TokenDecoding:
    """How tokens become text.

    Attributes:
        token_bytes: the bytes of a token of the model; None where the rule knows none, and the
            token stands for its own text.
        added_token_bytes: the same for an added token.
        leading_spaces: how many spaces a text loses at its start, if it has them. Vocabularies
            that put a space before the first word take it off so.
    """

    token_bytes: Callable[[str], bytes]
    added_token_bytes: Callable[[str], bytes]
    leading_spaces: int = 0


class UnknownDecoderError(ValueError):
    """The decoder cannot be read as a rule for one token; the message names it."""


def token_decoding(backend: tokenizers.Tokenizer) -> TokenDecoding:
    """Read the decoder of a loaded tokenizer.

    Raises:
        UnknownDecoderError: it does something that is not listed here.
    """
    decoder = backend.decoder
    if decoder is None:
        raise UnknownDecoderError("it has no decoder")
    return _decoding(list(_steps(json.loads(decoder.__getstate__()))))


def byte_letters() -> dict[str, int]:
    """GPT-2's alphabet: a printable character for each byte, most of them in Latin-1."""
    printable = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
    others = (byte for byte in range(256) if byte not in printable)
    letters = {chr(byte): byte for byte in printable}
    return letters | {chr(0x100 + index): byte for index, byte in enumerate(others)}


def _steps(decoder: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    if decoder.get("type") != "Sequence":
        yield decoder
        return
    for inner in decoder["decoders"]:
        yield from _steps(inner)


def _decoding(steps: list[Mapping[str, Any]]) -> TokenDecoding:
    kinds = [step["type"] for step in steps]
    match kinds:
        case ["ByteLevel"]:
            return TokenDecoding(_letters_to_bytes, str.encode)
        case ["WordPiece"]:
            decode = _word_piece(steps[0]["prefix"])
            return TokenDecoding(decode, decode, leading_spaces=1)
        case ["Metaspace"]:
            spaces = _replacing([(steps[0]["replacement"], " ")])
            prefixed = steps[0]["prepend_scheme"] != "never"
            return TokenDecoding(_encoded(spaces), _encoded(spaces), int(prefixed))
    return _sentence_piece(steps, kinds)


def _sentence_piece(steps: list[Mapping[str, Any]], kinds: list[str]) -> TokenDecoding:
    """Replacements, bytes, and spaces that the whole loses at its start."""
    unknown = set(kinds) - {"Replace", "ByteFallback", "Fuse", "Strip"}
    if unknown or not kinds:
        raise UnknownDecoderError(f"its decoder is {' + '.join(kinds) or 'empty'}")
    replace = _replacing([_replacement(step) for step in steps if step["type"] == "Replace"])
    text = _encoded(replace)
    return TokenDecoding(
        token_bytes=_with_bytes(text) if "ByteFallback" in kinds else text,
        added_token_bytes=text,
        leading_spaces=_stripped(steps, kinds),
    )


def _replacement(step: Mapping[str, Any]) -> tuple[str, str]:
    pattern = step["pattern"]
    if "String" not in pattern:
        raise UnknownDecoderError("its decoder replaces by a regular expression")
    return pattern["String"], step["content"]


def _stripped(steps: list[Mapping[str, Any]], kinds: list[str]) -> int:
    if "Strip" not in kinds:
        return 0
    step = steps[-1]
    whole = "Fuse" in kinds and kinds.count("Strip") == 1 and kinds[-1] == "Strip"
    if not whole or step["content"] != " " or step["stop"]:
        raise UnknownDecoderError("its decoder strips more than the first spaces of a text")
    return int(step["start"])


def _replacing(pairs: list[tuple[str, str]]) -> Callable[[str], str]:
    def replace(token: str) -> str:
        for old, new in pairs:
            token = token.replace(old, new)
        return token

    return replace


def _encoded(replace: Callable[[str], str]) -> Callable[[str], bytes]:
    return lambda token: replace(token).encode()


def _with_bytes(text: Callable[[str], bytes]) -> Callable[[str], bytes]:
    def decode(token: str) -> bytes:
        if len(token) == _BYTE_TOKEN_LENGTH and (byte := _BYTE_TOKEN.fullmatch(token)):
            return bytes([int(byte.group(1), 16)])
        return text(token)

    return decode


def _word_piece(prefix: str) -> Callable[[str], bytes]:
    def decode(token: str) -> bytes:
        if prefix and token.startswith(prefix):
            return token[len(prefix) :].encode()
        return b" " + token.encode()

    return decode


_BYTE_OF_LETTER = byte_letters()


def _letters_to_bytes(token: str) -> bytes:
    try:
        return bytes([_BYTE_OF_LETTER[letter] for letter in token])
    except KeyError:  # not written in the alphabet: a token of plain text
        return token.encode()
