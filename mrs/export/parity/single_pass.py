"""Runs a model without a cache and the float32 graph of its checkpoint on the same inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mrs.cpu import usable_cpus
from mrs.errors import ModelLoadError, RuntimeUnavailableError
from mrs.export.parity.graph_runner import first_line, open_graph
from mrs.export.parity.mapped_weights import lean_mapping
from mrs.export.parity.onnx_runtime import import_onnx_runtime
from mrs.export.parity.proof import NOT_ASKED_FOR, ParityMode, ReferenceMaker
from mrs.export.parity.reference_size import obstacle
from mrs.export.progress import Progress
from mrs.model_repo.lock import UnmeasuredParity

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Outputs = NDArray[np.float32]
Feeds = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class SinglePassModel:
    """What is to be measured.

    Attributes:
        folder: the version, complete but for its lock.
        parameters: weights of the checkpoint.
        is_reference: its own graph is the float32 graph.
        output: what its graph gives for each row.
    """

    folder: Path
    parameters: int
    is_reference: bool
    output: str


def run_both(
    model: SinglePassModel,
    make_inputs: Callable[[], Sequence[Feeds]],
    reference: ReferenceMaker,
    mode: ParityMode,
    progress: Progress,
) -> tuple[Outputs, Outputs] | UnmeasuredParity:
    """The outputs of the model and of its reference, or why they were not measured.

    Args:
        model: the one.
        make_inputs: gives what is run, one after the other; called only if it is.
        reference: makes the float32 graph.
        mode: whether to measure.
        progress: of the export.

    Raises:
        ModelLoadError: ONNX Runtime refuses a graph.
        RuntimeUnavailableError: ``ALWAYS`` was asked for and there is no ONNX Runtime for it.
        MrsError: the float32 graph cannot be written.
    """
    if mode is ParityMode.NEVER:
        return UnmeasuredParity(not_measured=NOT_ASKED_FOR)
    try:
        import_onnx_runtime()
    except RuntimeUnavailableError:
        if mode is ParityMode.ALWAYS:
            raise
        return UnmeasuredParity(not_measured="there is no ONNX Runtime to run the graph")
    if mode is ParityMode.AUTO and not model.is_reference:
        reason = obstacle(model.parameters, model.folder)
        if reason is not None:
            return UnmeasuredParity(not_measured=reason)
    inputs = make_inputs()
    graph = model.folder / "cpu" / "model.onnx"
    found = _run(graph, inputs, model.output, f"Measure {model.output}", progress)
    if model.is_reference:
        return found, found
    return found, _reference(reference, inputs, model.output, progress)


def _reference(
    reference: ReferenceMaker, inputs: Sequence[Feeds], output: str, progress: Progress
) -> Outputs:
    with ExitStack() as stack:
        folder = stack.enter_context(reference.scratch).path / "float32"
        reference.write(folder)
        graph = folder / "model.onnx"
        return _run(graph, inputs, output, "Compare with float32", progress, mapped=True)
    raise AssertionError("unreachable")


def _run(
    graph: Path,
    inputs: Sequence[Feeds],
    output: str,
    label: str,
    progress: Progress,
    *,
    mapped: bool = False,
) -> Outputs:
    session = open_graph(graph, usable_cpus(), mapped)
    outputs = []
    with (
        lean_mapping(graph.with_name(graph.name + ".data") if mapped else Path()),
        progress.phase(label, total=len(inputs)) as advance,
    ):
        for feeds in inputs:
            outputs.append(_output(session, feeds, output))
            advance(1)
    return np.concatenate(outputs)


def _output(session: InferenceSession, feeds: Feeds, name: str) -> Outputs:
    try:
        output: Outputs = session.run([name], dict(feeds))[0]
    except Exception as error:
        raise ModelLoadError(
            f"ONNX Runtime cannot run the exported graph: {first_line(error)}",
            hint="Export with --parity never to keep the version all the same, and report this "
            "as a bug.",
        ) from error
    return output
