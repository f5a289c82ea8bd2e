"""Runs one scheduler step on the decoder graph, in place on the KV cache."""

from __future__ import annotations

from collections.abc import Sequence as Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mrs.runtime.kv_cache import KVCache
from mrs.runtime.scheduler import Row, Step

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


MOST_BINDINGS = 64
"""Enough for every batch of the default number of slots; a binding of 30 layers takes 0.5 ms."""


class Decoder:
    """The model, bound to a KV cache.

    Binding sixty caches costs more than many a kernel, so the bindings that were used last are
    kept, one for each run of slots, and only their small inputs change.

    Args:
        session: a session on the decoder graph.
        cache: where past and present live.
        vocab_size: width of the logits.
    """

    def __init__(self, session: InferenceSession, cache: KVCache, vocab_size: int) -> None:
        self._session = session
        self._cache = cache
        self._logits = np.empty((cache.shape.slots, vocab_size), dtype=np.float32)
        self._bindings: dict[tuple[int, int], _Binding] = {}

    def run(self, step: Step) -> NDArray[np.float32]:
        """Compute a step, whose moves have been carried out.

        Returns:
            logits float32 ``[rows that draw, vocab]``, in row order; a view that the next call
            overwrites.

        Raises:
            RuntimeError: ONNX Runtime failed.
        """
        return self._binding(step.first_slot, len(step.rows)).run(step.rows, self._logits)

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


@dataclass
class _Input:
    """A small input: a buffer that is bound once, and rebound only when its shape changes."""

    name: str
    dtype: type[np.generic]
    buffer: NDArray[Any]

    def fill(self, binding: Any, value: NDArray[Any]) -> None:
        if self.buffer.shape != value.shape:
            self.buffer = np.empty(value.shape, dtype=self.dtype)
            self.bind(binding)
        self.buffer[...] = value

    def bind(self, binding: Any) -> None:
        buffer = self.buffer
        binding.bind_input(self.name, "cpu", 0, self.dtype, buffer.shape, buffer.ctypes.data)


class _Binding:
    """ONNX Runtime's IOBinding for ``count`` slots from ``first_slot`` on."""

    def __init__(
        self, session: InferenceSession, cache: KVCache, first_slot: int, count: int
    ) -> None:
        self._session = session
        self._binding = session.io_binding()
        self._bind_cache(cache, first_slot, count)
        int32, int64 = np.int32, np.int64
        self._ids = _Input("input_ids", int64, np.empty((0, 0), int64))
        self._query_lengths = _Input("query_seqlens", int32, np.empty(0, int32))
        self._key_lengths = _Input("seqlens_k", int32, np.empty(0, int32))
        self._total = _Input("total_sequence_length", int32, np.zeros((), int32))
        self._total.bind(self._binding)
        self._wanted = _Input("logits_indices", int64, np.empty(0, int64))
        self._rows_bound = -1

    def run(self, rows: Collection[Row | None], logits: NDArray[np.float32]) -> NDArray[np.float32]:
        width = max((row.new for row in rows if row is not None), default=1)
        ids = np.zeros((len(rows), width), dtype=np.int64)
        new = np.zeros(len(rows), dtype=np.int32)
        past = np.ones(len(rows), dtype=np.int32)
        wanted = []
        for position, row in enumerate(rows):
            # An empty slot counts as one cached token and none new: the operator skips it.
            if row is None or not row.new:
                continue
            new[position], past[position] = row.new, row.past
            ids[position, : row.new] = row.sequence.tokens(row.past, row.past + row.new)
            if row.draws:
                wanted.append(position * width + row.new - 1)
        return self._run(ids, new, past, np.array(wanted, dtype=np.int64), logits)

    def _run(
        self,
        ids: NDArray[np.int64],
        new: NDArray[np.int32],
        past: NDArray[np.int32],
        wanted: NDArray[np.int64],
        logits: NDArray[np.float32],
    ) -> NDArray[np.float32]:
        lengths = past + new
        self._ids.fill(self._binding, ids)
        self._query_lengths.fill(self._binding, new)
        self._key_lengths.fill(self._binding, lengths - 1)
        self._total.fill(self._binding, lengths.max())
        # A prefill chunk that draws nothing still asks for one row: the graph has no empty path.
        self._wanted.fill(self._binding, wanted if len(wanted) else np.zeros(1, np.int64))
        self._bind_logits(logits, max(1, len(wanted)))
        self._session.run_with_iobinding(self._binding)
        return logits[: len(wanted)]

    def _bind_logits(self, logits: NDArray[np.float32], rows: int) -> None:
        if rows != self._rows_bound:
            shape = (rows, logits.shape[1])
            self._binding.bind_output("logits", "cpu", 0, np.float32, shape, logits.ctypes.data)
            self._rows_bound = rows

    def _bind_cache(self, cache: KVCache, first_slot: int, count: int) -> None:
        shape = cache.tensor_shape(count)
        for layer in range(cache.shape.num_layers):
            for which, name in enumerate(("key", "value")):
                address = cache.address(layer, which, first_slot)
                past, present = f"past_key_values.{layer}.{name}", f"present.{layer}.{name}"
                self._binding.bind_input(past, "cpu", 0, np.float32, shape, address)
                self._binding.bind_output(present, "cpu", 0, np.float32, shape, address)
