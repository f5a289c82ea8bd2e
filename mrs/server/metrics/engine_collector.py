"""What the engines say of themselves, asked for when somebody reads the metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mrs.runtime.generation import EngineStats
from mrs.server.model_catalog import ModelCatalog, ModelStatus

_MODEL = ["model_name"]
_GAUGES = {
    "vllm:num_requests_running": ("running", "Sequences that are being generated."),
    "vllm:num_requests_waiting": ("waiting", "Sequences in the queue."),
    "mrs_slots": ("slots", "Most sequences that can run at once."),
    "mrs_kv_cache_bytes": ("kv_bytes", "Memory that the key-value cache holds."),
    "mrs_kv_cache_limit_bytes": ("kv_budget", "Most memory that it may hold."),
}
_COUNTERS = {
    "vllm:num_preemptions": ("preemptions", "Sequences that gave their memory to older ones."),
    "mrs_prefilled_tokens": ("prefilled_tokens", "Prompt tokens that were computed."),
    "mrs_recomputed_tokens": (
        "recomputed_tokens",
        "Tokens that were computed again after a preemption.",
    ),
    "vllm:spec_decode_num_drafts": ("drafts", "Guesses of several tokens."),
    "vllm:spec_decode_num_draft_tokens": ("draft_tokens", "Tokens that were guessed."),
    "vllm:spec_decode_num_accepted_tokens": ("accepted_tokens", "Those that were right."),
}
_GRAMMARS = {
    "compiled": "Grammars that were compiled.",
    "cache_hits": "Requests whose grammar was compiled before.",
    "refused": "Grammars that were not taken.",
    "compile_seconds": "Time spent on compiling.",
    "masks": "Masks that were computed.",
    "mask_seconds": "Time spent on masks.",
    "waited_seconds": "Time that steps waited for masks.",
    "steered": "Tokens that were chosen to finish an answer in time.",
}


class EngineCollector(Collector):
    """Metrics of all models that are loaded.

    Args:
        models: whose.
    """

    def __init__(self, models: ModelCatalog) -> None:
        self._models = models

    def collect(self) -> Iterator[Metric]:
        """Ask, and tell."""
        stats = {name: engine.stats() for name, engine in self._models.engines().items()}
        for metric, (field, text) in _GAUGES.items():
            yield _gauge(metric, text, _values(stats, field))
        yield _gauge("vllm:kv_cache_usage_perc", "Share of that memory, 1 for all.", _usage(stats))
        for metric, (field, text) in _COUNTERS.items():
            yield _counter(metric, text, _values(stats, field))
        for field, text in _GRAMMARS.items():
            yield _counter(f"mrs_grammar_{field}", text, self._grammar_values(field))
        yield self._statuses()

    def _grammar_values(self, field: str) -> dict[str, float]:
        found = {
            name: getattr(engine, "grammar_stats", None)
            for name, engine in self._models.engines().items()
        }
        return {name: getattr(stats, field) for name, stats in found.items() if stats is not None}

    def _statuses(self) -> Metric:
        family = GaugeMetricFamily(
            "mrs_model_status", "1 for where the model is.", labels=[*_MODEL, "status"]
        )
        shown = (ModelStatus.LOADED, ModelStatus.UNLOADED, ModelStatus.RELOADING)
        for state in self._models.states():
            for status in (*shown, ModelStatus.INTERNAL_ERROR):
                labels = [state.description.name, status.value]
                family.add_metric(labels, float(state.status is status))
        return family


def _values(stats: dict[str, EngineStats], field: str) -> dict[str, float]:
    """One field of all that have it: what an engine does not know of itself is not told."""
    values: dict[str, Any] = {name: getattr(each, field, None) for name, each in stats.items()}
    return {name: float(value) for name, value in values.items() if value is not None}


def _usage(stats: dict[str, EngineStats]) -> dict[str, float]:
    return {name: each.kv_bytes / each.kv_budget for name, each in stats.items() if each.kv_budget}


def _gauge(name: str, text: str, values: dict[str, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=_MODEL)
    for model, value in values.items():
        family.add_metric([model], value)
    return family


def _counter(name: str, text: str, values: dict[str, float]) -> Metric:
    family = CounterMetricFamily(name, text, labels=_MODEL)
    for model, value in values.items():
        family.add_metric([model], value)
    return family
