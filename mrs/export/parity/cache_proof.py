"""Measures a model with an 8-bit KV cache against itself with a float32 one."""

from __future__ import annotations

import math
from pathlib import Path

from mrs.export.parity.divergence import DivergenceMeter
from mrs.export.parity.figures import chunk_length, significant
from mrs.export.parity.graph_runner import GraphRunner, NotMeasurableError
from mrs.export.parity.text import TokenizedText
from mrs.export.progress import Progress
from mrs.model_repo.lock import CacheParityRecord


def compare_caches(
    model: GraphRunner, int8_graph: Path, text: TokenizedText, threads: int, progress: Progress
) -> CacheParityRecord:
    """Run both graphs over the text.

    Args:
        model: the graph with a float32 cache.
        int8_graph: ``model.int8kv.onnx``, weights and scales beside it.
        text: to compare on.
        threads: threads of each operator.
        progress: told of the tokens.

    Raises:
        NotMeasurableError: logits are not finite.
        ModelLoadError: ONNX Runtime refuses the graph.
    """
    meter = DivergenceMeter()
    length = chunk_length(model.vocabulary)
    int8 = GraphRunner(int8_graph, capacity=text.longest, threads=threads)
    try:
        with progress.phase("Compare KV caches", total=text.tokens) as advance:
            for window in text.windows:
                for start in range(0, len(window), length):
                    chunk = window[start : start + length]
                    expected, got = model.run(chunk, start, 0), int8.run(chunk, start, 0)
                    meter.add(expected, got, window[start + 1 : start + 1 + len(chunk)])
                    advance(len(chunk))
    finally:
        int8.close()
    divergence = meter.result()
    if not math.isfinite(divergence.mean_kl):
        raise NotMeasurableError("the logits of the text are not finite")
    return CacheParityRecord(
        text_sha256=text.sha256,
        tokens=text.tokens,
        mean_kl=significant(divergence.mean_kl),
        max_kl=significant(divergence.max_kl),
        top1=round(divergence.top1, 2),
    )
