"""The request to rank documents, as it is validated, and the response, as it is documented.

The fields are those that Cohere, Jina and vLLM have in common:
https://docs.cohere.com/reference/rerank, https://api.jina.ai/redoc
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Discriminator, Field, Tag

from mrs.server.validation import RequestModel

MAX_DOCUMENTS = 2048


class RerankDocument(RequestModel):
    """A document as an object; what else it holds is not looked at."""

    text: str


def _document_tag(value: Any) -> str | None:
    if isinstance(value, str):
        return "<string>"
    return "<object>" if isinstance(value, dict | RerankDocument) else None


Document = Annotated[
    Annotated[str, Tag("<string>")] | Annotated[RerankDocument, Tag("<object>")],
    Discriminator(
        _document_tag,
        custom_error_type="document_type",
        custom_error_message="it should be a string, or an object with 'text'",
    ),
]


class RerankRequest(RequestModel):
    """Documents to rank by a query. Null means absent, for every field."""

    model: str | None = Field(
        None, description="A served reranker or embedding model, or `default`."
    )
    query: str = Field(description="What the documents are to answer.")
    documents: list[Document] = Field(
        min_length=1, max_length=MAX_DOCUMENTS, description="Texts, or objects with a `text`."
    )
    top_n: int | None = Field(None, ge=1, description="Return the best so many; all if absent.")
    return_documents: bool | None = Field(
        None, description="Return the text of each document with its score."
    )
    max_tokens_per_doc: int | None = Field(
        None, ge=1, description="Cut each document to so many tokens."
    )
    truncate_sequence: bool | None = Field(
        None, description="Cut documents that are too long, instead of refusing them."
    )

    def texts(self) -> list[str]:
        """The documents' texts."""
        return [each if isinstance(each, str) else each.text for each in self.documents]


class RankedText(BaseModel):
    """A document that was asked back."""

    text: str


class RerankResult(BaseModel):
    """A document and how well it answers the query."""

    index: int
    relevance_score: float
    document: RankedText | None = None


class RerankUsage(BaseModel):
    """Tokens of all pairs of query and document."""

    prompt_tokens: int
    total_tokens: int


class RerankTokens(BaseModel):
    """The same in Cohere's words."""

    input_tokens: int


class RerankMeta(BaseModel):
    """What Cohere's clients look at."""

    tokens: RerankTokens


class RerankResponse(BaseModel):
    """The documents, the best first."""

    id: str
    model: str
    results: list[RerankResult]
    usage: RerankUsage
    meta: RerankMeta
