"""Measures an exported model against the float32 graph of the same checkpoint."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from mrs.cpu import usable_cpus
from mrs.errors import RuntimeUnavailableError, StorageError
from mrs.export.parity.cache_proof import CacheMeter
from mrs.export.parity.divergence import Divergence, DivergenceMeter
from mrs.export.parity.figures import chunk_length, significant
from mrs.export.parity.graph_runner import GraphRunner, NotMeasurableError
from mrs.export.parity.mapped_weights import lean_mapping
from mrs.export.parity.onnx_runtime import import_onnx_runtime
from mrs.export.parity.reference_size import obstacle
from mrs.export.parity.speed import as_measurements, measure_speed
from mrs.export.parity.text import TokenizedText, tokenize_text
from mrs.export.progress import Progress
from mrs.model_repo.lock import (
    CACHE_SCALES_PATH,
    CacheParityRecord,
    EmbeddingParityRecord,
    ParityRecord,
    RerankerParityRecord,
    UnmeasuredParity,
)
from mrs.model_repo.measurements import Measurements
from mrs.model_repo.staging import StagedVersion
from mrs.model_repo.storage import is_storage_failure

NOT_ASKED_FOR = "it was not asked for (--parity never)"


class ParityMode(StrEnum):
    """When to measure: ``AUTO`` unless the float32 graph is too large for this machine."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True)
class ExportedModel:
    """What is to be measured.

    Attributes:
        folder: the version, complete but for its lock.
        context_length: the model's.
        begin_token: what prompts start with, if anything.
        parameters: weights of the checkpoint.
        is_reference: its own graph is the float32 graph.
    """

    folder: Path
    context_length: int
    begin_token: int | None
    parameters: int
    is_reference: bool

    @property
    def graph(self) -> Path:
        """The graph for CPUs."""
        return self.folder / "cpu" / "model.onnx"

    @property
    def int8_cache_graph(self) -> Path:
        """The same over an 8-bit KV cache."""
        return self.folder / "cpu" / "model.int8kv.onnx"

    @property
    def cache_scales(self) -> Path:
        """What that needs; it may be missing."""
        return self.folder / CACHE_SCALES_PATH


@dataclass(frozen=True)
class Proof:
    """What came out: for the lock, and for the repository."""

    parity: ParityRecord | EmbeddingParityRecord | RerankerParityRecord | UnmeasuredParity
    measurements: Measurements | None = None
    int8_cache: CacheParityRecord | UnmeasuredParity | None = None


@dataclass(frozen=True)
class ReferenceMaker:
    """How to make the float32 graph.

    Attributes:
        scratch: a context that gives a stage, whose folder is deleted in the end.
        write: writes ``model.onnx`` and its weights into a folder that does not exist yet.
    """

    scratch: AbstractContextManager[StagedVersion]
    write: Callable[[Path], None]


def prove(
    model: ExportedModel, reference: ReferenceMaker, mode: ParityMode, progress: Progress
) -> Proof:
    """Measure a model, or record why it was not measured.

    Raises:
        ModelLoadError: ONNX Runtime refuses a graph.
        RuntimeUnavailableError: ``ALWAYS`` was asked for and there is no ONNX Runtime for it.
        MrsError: the float32 graph cannot be written.
    """
    if mode is ParityMode.NEVER:
        return _unmeasured(NOT_ASKED_FOR)
    try:
        import_onnx_runtime()
    except RuntimeUnavailableError:
        if mode is ParityMode.ALWAYS:
            raise
        return _unmeasured("there is no ONNX Runtime to run the graph")
    return _Measurement(model, reference, mode, progress).run()


