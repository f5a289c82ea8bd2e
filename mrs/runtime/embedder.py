"""Texts -> vectors, with an embedding model and in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mrs.errors import InvalidValueError
from mrs.model_repo.lock import EmbeddingFacts, ModelFacts
from mrs.model_repo.version import ModelVersion
from mrs.runtime.model_kind import require_embedding
from mrs.runtime.row_batches import batches, row_feeds
from mrs.runtime.session_pool import SessionPool
from mrs.runtime.single_pass import POOL, open_single_pass, run_single_pass
from mrs.runtime.tokenizer import Tokenizer

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Vectors = NDArray[np.float32]
TextOrTokens = str | Sequence[int]
"""A text, or its tokens, which are taken as they are."""


@dataclass(frozen=True)
class Embeddings:
    """What became of some texts, in their order.

    Attributes:
        vectors: float32 ``[texts, size]``.
        tokens: how many each text had, those around it included.
    """

    vectors: Vectors
    tokens: tuple[int, ...]


class Embedder:
    """Makes vectors of texts.

    Args:
        session: on the embedding graph.
        tokenizer: of the model.
        model: facts of the model.
        facts: those of an embedding model.
    """

    def __init__(
        self,
        session: InferenceSession,
        tokenizer: Tokenizer,
        model: ModelFacts,
        facts: EmbeddingFacts,
    ) -> None:
        self._session = session
        self._tokenizer = tokenizer
        self._facts = facts
        self._vocab_size = model.vocab_size
        begin = model.bos_token_id if model.add_bos else None
        self._before = [] if begin is None else [begin]
        self._after = [] if facts.end_token_id is None else [facts.end_token_id]

    @property
    def facts(self) -> EmbeddingFacts:
        """Of the model."""
        return self._facts

    def embed(
        self,
        texts: Sequence[TextOrTokens],
        *,
        purpose: str | None = None,
        truncate: bool = False,
        dimensions: int | None = None,
        first: int = 0,
    ) -> Embeddings:
        """The vectors of texts. No text changes another's, however they are batched.

        Args:
            texts: any strings, what they say of special tokens being text; or tokens.
            purpose: which of the model's prompts comes first; None for its default, if it has one.
                Before tokens comes none.
            truncate: cut texts that are too long, instead of refusing them.
            dimensions: keep so many of the first dimensions (matryoshka embeddings).
            first: number of the first text in what the user gave; errors name texts by it.

        Raises:
            InvalidValueError: a text is too long or has no token, a token is outside the
                vocabulary, the model has no such prompt or fewer dimensions.
            EngineError: ONNX Runtime fails.
        """
        size = self._checked_size(dimensions)
        prompt = self._prompt(purpose)
        ids = [
            self._encode(prompt + text, index, truncate=truncate)
            if isinstance(text, str)
            else self._checked(text, index, truncate=truncate)
            for index, text in enumerate(texts, first)
        ]
        vectors = np.empty((len(ids), self._facts.size), dtype=np.float32)
        for batch in batches([len(row) for row in ids]):
            vectors[batch] = self._run([ids[index] for index in batch])
        if size < self._facts.size:
            vectors = _cut(vectors, size, normalize=self._facts.normalized)
        return Embeddings(vectors, tuple(len(row) for row in ids))

    def _checked_size(self, dimensions: int | None) -> int:
        if dimensions is None:
            return self._facts.size
        if not 1 <= dimensions <= self._facts.size:
            raise InvalidValueError(
                f"{dimensions} dimensions are asked for; the model has {self._facts.size}.",
                param="dimensions",
            )
        return dimensions

    def _prompt(self, purpose: str | None) -> str:
        name = self._facts.default_prompt if purpose is None else purpose
        if name is None:
            return ""
        if name not in self._facts.prompts:
            known = ", ".join(sorted(self._facts.prompts)) or "none"
            raise InvalidValueError(
                f"The model has no prompt {name!r:.80}; it has: {known}.", param="prompt_name"
            )
        return self._facts.prompts[name]

    def _encode(self, text: str, index: int, *, truncate: bool) -> list[int]:
        text = text.lower() if self._facts.lowercase else text
        ids = self._tokenizer.encode(text, parse_special=False)
        room = max(0, self._facts.max_length - len(self._before) - len(self._after))
        if len(ids) > room and not truncate:
            raise self._too_long(index, len(ids), room)
        row = self._before + ids[:room] + self._after
        if not row:
            raise InvalidValueError(f"Text {index + 1} has no tokens.", param="input")
        return row

    def _checked(self, tokens: Sequence[int], index: int, *, truncate: bool) -> list[int]:
        room = self._facts.max_length
        if len(tokens) > room and not truncate:
            raise self._too_long(index, len(tokens), room)
        if not tokens:
            raise InvalidValueError(f"Text {index + 1} has no tokens.", param="input")
        # A quantized embedding would read beyond its rows.
        if min(tokens) < 0 or max(tokens) >= self._vocab_size:
            raise InvalidValueError(
                f"Text {index + 1} holds a token id outside 0..{self._vocab_size - 1}.",
                hint="Encode the text with the model's own tokenizer.",
                param="input",
            )
        return list(tokens[:room])

    def _too_long(self, index: int, count: int, room: int) -> InvalidValueError:
        return InvalidValueError(
            f"Text {index + 1} has {count} tokens; the model takes {room}.",
            hint="Shorten or split it, or have it truncated.",
            param="input",
        )

    def _run(self, rows: list[list[int]]) -> Vectors:
        feeds = row_feeds(rows, self._facts.pad_token_id)
        return run_single_pass(self._session, "embeddings", feeds)


@contextmanager
def open_embedder(
    version: ModelVersion,
    *,
    threads: int | None = None,
    alone: bool = True,
    pool: SessionPool = POOL,
) -> Iterator[Embedder]:
    """Load an embedding model for as long as the context lasts.

    Args:
        version: what to load.
        threads: threads per operator; None means the processors that this process may use.
        alone: no other model computes in this process.
        pool: where the session comes from.

    Raises:
        UsageError: the model generates text.
        CorruptVersionError: a file is missing, or not as long as the lock says.
        ModelLoadError: the artifact cannot be loaded.
        RuntimeUnavailableError: ONNX Runtime is missing or too old.
    """
    facts = require_embedding(version)
    with open_single_pass(version, threads, alone=alone, pool=pool) as (session, tokenizer):
        yield Embedder(session, tokenizer, version.lock.model, facts)


def _cut(vectors: Vectors, size: int, *, normalize: bool) -> Vectors:
    cut = vectors[:, :size]
    return unit_vectors(cut) if normalize else np.ascontiguousarray(cut)


def unit_vectors(vectors: Vectors) -> Vectors:
    """The vectors at length 1; one of length 0 stays as it is."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def cosine_similarities(vectors: Vectors) -> Vectors:
    """How near vectors are to each other, ``[texts, texts]``: 1 for the same direction."""
    unit = unit_vectors(vectors)
    similarities: Vectors = unit @ unit.T
    return similarities
