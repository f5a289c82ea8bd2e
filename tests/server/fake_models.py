"""Models that load when a test lets them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mrs.errors import MrsError
from mrs.model_repo.lock import EmbeddingFacts
from mrs.runtime.embedder import Embeddings
from mrs.runtime.reranker import Scores
from mrs.server.model_source import AnyServedModel, OpenModel
from mrs.server.served_model import ModelDescription, ModelKind, ServedEmbedder, ServedReranker
from tests.server.fake_engine import TIMEOUT, FakeEngine, say, served


class FakeEmbedder:
    """Two dimensions: the length of a text, and one."""

    facts = EmbeddingFacts(size=2, pooling="mean", normalized=False, max_length=16)

    def embed(
        self,
        texts: Sequence[str],
        *,
        purpose: str | None = None,
        truncate: bool = False,
        dimensions: int | None = None,
    ) -> Embeddings:
        rows = [[len(text), 1.0][:dimensions] for text in texts]
        return Embeddings(np.array(rows, dtype=np.float32), tuple(map(len, texts)))


class FakeReranker:
    """A document is the better the longer it is."""

    def score(
        self,
        query: str,
        documents: Sequence[str],
        *,
        truncate: bool = False,
        max_document_tokens: int | None = None,
        first: int = 0,
    ) -> Scores:
        lengths = tuple(len(text) for text in documents)
        return Scores(np.array(lengths, dtype=np.float32), lengths)


class FakeSource:
    """A source that counts, and may be slow or broken.

    Attributes:
        gate: loading waits for it.
        error: what loading raises, if anything.
        loads: how often it was loaded.
        open_now: how many loaded ones were not closed.
    """

    def __init__(
        self, name: str, kind: ModelKind = ModelKind.TEXT, memory: int = 10, created: int = 1
    ) -> None:
        self.description = ModelDescription(name, kind, created, 128)
        self.memory = memory
        self.gate = threading.Event()
        self.gate.set()
        self.error: MrsError | None = None
        self.engine = FakeEngine(say("Hi"))
        self.loads = 0
        self.open_now = 0

    def load(self) -> OpenModel:
        self.loads += 1
        assert self.gate.wait(TIMEOUT)
        if self.error is not None:
            raise self.error
        self.open_now += 1
        return OpenModel(self._model(), self._close)

    def _model(self) -> AnyServedModel:
        if self.description.kind is ModelKind.EMBEDDING:
            return ServedEmbedder(self.description, FakeEmbedder())
        if self.description.kind is ModelKind.RERANKER:
            return ServedReranker(self.description, FakeReranker())
        return replace(served(self.engine), name=self.description.name)

    def _close(self) -> None:
        self.open_now -= 1