class _Measurement:
    def __init__(
        self, model: ExportedModel, reference: ReferenceMaker, mode: ParityMode, progress: Progress
    ) -> None:
        self._model = model
        self._reference = reference
        self._mode = mode
        self._progress = progress
        self._threads = usable_cpus()

    def run(self) -> Proof:
        model = self._model
        try:
            text = tokenize_text(
                model.folder / "tokenizer.json",
                context_length=model.context_length,
                begin_token=model.begin_token,
            )
            runner = self._runner(model.graph, text.longest)
        except NotMeasurableError as error:
            return _unmeasured(str(error))
        measurements = self._measure_speed(runner, text.longest)
        try:
            with ExitStack() as stack:
                cache = self._cache_meter(stack, text)
                parity = _record(self._compare(runner, text, cache), text)
                int8_cache = None if cache is None else cache.record(text)
        except NotMeasurableError as error:
            return _unmeasured(str(error), measurements)
        return Proof(parity, measurements, int8_cache)

    def _cache_meter(self, stack: ExitStack, text: TokenizedText) -> CacheMeter | None:
        if not self._model.cache_scales.is_file():
            return None
        graph = self._model.int8_cache_graph
        meter = CacheMeter(lambda: self._runner(graph, text.longest))
        stack.callback(meter.close)
        return meter

    def _runner(self, graph: Path, capacity: int, *, mapped: bool = False) -> GraphRunner:
        return GraphRunner(graph, capacity=capacity, threads=self._threads, mapped=mapped)

    def _measure_speed(self, runner: GraphRunner, capacity: int) -> Measurements:
        with self._progress.phase("Measure speed"):
            return as_measurements(measure_speed(runner, capacity), self._threads)

    def _compare(
        self, runner: GraphRunner, text: TokenizedText, cache: CacheMeter | None
    ) -> Divergence:
        if self._model.is_reference:
            return self._meter(runner, runner, text, cache)
        if self._mode is ParityMode.AUTO:
            reason = obstacle(self._model.parameters, self._model.folder)
            if reason is not None:
                raise NotMeasurableError(reason)
        with ExitStack() as stack:
            folder = self._write_reference(stack)
            reference = self._runner(folder / "model.onnx", text.longest, mapped=True)
            stack.callback(reference.close)  # Before the scratch folder goes.
            stack.enter_context(lean_mapping(folder / "model.onnx.data"))
            return self._meter(reference, runner, text, cache)
        raise AssertionError("unreachable")

    def _write_reference(self, stack: ExitStack) -> Path:
        """Write the float32 graph into a folder that goes when the stack is unwound."""
        try:
            folder = stack.enter_context(self._reference.scratch).path / "float32"
            self._reference.write(folder)
        except (StorageError, OSError) as error:
            storage = isinstance(error, StorageError) or is_storage_failure(error)
            if self._mode is ParityMode.ALWAYS or not storage:
                raise
            # A quota, or another process that filled the disk: the model itself is whole.
            raise NotMeasurableError("the float32 graph could not be written") from error
        return folder

    def _meter(
        self,
        reference: GraphRunner,
        model: GraphRunner,
        text: TokenizedText,
        cache: CacheMeter | None,
    ) -> Divergence:
        meter = DivergenceMeter()
        length = chunk_length(model.vocabulary)
        with self._progress.phase("Compare with float32", total=text.tokens) as advance:
            for window in text.windows:
                for start in range(0, len(window), length):
                    chunk = window[start : start + length]
                    expected = reference.run(chunk, start, 0)
                    got = expected if model is reference else model.run(chunk, start, 0)
                    targets = window[start + 1 : start + 1 + len(chunk)]
                    meter.add(expected, got, targets)
                    if cache is not None:
                        cache.add(chunk, start, expected, got, targets)
                    advance(len(chunk))
        return meter.result()


def _unmeasured(reason: str, measurements: Measurements | None = None) -> Proof:
    unmeasured = UnmeasuredParity(not_measured=reason)
    return Proof(unmeasured, measurements, unmeasured)


def _record(divergence: Divergence, text: TokenizedText) -> ParityRecord:
    figures = (divergence.mean_kl, divergence.perplexity, divergence.reference_perplexity)
    if not all(map(math.isfinite, figures)):
        raise NotMeasurableError("the logits of the text are not finite")
    return ParityRecord(
        text_sha256=text.sha256,
        tokens=text.tokens,
        mean_kl=significant(divergence.mean_kl),
        max_kl=significant(divergence.max_kl),
        top1=round(divergence.top1, 2),
        perplexity=significant(divergence.perplexity, 5),
        reference_perplexity=significant(divergence.reference_perplexity, 5),
    )
