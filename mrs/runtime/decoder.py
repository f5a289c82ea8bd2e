"""Runs one scheduler step on the decoder graph, in place on the KV cache."""

from __future__ import annotations

from collections.abc import Sequence as Collection
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mrs.runtime.kv_cache import KVCache
from mrs.runtime.step import Row, Step

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


MOST_BINDINGS = 64
"""Enough for every batch of the default number of slots; a binding of 30 layers takes 0.5 ms."""
_LOGITS_BYTES = 1 << 26


class Decoder:
    """The model, bound to a KV cache.

    Binding sixty caches costs more than many a kernel, so the bindings that were used last are
    kept, one for each run of slots, and only their small inputs change.

    Args:
        session: a session on the decoder graph.
        cache: where past and present live.
        vocab_size: width of the logits.

    Attributes:
        max_logits: most positions of one step whose logits can be wanted.
    """

    def __init__(self, session: InferenceSession, cache: KVCache, vocab_size: int) -> None:
        self._session = session
        self._run_options = _run_options()
        self._cache = cache
        self.max_logits = max(cache.shape.running, _LOGITS_BYTES // (4 * vocab_size))
        # Memory comes with use: one row for each slot, mostly.
        self._logits = np.empty((self.max_logits, vocab_size), dtype=np.float32)
        self._bindings: dict[tuple[int, int], _Binding] = {}

    def run(self, step: Step) -> NDArray[np.float32]:
        """Compute a step, whose moves have been carried out.

        Returns:
            logits float32 ``[wanted positions, vocab]``, row by row; a view that the next call
            overwrites.

        Raises:
            RuntimeError: ONNX Runtime failed, or `interrupt` was called.
        """
        binding = self._binding(step.first_slot, len(step.rows))
        try:
            return binding.run(step.rows, self._logits, self._run_options)
        finally:
            self._run_options.terminate = False

    def interrupt(self) -> None:
        """Make the `run` of this moment raise at its next operator; for other threads."""
        self._run_options.terminate = True

    def close(self) -> None:
        """Let go of the session; nothing can be computed after that."""
        self._bindings.clear()
        del self._session

    def _binding(self, first_slot: int, count: int) -> _Binding:
        binding = self._bindings.pop((first_slot, count), None)
        if binding is None:
            if len(self._bindings) == MOST_BINDINGS:
                del self._bindings[next(iter(self._bindings))]
            binding = _Binding(self._session, self._cache, first_slot, count)
        self._bindings[first_slot, count] = binding  # Last, as the one used last.
        return binding


def _run_options() -> Any:
    from onnxruntime import RunOptions

    return RunOptions()


class _Input:
    """A small input: a buffer that is bound once, and again only when its shape changes.

    Filled in place, number by number: arrays made anew for each token would cost more.
    """

    def __init__(self, binding: Any, name: str, dtype: type[np.generic]) -> None:
        self._binding = binding
        self._name = name
        self._dtype = dtype
        self.buffer: NDArray[Any] = np.empty(0, dtype=dtype)

    def resized(self, *shape: int) -> NDArray[Any]:
        """The buffer with this shape; what it holds is left over from earlier steps."""
        if self.buffer.shape != shape:
            self.buffer = buffer = np.zeros(shape, dtype=self._dtype)
            self._binding.bind_input(self._name, "cpu", 0, self._dtype, shape, buffer.ctypes.data)
        return self.buffer


class _Binding:
    """ONNX Runtime's IOBinding for ``count`` slots from ``first_slot`` on."""

    def __init__(
        self, session: InferenceSession, cache: KVCache, first_slot: int, count: int
    ) -> None:
        self._session = session
        self._binding = session.io_binding()
        self._bind_cache(cache, first_slot, count)
        self._ids = _Input(self._binding, "input_ids", np.int64)
        self._query_lengths = _Input(self._binding, "query_seqlens", np.int32)
        self._key_lengths = _Input(self._binding, "seqlens_k", np.int32)
        self._total = _Input(self._binding, "total_sequence_length", np.int32)
        self._wanted = _Input(self._binding, "logits_indices", np.int64)
        self._rows_bound = -1

    def run(
        self, rows: Collection[Row | None], logits: NDArray[np.float32], options: Any
    ) -> NDArray[np.float32]:
        width = max((row.new for row in rows if row is not None), default=1)
        wanted = self._fill(rows, width)
        # A prefill chunk that draws nothing still asks for one row: the graph has no empty path.
        indices = self._wanted.resized(max(1, len(wanted)))
        indices[:] = wanted or 0
        self._bind_logits(logits, len(indices))
        self._session.run_with_iobinding(self._binding, options)
        return logits[: len(wanted)]

    def _fill(self, rows: Collection[Row | None], width: int) -> list[int]:
        """Fill the inputs that tell of the rows; gives the positions whose logits are wanted."""
        ids = self._ids.resized(len(rows), width)
        query_lengths = self._query_lengths.resized(len(rows))
        key_lengths = self._key_lengths.resized(len(rows))
        longest = 1
        wanted: list[int] = []
        for position, row in enumerate(rows):
            if row is None or not row.new:
                # An empty slot counts as one cached token and none new: the operator skips it.
                ids[position], query_lengths[position], key_lengths[position] = 0, 0, 0
                continue
            ids[position, : row.new] = row.sequence.tokens(row.past, row.past + row.new)
            ids[position, row.new :] = 0
            query_lengths[position] = row.new
            key_lengths[position] = row.past + row.new - 1
            longest = max(longest, row.past + row.new)
            end = position * width + row.new
            wanted.extend(range(end - row.wanted, end))
        self._total.resized()[()] = longest
        return wanted

    def _bind_logits(self, logits: NDArray[np.float32], rows: int) -> None:
        if rows != self._rows_bound:
            shape = (rows, logits.shape[1])
            self._binding.bind_output("logits", "cpu", 0, np.float32, shape, logits.ctypes.data)
            self._rows_bound = rows

    def _bind_cache(self, cache: KVCache, first_slot: int, count: int) -> None:
        dtype = cache.shape.type.dtype
        for layer in range(cache.shape.num_layers):
            shape = cache.tensor_shape(layer, count)
            for which, name in enumerate(("key", "value")):
                address = cache.address(layer, which, first_slot)
                past, present = f"past_key_values.{layer}.{name}", f"present.{layer}.{name}"
                self._binding.bind_input(past, "cpu", 0, dtype, shape, address)
                self._binding.bind_output(present, "cpu", 0, dtype, shape, address)
