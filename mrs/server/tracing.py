"""A span for each request, for OpenTelemetry; part of the extra ``otel``.

Names are those of its conventions for HTTP servers and for generative AI
(https://opentelemetry.io/docs/specs/semconv/gen-ai/).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.types import Scope

from mrs import __version__
from mrs.errors import RuntimeUnavailableError
from mrs.server.access_log import QUIET_PATHS
from mrs.server.request_context import RequestContext

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

_OPERATIONS = {
    "/v1/chat/completions": "chat",
    "/v1/messages": "chat",
    "/v1/responses": "chat",
    "/v1/completions": "text_completion",
    "/v1/embeddings": "embeddings",
}
_PROVIDER = "mrs"


class Tracing:
    """A `RequestObserver` that makes spans, parts of the traces that clients name.

    Args:
        provider: where the spans go.
    """

    def __init__(self, provider: TracerProvider) -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider = provider
        self._tracer = provider.get_tracer("mrs", __version__)
        self._propagator = TraceContextTextMapPropagator()
        self._spans: dict[int, Span] = {}

    def began(self, scope: Scope, context: RequestContext) -> None:
        """Start a span."""
        if scope["path"] in QUIET_PATHS:
            return
        from opentelemetry.trace import SpanKind

        parent = self._propagator.extract(_trace_headers(scope))
        span = self._tracer.start_span(
            f"{scope['method']} {scope['path'][:100]}", context=parent, kind=SpanKind.SERVER
        )
        context.trace_id = f"{span.get_span_context().trace_id:032x}"
        self._spans[id(context)] = span

    def ended(self, scope: Scope, context: RequestContext) -> None:
        """End it."""
        span = self._spans.pop(id(context), None)
        if span is None:
            return
        from opentelemetry.trace import Status, StatusCode

        route = getattr(scope.get("route"), "path", None)
        operation = _OPERATIONS.get(route or "")
        if operation and context.model:
            span.update_name(f"{operation} {context.model}")
        elif route:
            span.update_name(f"{scope['method']} {route}")
        for name, value in _attributes(scope, context, route, operation).items():
            if value is not None:
                span.set_attribute(name, value)
        if context.final_status >= 500:
            span.set_status(Status(StatusCode.ERROR))
        span.end()

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()


def open_tracing() -> Tracing:
    """Tracing to where ``OTEL_EXPORTER_OTLP_ENDPOINT`` and its like say.

    Raises:
        RuntimeUnavailableError: the extra is not installed.
    """
    require_tracing()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    # What OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say comes before this.
    named = Resource({"service.name": "mrs", "service.version": __version__})
    from_environment = OTELResourceDetector().detect()
    provider = TracerProvider(resource=named.merge(from_environment))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Tracing(provider)


def require_tracing() -> None:
    """Check that the extra is installed.

    Raises:
        RuntimeUnavailableError: it is not.
    """
    try:
        import opentelemetry.exporter.otlp.proto.http
        import opentelemetry.sdk.trace  # noqa: F401
    except ImportError as error:
        raise RuntimeUnavailableError(
            f"--otel needs OpenTelemetry, which cannot be loaded: {error}.",
            hint="Install it: pip install 'mrs-onnx[otel]'.",
        ) from error


def _trace_headers(scope: Scope) -> dict[str, str]:
    wanted = (b"traceparent", b"tracestate")
    return {
        name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in wanted
    }


def _attributes(
    scope: Scope, context: RequestContext, route: str | None, operation: str | None
) -> dict[str, Any]:
    status = context.final_status
    attributes: dict[str, Any] = {
        "http.request.method": scope["method"],
        "http.route": route,
        "http.response.status_code": status,
        "url.path": scope["path"][:200],
        "error.type": str(status) if status >= 500 else None,
        "mrs.request_id": context.request_id,
    }
    if operation:
        attributes |= {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": _PROVIDER,
            "gen_ai.request.model": context.model or None,
            "gen_ai.response.model": context.model or None,
            "gen_ai.usage.input_tokens": context.prompt_tokens,
            "gen_ai.usage.output_tokens": context.completion_tokens,
        }
    return attributes
