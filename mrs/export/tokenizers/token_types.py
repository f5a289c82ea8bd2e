"""What kind of token each entry of a GGUF vocabulary is."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from enum import IntEnum

from mrs.token_decoding import SHOWN_CONTROL_TOKENS


class TokenType(IntEnum):
    """Values of ``tokenizer.ggml.token_type`` (llama.cpp's ``llama_token_type``)."""

    UNDEFINED = 0
    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6

    @property
    def is_found_in_text(self) -> bool:
        """Whether the token is looked for in a text before anything else."""
        return self in (TokenType.CONTROL, TokenType.USER_DEFINED, TokenType.UNKNOWN)


END_OF_TURN_TOKENS = ("<|im_end|>", "<end_of_turn>", "<|end_of_text|>", "<|end|>", "<|eot_id|>")
"""Tokens that end an answer when the chat template speaks of them."""

# Converters have marked these as plain text now and then. They steer the model all the same, so
# llama.cpp treats them as control tokens whatever their type says; and so does mrs.
_ALWAYS_CONTROL = frozenset(
    (
        *END_OF_TURN_TOKENS,
        *("<|endoftext|>", "<|eom_id|>", "</s>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<eos>"),
        *("<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_utterance>"),
        *("<turn|>", "<|tool_response>", "<｜end▁of▁sentence｜>", "[e~["),
        # fill in the middle: prefix, suffix, middle, padding, repository, file
        *("<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>"),
        *("<|code_prefix|>", "<|prefix|>"),
        *("<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>"),
        *("<|code_suffix|>", "<|suffix|>"),
        *("<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>"),
        *("<|code_middle|>", "<|middle|>"),
        *("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"),
        *("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>", "<|file_sep|>"),
    )
)


# Many times faster than the enumeration's own look-up, and there is one for each token.
_KNOWN_TYPES = {kind.value: kind for kind in TokenType}


def effective_types(tokens: Sequence[str], types: Sequence[int] | None) -> Iterator[TokenType]:
    """The type of each token, after the corrections that llama.cpp makes by name.

    Args:
        tokens: the vocabulary.
        types: one stored type per token; None means that all are normal.
    """
    for index, token in enumerate(tokens):
        if token in _ALWAYS_CONTROL or token in SHOWN_CONTROL_TOKENS:
            yield TokenType.CONTROL
        elif types is None:
            yield TokenType.NORMAL
        else:
            yield known_type(types[index])


def known_type(value: int) -> TokenType:
    """The type of this number; `TokenType.UNDEFINED` if there is none."""
    return _KNOWN_TYPES.get(value, TokenType.UNDEFINED)


def end_token_ids(
    tokens: Sequence[str], named: Sequence[int | None], template: str | None
) -> tuple[int, ...]:
    """The ids that end an answer: the vocabulary's own end first, the others in ascending order.

    Args:
        tokens: the vocabulary.
        named: the ids that the checkpoint names, its own end first.
        template: the chat template, whose end-of-turn tokens end an answer too.
    """
    ends = turn_ends(template or "", tokens)
    found = {index for index, token in enumerate(tokens) if token in ends}
    found.update(index for index in named if index is not None)
    found = {index for index in found if not _ends_a_message_only(tokens[index], tokens)}
    own = named[0] if named else None
    first = [] if own is None or own not in found else [own]
    return (*first, *sorted(found.difference(first)))


def turn_ends(template: str, tokens: Container[str]) -> frozenset[str]:
    """The ends of turns that a template speaks of, in a vocabulary."""
    spoken = (token for token in END_OF_TURN_TOKENS if token in template)
    return frozenset(token for token in spoken if not _ends_a_message_only(token, tokens))


def _ends_a_message_only(token: str, tokens: Container[str]) -> bool:
    """GPT-OSS ends each message of an answer so, and the answer in other ways."""
    return token == "<|end|>" and all(end in tokens for end in ("<|return|>", "<|call|>"))
