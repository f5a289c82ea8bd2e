"""A loaded model as the endpoints see it, and what is known of one that is not loaded."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Protocol

from mrs import __version__
from mrs.model_repo.lock import EmbeddingFacts
from mrs.runtime.embedder import Embeddings, TextOrTokens
from mrs.runtime.generation import GenerationEngine
from mrs.runtime.reranker import Scores
from mrs.runtime.sampling.defaults import SamplingDefaults

DEFAULT_MODEL = "default"


class ModelKind(StrEnum):
    """What a model makes of a text."""

    TEXT = "text"
    EMBEDDING = "embedding"
    RERANKER = "reranker"


@dataclass(frozen=True)
class ModelDescription:
    """What is known of a model, loaded or not.

    Attributes:
        name: what clients call it.
        kind: what it makes.
        created: seconds since the epoch, as `GET /v1/models` shows it.
        max_model_len: most tokens of prompt and answer together, of a text to embed, or of a
            query and a document.
        architecture: family, as its checkpoint spells it; empty if not known.
        quant: how the export was told to store its weights; empty if not known.
        digest: identifies the artifact; empty if not known.
    """

    name: str
    kind: ModelKind
    created: int
    max_model_len: int
    architecture: str = ""
    quant: str = ""
    digest: str = ""

    @cached_property
    def fingerprint(self) -> str:
        """What the API calls ``system_fingerprint``: changes with the model or the software."""
        text = f"{__version__}/{self.name}/{self.created}/{self.max_model_len}/{self.digest}"
        return "fp_" + hashlib.sha256(text.encode()).hexdigest()[:12]


class ChatEncoder(Protocol):
    """Turns a conversation into the token ids that the model continues."""

    def encode_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        continue_final: bool = False,
        **variables: Any,
    ) -> tuple[int, ...]:
        """Render the messages with the model's chat template and tokenize the result.

        Args:
            messages: as `mrs.server.conversation.conversation.TemplateMessage` has them.
            add_generation_prompt: end with the start of the assistant's turn.
            continue_final: end where the last message ends instead, which is the assistant's.
            variables: more names for the template (``tools``, ...).

        Raises:
            ChatTemplateError: the template refuses the messages or exceeds its bounds.
        """


class TextEncoder(Protocol):
    """Turns texts into the token ids that the model continues."""

    @property
    def begin(self) -> tuple[int, ...]:
        """What every prompt begins with."""

    def encode_text(
        self, text: str, *, parse_special: bool = False, add_bos: bool = True
    ) -> tuple[int, ...]:
        """The prompt of a text; see `mrs.runtime.prompt_encoder.PromptEncoder`."""

    def encode_infill(self, prefix: str, suffix: str) -> tuple[int, ...]:
        """The prompt for what stands between two texts.

        Raises:
            InvalidValueError: the model was not taught that.
        """


class PromptEncoder(ChatEncoder, TextEncoder, Protocol):
    """Both; `mrs.runtime.prompt_encoder.PromptEncoder` is one."""


class TextTokenizer(Protocol):
    """Text <-> token ids; see `mrs.runtime.tokenizer.Tokenizer`."""

    @property
    def special_tokens(self) -> Mapping[str, int]:
        """The control tokens by their text."""

    def encode(self, text: str, *, add_bos: bool = False, parse_special: bool = True) -> list[int]:
        """The ids of a text; ``parse_special``: the text of a control token means that token."""

    def decode(self, ids: Sequence[int], skip_special: bool = False) -> str:
        """The text of some tokens; bytes that are no UTF-8 become U+FFFD."""


@dataclass(frozen=True)
class ServedModel:
    """A model that is loaded and generates text.

    Attributes:
        name: what clients call it; ``default`` may name it too.
        created: seconds since the epoch, as `GET /v1/models` shows it.
        max_model_len: most tokens of prompt and answer together.
        vocab_size: width of the logits.
        prompts: its chat template and tokenizer.
        engine: what generates.
        token_bytes: bytes of a token, those of special ones included.
        tokenizer: text <-> token ids, without the template.
        chat_template: the text of the template; None if the model has none.
        tool_template: the same for conversations with tools, if it is another.
        tool_format: name of the format that its calls have; None to recognize it by the template.
        sampling_defaults: how tokens are drawn where a request leaves it open.
        architecture: see `ModelDescription`, as the next two.
    """

    name: str
    created: int
    max_model_len: int
    vocab_size: int
    prompts: PromptEncoder
    engine: GenerationEngine
    token_bytes: Callable[[int], bytes]
    tokenizer: TextTokenizer
    chat_template: str | None = None
    tool_template: str | None = None
    tool_format: str | None = None
    sampling_defaults: SamplingDefaults = field(default_factory=dict)
    architecture: str = ""
    quant: str = ""
    digest: str = ""

    @cached_property
    def description(self) -> ModelDescription:
        """The model as lists show it."""
        return ModelDescription(
            name=self.name,
            kind=ModelKind.TEXT,
            created=self.created,
            max_model_len=self.max_model_len,
            architecture=self.architecture,
            quant=self.quant,
            digest=self.digest,
        )

    @property
    def fingerprint(self) -> str:
        """What the API calls ``system_fingerprint``."""
        return self.description.fingerprint


class TextEmbedder(Protocol):
    """Texts -> vectors; see `mrs.runtime.embedder.Embedder`."""

    @property
    def facts(self) -> EmbeddingFacts:
        """Of the model."""

    def embed(
        self,
        texts: Sequence[TextOrTokens],
        *,
        purpose: str | None = None,
        truncate: bool = False,
        dimensions: int | None = None,
        first: int = 0,
    ) -> Embeddings:
        """The vectors of texts; blocks while they are computed, from any thread.

        Raises:
            InvalidValueError: a text or an option is outside what the model allows.
            EngineError: ONNX Runtime fails.
        """


@dataclass(frozen=True)
class ServedEmbedder:
    """A model that is loaded and makes vectors of texts.

    Attributes:
        description: the model as lists show it.
        embedder: makes the vectors.
    """

    description: ModelDescription
    embedder: TextEmbedder

    @property
    def name(self) -> str:
        """What clients call it."""
        return self.description.name


class DocumentRanker(Protocol):
    """A query and documents -> scores; see `mrs.runtime.reranker.Reranker`."""

    def score(
        self,
        query: str,
        documents: Sequence[str],
        *,
        truncate: bool = False,
        max_document_tokens: int | None = None,
        first: int = 0,
    ) -> Scores:
        """How well documents answer a query; blocks while it is computed, from any thread.

        Raises:
            InvalidValueError: query and document are too long.
            EngineError: ONNX Runtime fails.
        """


@dataclass(frozen=True)
class ServedReranker:
    """A model that is loaded and ranks documents.

    Attributes:
        description: the model as lists show it.
        reranker: makes the scores.
    """

    description: ModelDescription
    reranker: DocumentRanker

    @property
    def name(self) -> str:
        """What clients call it."""
        return self.description.name
