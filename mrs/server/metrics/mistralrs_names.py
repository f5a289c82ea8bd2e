"""The same figures again under mistral.rs's names, for whoever comes from there."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

_RENAMED = {
    "vllm:time_to_first_token_seconds": "mistralrs_time_to_first_token_seconds",
    "vllm:inter_token_latency_seconds": "mistralrs_inter_token_latency_seconds",
    "vllm:num_requests_running": "mistralrs_sequences_running",
    "vllm:num_requests_waiting": "mistralrs_sequences_waiting",
    "vllm:num_preemptions": "mistralrs_paged_preemptions",
    "vllm:spec_decode_num_drafts": "mistralrs_speculative_drafts",
    "vllm:spec_decode_num_draft_tokens": "mistralrs_speculative_draft_tokens_proposed",
    "vllm:spec_decode_num_accepted_tokens": "mistralrs_speculative_draft_tokens_accepted",
    "vllm:request_success": "mistralrs_sequences_completed",
    "mrs_slots": "mistralrs_sequences_capacity",
    "mrs_prefix_cache_lookups": "mistralrs_prefix_cache_lookups",
    "mrs_prefix_cache_requests_found": "mistralrs_prefix_cache_hits",
}
_RENAMED_LABELS = {"finished_reason": "reason"}
_PROCESSED = ("vllm:prompt_tokens", "vllm:generation_tokens")


class MistralrsNames(Collector):
    """Renames what other collectors tell.

    Args:
        others: tell the metrics of the registry, without these.
    """

    def __init__(self, others: Callable[[], Iterator[Metric]]) -> None:
        self._others = others

    def collect(self) -> Iterator[Metric]:
        """Tell them again."""
        processed = Metric(
            "mistralrs_tokens_processed", "Tokens of prompts and answers.", "counter"
        )
        sums: dict[str, float] = {}
        for metric in self._others():
            if metric.name in _RENAMED:
                yield _renamed(metric, _RENAMED[metric.name])
            if metric.name in _PROCESSED:
                for sample in metric.samples:
                    if sample.name.endswith("_total"):
                        model = sample.labels["model_name"]
                        sums[model] = sums.get(model, 0.0) + sample.value
        for model, value in sums.items():
            processed.add_sample("mistralrs_tokens_processed_total", {"model_name": model}, value)
        yield processed

    def describe(self) -> list[Metric]:
        """Nothing: the registry would ask for all of them at once."""
        return []


def _renamed(metric: Metric, name: str) -> Metric:
    renamed = Metric(name, metric.documentation, metric.type)
    renamed.samples = [
        Sample(
            name + sample.name.removeprefix(metric.name),
            {_RENAMED_LABELS.get(label, label): value for label, value in sample.labels.items()},
            sample.value,
            sample.timestamp,
            sample.exemplar,
        )
        for sample in metric.samples
    ]
    return renamed
