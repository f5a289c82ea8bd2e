"""What answers come to: observed once for each step and stream, not for each token."""

from __future__ import annotations

import time
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram

from mrs.errors import MrsError
from mrs.runtime.generation import GenerationDelta, GenerationRequest
from mrs.server.metrics.buckets import (
    INTER_TOKEN_LATENCY,
    REQUEST_LATENCY,
    TIME_TO_FIRST_TOKEN,
    TOKENS,
)

_MODEL = ("model_name",)
_NO_GRAMMAR = "none"


class GenerationMetrics:
    """An `EngineObserver`. Its names are vLLM's, where that has the metric.

    Args:
        registry: where the metrics are collected.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(name, text, _MODEL, buckets=buckets, registry=registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, (*_MODEL, *labels), registry=registry)

        self.first_token = histogram(
            "vllm:time_to_first_token_seconds",
            "From a request's admission to its first token.",
            TIME_TO_FIRST_TOKEN,
        )
        self.between_tokens = histogram(
            "vllm:inter_token_latency_seconds",
            "Between two steps that brought tokens of one request, for each token.",
            INTER_TOKEN_LATENCY,
        )
        self.latency = histogram(
            "vllm:e2e_request_latency_seconds",
            "From a request's admission to its last token.",
            REQUEST_LATENCY,
        )
        self.prompt_lengths = histogram("vllm:request_prompt_tokens", "Tokens of prompts.", TOKENS)
        self.answer_lengths = histogram(
            "vllm:request_generation_tokens", "Tokens of answers, all choices together.", TOKENS
        )
        self.prompt_tokens = counter("vllm:prompt_tokens", "Tokens of admitted prompts.")
        self.answer_tokens = counter("vllm:generation_tokens", "Tokens drawn.")
        self.cache_queries = counter(
            "vllm:prefix_cache_queries", "Prompt tokens that were looked for in the prefix cache."
        )
        self.cache_hits = counter("vllm:prefix_cache_hits", "Prompt tokens that were found there.")
        self.lookups = counter(
            "mrs_prefix_cache_lookups", "Requests that were looked for in the prefix cache."
        )
        self.found = counter(
            "mrs_prefix_cache_requests_found", "Requests of which a beginning was found there."
        )
        self.finished = counter(
            "vllm:request_success", "Choices that ended, by reason.", "finished_reason"
        )
        self.refusals = counter(
            "mrs_requests_refused", "Requests that an engine did not take, by reason.", "reason"
        )
        self.grammars = counter(
            "mrs_grammar_requests", "Admitted requests by kind of their grammar.", "kind"
        )

    def admitted(self, model: str, request: GenerationRequest) -> StreamMetrics:
        """The engine took a request."""
        tokens = len(request.prompt_ids)
        self.prompt_tokens.labels(model).inc(tokens)
        self.prompt_lengths.labels(model).observe(tokens)
        self.cache_queries.labels(model).inc(tokens)
        self.lookups.labels(model).inc()
        grammar = request.sampling.grammar
        kind = _NO_GRAMMAR if grammar is None else grammar.kind.value
        self.grammars.labels(model, kind).inc()
        return StreamMetrics(self._of(model), self, model)

    def refused(self, model: str, error: Exception) -> None:
        """The engine refused one."""
        reason = error.code if isinstance(error, MrsError) else MrsError.code
        self.refusals.labels(model, reason).inc()

    def _of(self, model: str) -> StepMetrics:
        return StepMetrics(
            self.first_token.labels(model),
            self.between_tokens.labels(model),
            self.answer_tokens.labels(model),
        )


@dataclass(frozen=True)
class StepMetrics:
    """What each step of one model's streams moves."""

    first_token: Histogram
    between_tokens: Histogram
    answer_tokens: Counter


class StreamMetrics:
    """A `StreamObserver` of one request."""

    def __init__(self, steps: StepMetrics, metrics: GenerationMetrics, model: str) -> None:
        self._steps = steps
        self._metrics = metrics
        self._model = model
        self._began = self._last = time.perf_counter()
        self._tokens = 0
        self._cached = 0
        self._reasons: list[str] = []
        self._over = False

    def step(self, deltas: tuple[GenerationDelta, ...]) -> None:
        """Take note of what has become available."""
        tokens = 0
        for delta in deltas:
            tokens += len(delta.token_ids)
            self._cached = max(self._cached, delta.cached_tokens)
            if delta.finish_reason is not None:
                self._reasons.append(delta.finish_reason.value)
        if not tokens:
            return
        now = time.perf_counter()
        if self._tokens:
            self._steps.between_tokens.observe((now - self._last) / _per_choice(deltas))
        else:
            self._steps.first_token.observe(now - self._began)
        self._steps.answer_tokens.inc(tokens)
        self._tokens += tokens
        self._last = now

    def ended(self) -> None:
        """Nobody reads on; tell the sums, once."""
        if self._over:
            return
        self._over = True
        metrics, model = self._metrics, self._model
        metrics.latency.labels(model).observe(self._last - self._began)
        metrics.answer_lengths.labels(model).observe(self._tokens)
        if self._cached:
            metrics.cache_hits.labels(model).inc(self._cached)
            metrics.found.labels(model).inc()
        for reason in self._reasons or ["abort"]:
            metrics.finished.labels(model, reason).inc()


def _per_choice(deltas: tuple[GenerationDelta, ...]) -> int:
    """Tokens of the choice that got most: where several came at once, each took its share."""
    if len(deltas) == 1:
        return len(deltas[0].token_ids) or 1
    counts: dict[int, int] = {}
    for delta in deltas:
        counts[delta.index] = counts.get(delta.index, 0) + len(delta.token_ids)
    return max(counts.values()) or 1
