"""What a version is for: to generate text, to make vectors of texts, or to rank them."""

from __future__ import annotations

from mrs.errors import UsageError
from mrs.model_repo.lock import EmbeddingFacts, RerankerFacts
from mrs.model_repo.version import ModelVersion


def require_generator(version: ModelVersion) -> None:
    """Refuse a model that generates no text.

    Raises:
        UsageError: it is an embedding model or a reranker.
    """
    if version.lock.model.kind == "reranker":
        raise _ranks(version, "generates no text")
    if version.lock.model.kind != "decoder":
        raise UsageError(
            f"{version.reference} is an embedding model, which generates no text.",
            hint=f'Make vectors with it: mrs embed {version.name} "a text"',
        )


def require_embedding(version: ModelVersion) -> EmbeddingFacts:
    """What is known of an embedding model.

    Raises:
        UsageError: it generates text, or ranks it.
    """
    if version.lock.model.kind == "reranker":
        raise _ranks(version, "makes no vectors")
    facts = version.lock.model.embedding
    if facts is None:
        raise UsageError(
            f"{version.reference} is no embedding model: it generates text.",
            hint="Export an embedding model, or talk to this one with mrs run.",
        )
    return facts


def require_reranker(version: ModelVersion) -> RerankerFacts:
    """What is known of a reranker.

    Raises:
        UsageError: it is another model.
    """
    facts = version.lock.model.reranker
    if facts is None:
        raise UsageError(
            f"{version.reference} is no reranker.",
            hint="Export a reranker, such as bge-reranker-v2-m3.",
        )
    return facts


def _ranks(version: ModelVersion, what: str) -> UsageError:
    return UsageError(
        f"{version.reference} is a reranker, which {what}.",
        hint=f"Rank texts with it: mrs serve {version.name}, and POST /v1/rerank",
    )
