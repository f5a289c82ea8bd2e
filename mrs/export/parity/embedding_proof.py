"""Measures an embedding model against the float32 graph of the same checkpoint."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mrs.cpu import usable_cpus
from mrs.errors import ModelLoadError, RuntimeUnavailableError
from mrs.export.parity.graph_runner import first_line, open_graph
from mrs.export.parity.mapped_weights import lean_mapping
from mrs.export.parity.onnx_runtime import import_onnx_runtime
from mrs.export.parity.proof import ParityMode, Proof, ReferenceMaker
from mrs.export.parity.reference_size import obstacle
from mrs.export.parity.text import bundled_text
from mrs.export.progress import Progress
from mrs.model_repo.lock import EmbeddingFacts, EmbeddingParityRecord, UnmeasuredParity

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

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
    if mode is ParityMode.NEVER:
        return _unmeasured("it was not asked for (--parity never)")
    try:
        import_onnx_runtime()
    except RuntimeUnavailableError:
        if mode is ParityMode.ALWAYS:
            raise
        return _unmeasured("there is no ONNX Runtime to run the graph")
    if mode is ParityMode.AUTO and not model.is_reference:
        reason = obstacle(model.parameters, model.folder)
        if reason is not None:
            return _unmeasured(reason)
    rows = tokenized_lines(model, bundled_text())
    found = _run(model.folder / "cpu" / "model.onnx", rows, "Measure vectors", progress)
    expected = found if model.is_reference else _reference(reference, rows, progress)
    return Proof(_record(_cosines(found, expected), rows))


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


def _reference(reference: ReferenceMaker, rows: _Rows, progress: Progress) -> Vectors:
    with ExitStack() as stack:
        folder = stack.enter_context(reference.scratch).path / "float32"
        reference.write(folder)
        return _run(folder / "model.onnx", rows, "Compare with float32", progress, mapped=True)
    raise AssertionError("unreachable")


def _run(
    graph: Path, rows: _Rows, label: str, progress: Progress, *, mapped: bool = False
) -> Vectors:
    session = open_graph(graph, usable_cpus(), mapped)
    vectors = []
    with (
        lean_mapping(graph.with_name(graph.name + ".data") if mapped else Path()),
        progress.phase(label, total=len(rows)) as advance,
    ):
        for row in rows:
            vectors.append(_vector(session, row))
            advance(1)
    return np.concatenate(vectors)


def _vector(session: InferenceSession, row: Sequence[int]) -> Vectors:
    feeds = {
        "input_ids": np.array([row], dtype=np.int64),
        "sequence_lengths": np.array([len(row)], dtype=np.int32),
    }
    try:
        vector: Vectors = session.run(["embeddings"], feeds)[0]
    except Exception as error:
        raise ModelLoadError(
            f"ONNX Runtime cannot run the exported graph: {first_line(error)}",
            hint="Export with --parity never to keep the version all the same, and report this "
            "as a bug.",
        ) from error
    return vector


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


def _unmeasured(reason: str) -> Proof:
    return Proof(UnmeasuredParity(not_measured=reason))
