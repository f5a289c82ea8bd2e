"""What HTTP requests come to. Names and labels are mistral.rs's."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.types import Scope

from mrs.server.access_log import QUIET_PATHS
from mrs.server.metrics.buckets import BODY_BYTES, HTTP_DURATION
from mrs.server.request_context import RequestContext

_NO_ROUTE = "<unmatched>"
_NO_MODEL = "none"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class HttpMetrics:
    """A `RequestObserver` that counts all requests but housekeeping.

    Labels have few values, whatever clients send: the pattern of a route for its path, and the
    name of a served model.

    Args:
        registry: where the metrics are collected.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ("method", "path", "model", "status")
        self._requests = Counter(
            "http_requests", "HTTP requests by outcome.", labels, registry=registry
        )
        self._durations = Histogram(
            "http_request_duration_seconds",
            "From the head of a request to the end of its response.",
            labels,
            buckets=HTTP_DURATION,
            registry=registry,
        )
        self._bodies = Histogram(
            "http_request_body_bytes",
            "Size that requests announce for their bodies.",
            ("method", "path", "model"),
            buckets=BODY_BYTES,
            registry=registry,
        )
        self._running = Gauge(
            "http_requests_in_flight", "HTTP requests that are being answered.", registry=registry
        )

    def began(self, scope: Scope, context: RequestContext) -> None:
        """One more."""
        if scope["path"] not in QUIET_PATHS:
            self._running.inc()

    def ended(self, scope: Scope, context: RequestContext) -> None:
        """One less."""
        if scope["path"] in QUIET_PATHS:
            return
        self._running.dec()
        method = scope["method"] if scope["method"] in _METHODS else "other"
        path = getattr(scope.get("route"), "path", _NO_ROUTE)
        model = context.model or _NO_MODEL
        status = str(context.final_status)
        self._requests.labels(method, path, model, status).inc()
        self._durations.labels(method, path, model, status).observe(context.elapsed)
        if (size := _announced(scope)) is not None:
            self._bodies.labels(method, path, model).observe(size)


def _announced(scope: Scope) -> int | None:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and len(value) < 16:
            return int(value)
    return None
