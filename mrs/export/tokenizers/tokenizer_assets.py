"""What an export needs of a checkpoint's text side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class PairTokens:
    """What is put around two texts that are one input.

    Attributes:
        before: the tokens before the first text.
        between: those between the two.
        after: those behind the second one.
        second_type: token type of the second one; the first has 0.
    """

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    second_type: int = 0


@dataclass(frozen=True)
class TokenizerAssets:
    """A converted vocabulary and the facts that go with it.

    Attributes:
        tokenizer_json: a file for the ``tokenizers`` library; equal input gives equal bytes.
        chat_template: Jinja source as the checkpoint has it, or None.
        bos_token_id: begin-of-sequence id (``[CLS]`` of BERT), or None.
        eos_token_ids: ids that end generation; the vocabulary's own comes first.
        add_bos: whether an encoded prompt starts with the BOS token when a template adds none.
        vocab_size: number of tokens; ids are ``0..vocab_size-1``.
        named_templates: further chat templates by name (``tool_use``, ``rag``).
        template_origin: where `chat_template` comes from, for people to read.
        end_token_id: what a text that is to be embedded ends with (``[SEP]``, EOS), or None.
        pair: what is put around two texts that are ranked; None if nobody knows.
        pad_token_id: id that fills up rows, or None.
        unk_token_id: id of unknown characters, or None.
        generation_defaults: what the model's authors sample with (``temperature``, ``top_p``,
            ``top_k``, ``repetition_penalty``, ...), under the names of generation_config.json.
    """

    tokenizer_json: bytes
    chat_template: str | None
    bos_token_id: int | None
    eos_token_ids: tuple[int, ...]
    add_bos: bool
    vocab_size: int
    named_templates: Mapping[str, str] = field(default_factory=dict)
    template_origin: str | None = None
    end_token_id: int | None = None
    pair: PairTokens | None = None
    pad_token_id: int | None = None
    unk_token_id: int | None = None
    generation_defaults: Mapping[str, bool | int | float | list[int]] = field(default_factory=dict)
