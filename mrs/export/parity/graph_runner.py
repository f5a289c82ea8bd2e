"""Runs one sequence on a decoder graph, by the contract in docs/architecture.md.

The runtime's decoder serves many sequences and cannot be imported here; this one needs the graph
alone: it reads the sizes of the caches from its inputs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mrs.errors import ModelLoadError
from mrs.export.parity.onnx_runtime import import_onnx_runtime
from mrs.processor import read_processor

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

_PAST, _PRESENT = "past_key_values.", "present."
_WINDOWED = "capacity_of_window_"
_SMALL_INPUTS = {
    "input_ids",
    "query_seqlens",
    "seqlens_k",
    "total_sequence_length",
    "logits_indices",
}
_CACHE_TYPES: dict[str, type[np.generic]] = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(int8)": np.int8,
}


_HINT = "Export with --parity never to keep the version all the same, and report this as a bug."


class NotMeasurableError(Exception):
    """A model cannot be measured; the message completes "not measured: "."""


class GraphRunner:
    """A graph with room for one sequence.

    Args:
        graph: ``model.onnx``, its weights beside it.
        capacity: tokens that the caches hold; past and new ones together.
        threads: threads of each operator.
        mapped: leave the weights where the file is mapped, which is slower but takes no memory
            that the system could not have back.

    Raises:
        ModelLoadError: ONNX Runtime refuses the graph.
        RuntimeUnavailableError: ONNX Runtime is missing or too old.
        NotMeasurableError: its inputs or outputs are not those of a decoder.
    """

    def __init__(self, graph: Path, *, capacity: int, threads: int, mapped: bool = False) -> None:
        self._session = open_graph(graph, threads, mapped)
        _require_contract(self._session)
        self._binding = self._session.io_binding()
        self._caches = [self._bind_cache(node, capacity) for node in self._session.get_inputs()]
        self._vocabulary = int(self._session.get_outputs()[0].shape[1])
        self._logits = np.empty((0, self._vocabulary), dtype=np.float32)

    @property
    def vocabulary(self) -> int:
        """Width of the logits."""
        return self._vocabulary

    def run(self, tokens: NDArray[np.int64], past: int, first_wanted: int) -> NDArray[np.float32]:
        """Append tokens to the first ``past`` ones and compute logits.

        Args:
            tokens: int64 ``[new]``.
            past: tokens that are in the cache; those after them are forgotten.
            first_wanted: logits are computed from this one of the new tokens on.

        Returns:
            float32 ``[new - first_wanted, vocab]``; a view that the next call overwrites.

        Raises:
            ModelLoadError: ONNX Runtime fails.
        """
        new = len(tokens)
        self._feed("input_ids", tokens[np.newaxis])
        self._feed("query_seqlens", np.array([new], np.int32))
        self._feed("seqlens_k", np.array([past + new - 1], np.int32))
        self._feed("total_sequence_length", np.array(past + new, np.int32))
        self._feed("logits_indices", np.arange(first_wanted, new, dtype=np.int64))
        self._bind_logits(new - first_wanted)
        try:
            self._session.run_with_iobinding(self._binding)
        except Exception as error:
            # Out of memory, most likely; ONNX Runtime has a type of its own for everything.
            raise ModelLoadError(
                f"ONNX Runtime cannot run the exported graph: {first_line(error)}",
                hint=_HINT,
            ) from error
        return self._logits

    def cached(self, tokens: int) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        """Keys and values of the first tokens in each layer, ``[kv_heads, tokens, head_dim]``."""
        caches = [cache[0, :, :tokens] for cache in self._caches if cache is not None]
        return list(zip(caches[::2], caches[1::2], strict=True))

    def close(self) -> None:
        """Let go of the session and of its weights; nothing can be computed after that."""
        del self._binding, self._session

    def _feed(self, name: str, value: NDArray[Any]) -> None:
        self._binding.bind_cpu_input(name, np.ascontiguousarray(value))

    def _bind_logits(self, rows: int) -> None:
        if len(self._logits) != rows:
            self._logits = np.empty((rows, self._vocabulary), dtype=np.float32)
        logits = self._logits
        self._binding.bind_output("logits", "cpu", 0, np.float32, logits.shape, logits.ctypes.data)

    def _bind_cache(self, node: Any, capacity: int) -> NDArray[Any] | None:
        """Past and present on one memory, as attention that appends in place wants it."""
        if not node.name.startswith(_PAST):
            return None
        capacity = max(capacity, _window(node.shape[2]))
        sizes = [size if isinstance(size, int) else capacity for size in node.shape[1:]]
        dtype = _CACHE_TYPES[node.type]
        cache = np.zeros((1, *sizes), dtype=dtype)
        present = _PRESENT + node.name.removeprefix(_PAST)
        address = cache.ctypes.data
        self._binding.bind_input(node.name, "cpu", 0, dtype, cache.shape, address)
        self._binding.bind_output(present, "cpu", 0, dtype, cache.shape, address)
        return cache


def open_graph(graph: Path, threads: int, mapped: bool) -> InferenceSession:
    """A session that measures.

    Args:
        graph: ``model.onnx``, its weights beside it.
        threads: threads of each operator.
        mapped: as `GraphRunner` has it.

    Raises:
        ModelLoadError: ONNX Runtime refuses the graph.
        RuntimeUnavailableError: ONNX Runtime is missing or too old.
    """
    ort = import_onnx_runtime()
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.enable_mem_pattern = False
    for entry, value in read_processor().session_entries.items():
        options.add_session_config_entry(entry, value)
    options.log_severity_level = 4
    if mapped:
        options.add_session_config_entry("session.disable_prepacking", "1")
    try:
        return ort.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        # ONNX Runtime raises a dozen unrelated types here.
        raise ModelLoadError(
            f"ONNX Runtime cannot load the exported graph {graph.name}: {first_line(error)}",
            hint=_HINT,
        ) from error


def _window(capacity: int | str) -> int:
    """The window of a layer, by what its capacity is called; 1 where it has none.

    The operator refuses a cache that is shorter.
    """
    name = str(capacity)
    return int(name.removeprefix(_WINDOWED)) if name.startswith(_WINDOWED) else 1


def first_line(error: Exception) -> str:
    """What an exception says, on one line."""
    return f"{(str(error).splitlines() or [type(error).__name__])[0]:.300}"


def _require_contract(session: InferenceSession) -> None:
    inputs, outputs = session.get_inputs(), session.get_outputs()
    if outputs[0].name != "logits" or not isinstance(outputs[0].shape[-1], int):
        raise NotMeasurableError("the graph has no logits")
    for node in inputs:
        known = node.name in _SMALL_INPUTS
        if not known and not (node.name.startswith(_PAST) and node.type in _CACHE_TYPES):
            raise NotMeasurableError(f"the graph has the input {node.name!r}")
