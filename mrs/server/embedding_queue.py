"""Vectors and scores for several clients at once: in turns, and never for one that has left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import anyio
import anyio.to_thread
import numpy as np

from mrs.errors import QueueFullError
from mrs.runtime.embedder import Embeddings, TextOrTokens
from mrs.runtime.reranker import Scores
from mrs.server.served_model import DocumentRanker, TextEmbedder

Part = TypeVar("Part")

# Texts that are computed in one go: between two goes, others have their turn.
_PORTION = 32


class EmbeddingQueue:
    """Computes one portion of one request at a time: a portion has all processors.

    Args:
        max_waiting: requests that may wait for their turn.
    """

    def __init__(self, max_waiting: int = 256) -> None:
        self._turns = anyio.CapacityLimiter(1)
        self._max_waiting = max_waiting
        self._waiting = 0

    async def embed(
        self,
        embedder: TextEmbedder,
        texts: Sequence[TextOrTokens],
        *,
        purpose: str | None = None,
        truncate: bool = False,
        dimensions: int | None = None,
    ) -> Embeddings:
        """The vectors of texts; see `mrs.runtime.embedder.Embedder.embed`.

        Raises:
            QueueFullError: too many requests wait already.
        """
        parts = await self._in_turns(
            [
                partial(
                    embedder.embed,
                    texts[start : start + _PORTION],
                    purpose=purpose,
                    truncate=truncate,
                    dimensions=dimensions,
                    first=start,
                )
                for start in range(0, len(texts), _PORTION)
            ]
        )
        return Embeddings(
            np.concatenate([part.vectors for part in parts]),
            tuple(count for part in parts for count in part.tokens),
        )

    async def score(
        self,
        reranker: DocumentRanker,
        query: str,
        documents: Sequence[str],
        *,
        truncate: bool = False,
        max_document_tokens: int | None = None,
    ) -> Scores:
        """The scores of documents; see `mrs.runtime.reranker.Reranker.score`.

        Raises:
            QueueFullError: too many requests wait already.
        """
        parts = await self._in_turns(
            [
                partial(
                    reranker.score,
                    query,
                    documents[start : start + _PORTION],
                    truncate=truncate,
                    max_document_tokens=max_document_tokens,
                    first=start,
                )
                for start in range(0, len(documents), _PORTION)
            ]
        )
        return Scores(
            np.concatenate([part.values for part in parts]),
            tuple(count for part in parts for count in part.tokens),
        )

    async def _in_turns(self, portions: Sequence[Callable[[], Part]]) -> list[Part]:
        if self._waiting >= self._max_waiting:
            raise QueueFullError(
                f"{self._waiting} requests for embeddings or scores are waiting; the queue holds "
                f"{self._max_waiting}.",
                hint="Try again later.",
            )
        self._waiting += 1
        try:
            return [
                await anyio.to_thread.run_sync(portion, limiter=self._turns) for portion in portions
            ]
        finally:
            self._waiting -= 1
