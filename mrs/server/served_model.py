"""The one model that a server answers for."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from mrs import __version__
from mrs.errors import UnknownModelError
from mrs.runtime.generation import GenerationEngine

DEFAULT_MODEL = "default"
_LONGEST_SHOWN_NAME = 100


class ChatEncoder(Protocol):
    """Turns a conversation into the token ids that the model continues."""

    def encode_chat(
        self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = True
    ) -> tuple[int, ...]:
        """Render the messages with the model's chat template and tokenize the result.

        Raises:
            ChatTemplateError: the template refuses the messages or exceeds its bounds.
        """


@dataclass(frozen=True)
class ServedModel:
    """A model that is loaded and can answer.

    Attributes:
        name: what clients call it; ``default`` names it too.
        created: seconds since the epoch, as `GET /v1/models` shows it.
        max_model_len: most tokens of prompt and answer together.
        vocab_size: width of the logits.
        prompts: its chat template and tokenizer.
        engine: what generates.
        token_bytes: bytes of a token, those of special ones included.
    """

    name: str
    created: int
    max_model_len: int
    vocab_size: int
    prompts: ChatEncoder
    engine: GenerationEngine
    token_bytes: Callable[[int], bytes]

    def require(self, name: str) -> None:
        """Check that a request for the model ``name`` means this model.

        Raises:
            UnknownModelError: it means another one.
        """
        if name not in (self.name, DEFAULT_MODEL):
            raise UnknownModelError(
                f"The model {name[:_LONGEST_SHOWN_NAME]!r} is not served here; {self.name!r} is, "
                f"also by the name {DEFAULT_MODEL!r}.",
                param="model",
            )

    @cached_property
    def fingerprint(self) -> str:
        """What the API calls ``system_fingerprint``: changes with the model or the software."""
        text = f"{__version__}/{self.name}/{self.created}/{self.vocab_size}"
        return "fp_" + hashlib.sha256(text.encode()).hexdigest()[:12]
