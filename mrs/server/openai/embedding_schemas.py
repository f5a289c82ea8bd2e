"""The request of embeddings, as it is validated, and the response, as it is documented.

https://platform.openai.com/docs/api-reference/embeddings
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field, Tag

from mrs.server.openai.sampling_fields import TokenIds
from mrs.server.text_unions import texts_or_tokens
from mrs.server.validation import RequestModel

MAX_INPUTS = 2048


EmbeddingInput = Annotated[
    Annotated[str, Tag("<string>")]
    | Annotated[list[str], Field(min_length=1, max_length=MAX_INPUTS), Tag("<strings>")]
    | Annotated[TokenIds, Tag("<tokens>")]
    | Annotated[list[TokenIds], Field(min_length=1, max_length=MAX_INPUTS), Tag("<token arrays>")],
    texts_or_tokens("input_type"),
]


class EmbeddingRequest(RequestModel):
    """Texts to make vectors of. Null means absent, for every field."""

    model: str | None = Field(None, description="A served embedding model, or `default`.")
    input: EmbeddingInput = Field(
        description="Text, or token ids, which are taken as they are; or several of either."
    )
    encoding_format: Literal["float", "base64"] | None = Field(
        None, description="Numbers, or little-endian float32 as base64; numbers if absent."
    )
    dimensions: int | None = Field(
        None, ge=1, description="Keep so many of the first dimensions (matryoshka models)."
    )
    prompt_name: str | None = Field(
        None, description="Which of the model's prompts comes first, such as `query`."
    )
    truncate_sequence: bool | None = Field(
        None, description="Cut texts that are too long, instead of refusing them."
    )
    user: str | None = Field(None, description="Accepted; nothing is done with it.")


class Embedding(BaseModel):
    """The vector of one text."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingUsage(BaseModel):
    """Tokens of all texts."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingList(BaseModel):
    """The vectors, in the order of the texts."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: EmbeddingUsage
