"""Vectors for several clients at once: in turns, and never for one that has left."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import anyio
import anyio.to_thread
import numpy as np

from mrs.errors import QueueFullError
from mrs.runtime.embedder import Embeddings, TextOrTokens
from mrs.server.served_model import TextEmbedder

# Texts that are embedded in one go: between two goes, others have their turn.
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
        if self._waiting >= self._max_waiting:
            raise QueueFullError(
                f"{self._waiting} requests for embeddings are waiting; the queue holds "
                f"{self._max_waiting}.",
                hint="Try again later.",
            )
        self._waiting += 1
        try:
            parts = []
            for start in range(0, len(texts), _PORTION):
                portion = partial(
                    embedder.embed,
                    texts[start : start + _PORTION],
                    purpose=purpose,
                    truncate=truncate,
                    dimensions=dimensions,
                    first=start,
                )
                parts.append(await anyio.to_thread.run_sync(portion, limiter=self._turns))
        finally:
            self._waiting -= 1
        return Embeddings(
            np.concatenate([part.vectors for part in parts]),
            tuple(count for part in parts for count in part.tokens),
        )
