"""Importance of columns from a text: the graph is run over it, and squares are summed up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mrs.cpu import usable_cpus
from mrs.errors import UsageError
from mrs.export.calibration.observed_formats import PREFIX
from mrs.export.parity.graph_runner import GraphRunner, NotMeasurableError
from mrs.export.parity.text import tokenize_text
from mrs.export.quantization.importance import TensorImportance
from mrs.model_repo.digests import read_small_file

# Enough for averages that more text hardly moves.
MOST_TOKENS = 16384
_LARGEST_TEXT = 64 << 20


def read_calibration_text(path: Path) -> str:
    """The text of a calibration file.

    Raises:
        UsageError: it is missing, too large, or no UTF-8.
    """
    try:
        return read_small_file(path, _LARGEST_TEXT).decode("utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text of at most 64 MB"
        raise UsageError(
            f"Cannot read the calibration file {path}: {reason}.",
            hint="Name a text file like what the model will read and write.",
            param="calibration_file",
        ) from None


def calibrate(
    graph: Path,
    outputs: Mapping[str, str],
    tokenizer_json: Path,
    text: str,
    *,
    context_length: int,
    begin_token: int | None,
    advance: Callable[[int], None] = lambda tokens: None,
) -> dict[str, TensorImportance]:
    """Run a graph with observed matrices over a text.

    Args:
        graph: ``model.onnx``, made with `ObservedFormats`.
        outputs: the output of each tensor, as `Observations.add_outputs` returns them.
        tokenizer_json: the tokenizer of the artifact.
        text: at most `MOST_TOKENS` tokens of it are used.
        context_length: the model's.
        begin_token: what each window starts with, if anything.
        advance: called with the number of tokens of each window, for progress.

    Returns:
        the importance of each tensor.

    Raises:
        UsageError: the text holds no two tokens in a row, or its activations are not finite.
        ModelLoadError: ONNX Runtime refuses the graph.
        RuntimeUnavailableError: there is no ONNX Runtime for it.
    """
    try:
        windows = tokenize_text(
            tokenizer_json,
            context_length=context_length,
            begin_token=begin_token,
            text=text,
            most_tokens=MOST_TOKENS,
        )
        runner = _ObservingRunner(graph, windows.longest)
    except NotMeasurableError as error:
        raise UsageError(
            f"The model cannot be calibrated: {error}.", param="calibration_file"
        ) from error
    for window in windows.windows:
        runner.observe(window)
        advance(len(window))
    return {name: _importance(name, runner.totals[output]) for name, output in outputs.items()}


def _importance(name: str, squares: NDArray[np.float64]) -> TensorImportance:
    if not np.isfinite(squares).all():
        raise UsageError(
            f"The activations of {name!r} are not finite on the calibration text.",
            param="calibration_file",
        )
    return TensorImportance.of_squares(squares[np.newaxis])


class _ObservingRunner(GraphRunner):
    """Adds up the sums of squares of all windows.

    Attributes:
        totals: float64 ``[columns]`` by output.
    """

    def __init__(self, graph: Path, capacity: int) -> None:
        super().__init__(graph, capacity=capacity, threads=usable_cpus())
        nodes = [node for node in self._session.get_outputs() if node.name.startswith(PREFIX)]
        self._sums = {node.name: np.zeros(node.shape[0], np.float32) for node in nodes}
        self.totals = {name: sums.astype(np.float64) for name, sums in self._sums.items()}
        for name, sums in self._sums.items():
            address = sums.ctypes.data
            self._binding.bind_output(name, "cpu", 0, np.float32, sums.shape, address)

    def observe(self, tokens: NDArray[np.int64]) -> None:
        """Run a window of its own."""
        self.run(tokens, 0, len(tokens) - 1)
        for name, sums in self._sums.items():
            self.totals[name] += sums
