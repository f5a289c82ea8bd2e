"""A query and documents -> how well each document answers it, with a reranker in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mrs.errors import InvalidValueError
from mrs.model_repo.lock import RerankerFacts
from mrs.model_repo.version import ModelVersion
from mrs.runtime.model_kind import require_reranker
from mrs.runtime.row_batches import batches, row_feeds
from mrs.runtime.session_pool import SessionPool
from mrs.runtime.single_pass import POOL, open_single_pass, run_single_pass
from mrs.runtime.tokenizer import Tokenizer

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Values = NDArray[np.float32]


@dataclass(frozen=True)
class Scores:
    """What became of some documents, in their order.

    Attributes:
        values: float32 ``[documents]``; a better document has a larger one.
        tokens: how many query and document had together, those around them included.
    """

    values: Values
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class _Pair:
    """Tokens of a query and a document, and where the document starts."""

    ids: list[int]
    second_start: int


class Reranker:
    """Scores documents by a query.

    Args:
        session: on the graph of a reranker.
        tokenizer: of the model.
        facts: of the model.
    """

    def __init__(
        self, session: InferenceSession, tokenizer: Tokenizer, facts: RerankerFacts
    ) -> None:
        self._session = session
        self._tokenizer = tokenizer
        self._facts = facts
        around = len(facts.before) + len(facts.between) + len(facts.after)
        self._room = max(0, facts.max_length - around)

    @property
    def facts(self) -> RerankerFacts:
        """Of the model."""
        return self._facts

    def score(
        self,
        query: str,
        documents: Sequence[str],
        *,
        truncate: bool = False,
        max_document_tokens: int | None = None,
        first: int = 0,
    ) -> Scores:
        """How well documents answer a query. No document changes another's score.

        The score is a probability (the sigmoid of the model's logit), or the logit where the model
        was made so.

        Args:
            query: any string, what it says of special tokens being text.
            documents: likewise.
            truncate: cut documents that do not fit beside the query, instead of refusing them.
            max_document_tokens: cut each document to so many tokens.
            first: number of the first document in what the user gave; errors name them by it.

        Raises:
            InvalidValueError: the query leaves no room for a document, or a document is too long.
            EngineError: ONNX Runtime fails.
        """
        start = [*self._facts.before, *self._encode_query(query), *self._facts.between]
        pairs = [
            self._pair(start, document, index, truncate, max_document_tokens)
            for index, document in enumerate(documents, first)
        ]
        logits = np.empty(len(pairs), dtype=np.float32)
        for batch in batches([len(pair.ids) for pair in pairs]):
            logits[batch] = self._run([pairs[index] for index in batch])
        values = logits if self._facts.activation == "identity" else _sigmoid(logits)
        return Scores(values, tuple(len(pair.ids) for pair in pairs))

    def _encode_query(self, query: str) -> list[int]:
        ids = self._tokenizer.encode(query, parse_special=False)
        if len(ids) >= self._room:
            raise InvalidValueError(
                f"The query has {len(ids)} tokens; the model takes {self._room} of query and "
                "document together.",
                hint="Shorten the query.",
                param="query",
            )
        return ids

    def _pair(
        self, start: list[int], document: str, index: int, truncate: bool, most: int | None
    ) -> _Pair:
        ids = self._tokenizer.encode(document, parse_special=False)[:most]
        room = self._facts.max_length - len(start) - len(self._facts.after)
        if len(ids) > room and not truncate:
            raise InvalidValueError(
                f"Document {index + 1} has {len(ids)} tokens; beside this query the model takes "
                f"{room}.",
                hint="Shorten or split it, or have it truncated.",
                param="documents",
            )
        return _Pair([*start, *ids[:room], *self._facts.after], len(start))

    def _run(self, pairs: Sequence[_Pair]) -> Values:
        feeds = row_feeds([pair.ids for pair in pairs], self._facts.pad_token_id)
        if self._facts.token_types:
            starts = [pair.second_start for pair in pairs]
            feeds["second_start"] = np.array(starts, dtype=np.int32)
        return run_single_pass(self._session, "scores", feeds)


@contextmanager
def open_reranker(
    version: ModelVersion,
    *,
    threads: int | None = None,
    alone: bool = True,
    pool: SessionPool = POOL,
) -> Iterator[Reranker]:
    """Load a reranker for as long as the context lasts.

    Args:
        version: what to load.
        threads: threads per operator; None means the processors that this process may use.
        alone: no other model computes in this process.
        pool: where the session comes from.

    Raises:
        UsageError: the model is no reranker.
        CorruptVersionError: a file is missing, or not as long as the lock says.
        ModelLoadError: the artifact cannot be loaded.
        RuntimeUnavailableError: ONNX Runtime is missing or too old.
    """
    facts = require_reranker(version)
    with open_single_pass(version, threads, alone=alone, pool=pool) as (session, tokenizer):
        yield Reranker(session, tokenizer, facts)


def _sigmoid(logits: Values) -> Values:
    """Without overflow, since a score must be a number for JSON."""
    values: Values = (0.5 * (1 + np.tanh(0.5 * logits.astype(np.float64)))).astype(np.float32)
    return values
