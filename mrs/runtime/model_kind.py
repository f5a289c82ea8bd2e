"""What a version is for: to generate text, or to make vectors of texts."""

from __future__ import annotations

from mrs.errors import UsageError
from mrs.model_repo.lock import EmbeddingFacts
from mrs.model_repo.version import ModelVersion


def require_generator(version: ModelVersion) -> None:
    """Refuse a model that generates no text.

    Raises:
        UsageError: it is an embedding model.
    """
    if version.lock.model.kind != "decoder":
        raise UsageError(
            f"{version.reference} is an embedding model, which generates no text.",
            hint=f'Make vectors with it: mrs embed {version.name} "a text"',
        )


def require_embedding(version: ModelVersion) -> EmbeddingFacts:
    """What is known of an embedding model.

    Raises:
        UsageError: it is a model that generates text.
    """
    facts = version.lock.model.embedding
    if facts is None:
        raise UsageError(
            f"{version.reference} is no embedding model: it generates text.",
            hint="Export an embedding model, or talk to this one with mrs run.",
        )
    return facts
