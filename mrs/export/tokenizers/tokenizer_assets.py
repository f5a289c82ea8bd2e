"""What an export needs of a checkpoint's text side."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TokenizerAssets:
    """A converted vocabulary and the facts that go with it.

    Attributes:
        tokenizer_json: a file for the ``tokenizers`` library; equal input gives equal bytes.
        chat_template: Jinja source as the checkpoint has it, or None.
        bos_token_id: begin-of-sequence id, or None.
        eos_token_ids: ids that end generation; the vocabulary's own comes first.
        add_bos: whether an encoded prompt starts with the BOS token when a template adds none.
        vocab_size: number of tokens; ids are ``0..vocab_size-1``.
    """

    tokenizer_json: bytes
    chat_template: str | None
    bos_token_id: int | None
    eos_token_ids: tuple[int, ...]
    add_bos: bool
    vocab_size: int
