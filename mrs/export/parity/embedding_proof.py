"""Measures an embedding model against the float32 graph of the same checkpoint."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mrs.export.parity.proof import ParityMode, Proof, ReferenceMaker
from mrs.export.parity.single_pass import Feeds, SinglePassModel, run_both
from mrs.export.parity.text import bundled_text
from mrs.export.progress import Progress
from mrs.model_repo.lock import EmbeddingFacts, EmbeddingParityRecord, UnmeasuredParity

Vectors = NDArray[np.float32]
_Rows = Sequence[Sequence[int]]


@dataclass(frozen=True)
class ExportedEmbedder:
    """What is to be measured.

    Attributes:
        folder: the version, complete but for its lock.
        facts: of the model.
        begin_token: what texts start with, if anything.
        parameters: weights of the checkpoint.
        is_reference: its own graph is the float32 graph.
    """

    folder: Path
    facts: EmbeddingFacts
    begin_token: int | None
    parameters: int
    is_reference: bool


def prove_embedder(
    model: ExportedEmbedder, reference: ReferenceMaker, mode: ParityMode, progress: Progress
) -> Proof:
    """Measure a model on each line of the bundled text, or record why it was not measured.

    Raises:
        ModelLoadError: ONNX Runtime refuses a graph.
        RuntimeUnavailableError: ``ALWAYS`` was asked for and there is no ONNX Runtime for it.
        MrsError: the float32 graph cannot be written.
    """
    rows: list[list[int]] = []

    def make_inputs() -> list[Feeds]:
        rows.extend(tokenized_lines(model, bundled_text()))
        return [_feeds(row) for row in rows]

    run = SinglePassModel(model.folder, model.parameters, model.is_reference, "embeddings")
    found = run_both(run, make_inputs, reference, mode, progress)
    if isinstance(found, UnmeasuredParity):
        return Proof(found)
    return Proof(_record(_cosines(*found), rows))


def tokenized_lines(model: ExportedEmbedder, text: str) -> list[list[int]]:
    """The tokens of each line that is not empty, as a runtime puts others around them."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(model.folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    before = [] if model.begin_token is None else [model.begin_token]
    after = [] if model.facts.end_token_id is None else [model.facts.end_token_id]
    room = max(0, model.facts.max_length - len(before) - len(after))
    lines = [line for line in text.splitlines() if line.strip()]
    found = tokenizer.encode_batch(lines, add_special_tokens=False)
    rows = [before + line.ids[:room] + after for line in found]
    return [row for row in rows if row]


def _feeds(row: Sequence[int]) -> Feeds:
    return {
        "input_ids": np.array([row], dtype=np.int64),
        "sequence_lengths": np.array([len(row)], dtype=np.int32),
    }


def _cosines(found: Vectors, expected: Vectors) -> NDArray[np.float64]:
    first, second = found.astype(np.float64), expected.astype(np.float64)
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    products = (first * second).sum(axis=1)
    cosines: NDArray[np.float64] = np.clip(products / np.where(lengths > 0, lengths, 1), -1, 1)
    return cosines


def _record(cosines: NDArray[np.float64], rows: _Rows) -> EmbeddingParityRecord | UnmeasuredParity:
    if not len(cosines) or not np.isfinite(cosines).all():
        return UnmeasuredParity(not_measured="the vectors of the text are not finite")
    return EmbeddingParityRecord(
        text_sha256=hashlib.sha256(bundled_text().encode("utf-8")).hexdigest(),
        texts=len(rows),
        tokens=sum(map(len, rows)),
        mean_cosine=round(float(cosines.mean()), 5),
        min_cosine=round(float(cosines.min()), 5),
    )
