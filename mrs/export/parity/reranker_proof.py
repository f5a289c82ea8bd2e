"""Measures a reranker against the float32 graph of the same checkpoint."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrs.export.parity.proof import ParityMode, Proof, ReferenceMaker
from mrs.export.parity.single_pass import Feeds, SinglePassModel, run_both
from mrs.export.parity.text import bundled_text
from mrs.export.progress import Progress
from mrs.model_repo.lock import RerankerFacts, RerankerParityRecord, UnmeasuredParity

Scores = NDArray[np.float32]

QUERIES, DOCUMENTS = 5, 12
"""Lines of the text that are queries, and how many others each of them ranks."""


@dataclass(frozen=True)
class ExportedReranker:
    """What is to be measured.

    Attributes:
        folder: the version, complete but for its lock.
        facts: of the model.
        parameters: weights of the checkpoint.
        is_reference: its own graph is the float32 graph.
    """

    folder: Path
    facts: RerankerFacts
    parameters: int
    is_reference: bool


def prove_reranker(
    model: ExportedReranker, reference: ReferenceMaker, mode: ParityMode, progress: Progress
) -> Proof:
    """Measure a model on pairs of lines of the bundled text, or record why it was not measured.

    Raises:
        ModelLoadError: ONNX Runtime refuses a graph.
        RuntimeUnavailableError: ``ALWAYS`` was asked for and there is no ONNX Runtime for it.
        MrsError: the float32 graph cannot be written.
    """
    pairs: list[Feeds] = []

    def make_inputs() -> list[Feeds]:
        pairs.extend(tokenized_pairs(model, bundled_text()))
        return pairs

    run = SinglePassModel(model.folder, model.parameters, model.is_reference, "scores")
    found = run_both(run, make_inputs, reference, mode, progress)
    if isinstance(found, UnmeasuredParity):
        return Proof(found)
    return Proof(_record(*found, sum(pair["input_ids"].size for pair in pairs)))


def tokenized_pairs(model: ExportedReranker, text: str) -> list[Feeds]:
    """``QUERIES`` lines with ``DOCUMENTS`` others each, as a runtime joins them."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(model.folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    lines = [line for line in text.splitlines() if line.strip()]
    ids = [line.ids for line in tokenizer.encode_batch(lines, add_special_tokens=False)]
    step = len(ids) // QUERIES
    return [
        _feeds(model.facts, ids[query * step], ids[(query * step + 1 + place) % len(ids)])
        for query in range(QUERIES)
        for place in range(DOCUMENTS)
    ]


def _feeds(facts: RerankerFacts, query: list[int], document: list[int]) -> Feeds:
    around = len(facts.before) + len(facts.between) + len(facts.after)
    room = max(0, facts.max_length - around)
    query = query[: room // 2]
    start = [*facts.before, *query, *facts.between]
    row = [*start, *document[: room - len(query)], *facts.after]
    feeds: dict[str, NDArray[Any]] = {
        "input_ids": np.array([row], dtype=np.int64),
        "sequence_lengths": np.array([len(row)], dtype=np.int32),
    }
    if facts.token_types:
        feeds["second_start"] = np.array([len(start)], dtype=np.int32)
    return feeds


def _record(
    found: Scores, expected: Scores, tokens: int
) -> RerankerParityRecord | UnmeasuredParity:
    differences = np.abs(found.astype(np.float64) - expected.astype(np.float64))
    if not np.isfinite(differences).all():
        return UnmeasuredParity(not_measured="the scores of the text are not finite")
    return RerankerParityRecord(
        text_sha256=hashlib.sha256(bundled_text().encode("utf-8")).hexdigest(),
        pairs=len(found),
        tokens=tokens,
        mean_difference=round(float(differences.mean()), 5),
        max_difference=round(float(differences.max()), 5),
        agreement=round(agreement(found, expected), 3),
    )


def agreement(found: Scores, expected: Scores) -> float:
    """Percentage of pairs of documents that both order alike, over all queries.

    Args:
        found: scores, ``DOCUMENTS`` for each query.
        expected: those that they are held against.
    """
    alike = [
        np.sign(ranked[first] - ranked[second]) == np.sign(wanted[first] - wanted[second])
        for ranked, wanted in zip(
            found.reshape(-1, DOCUMENTS), expected.reshape(-1, DOCUMENTS), strict=True
        )
        for first, second in combinations(range(DOCUMENTS), 2)
    ]
    return 100 * float(np.mean(alike))
