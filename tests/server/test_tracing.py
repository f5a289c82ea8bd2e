from __future__ import annotations

import sys
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.testclient import TestClient

from mrs.errors import RuntimeUnavailableError
from mrs.server.app import create_app
from mrs.server.settings import ServerSettings
from mrs.server.tracing import Tracing, require_tracing
from tests.server.fake_engine import FakeEngine, say, served

CHAT = "/v1/chat/completions"
BODY: dict[str, Any] = {"messages": [{"role": "user", "content": "secret"}]}
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("mrs.server.app.open_tracing", lambda: Tracing(provider))
    return exporter


@pytest.fixture
def traced(exporter: InMemorySpanExporter) -> TestClient:
    app = create_app(served(FakeEngine(say("a"))), ServerSettings(tracing=True))
    return TestClient(app, base_url="http://127.0.0.1")


def only(exporter: InMemorySpanExporter) -> ReadableSpan:
    (span,) = exporter.get_finished_spans()
    return span


@pytest.mark.parametrize("stream", [False, True])
def test_a_span_tells_model_tokens_and_status(
    traced: TestClient, exporter: InMemorySpanExporter, stream: bool
) -> None:
    traced.post(CHAT, json={**BODY, "stream": stream})
    span = only(exporter)
    assert span.name == "chat tiny/fake"
    assert span.attributes is not None
    expected = {
        "http.request.method": "POST",
        "http.route": CHAT,
        "http.response.status_code": 200,
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "tiny/fake",
        "gen_ai.usage.input_tokens": 6,
        "gen_ai.usage.output_tokens": 2,
    }
    assert {name: span.attributes[name] for name in expected} == expected


def test_a_span_is_part_of_the_clients_trace(
    traced: TestClient, exporter: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "mrs")
    traced.post(CHAT, json=BODY, headers={"traceparent": f"00-{TRACE}-{PARENT}-01"})
    span = only(exporter)
    assert span.context is not None
    assert span.parent is not None
    assert (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, PARENT)
    assert f"trace={TRACE}" in caplog.text


def test_no_prompt_is_in_a_span(traced: TestClient, exporter: InMemorySpanExporter) -> None:
    traced.post(CHAT, json=BODY)
    assert "secret" not in only(exporter).to_json()


def test_a_failure_is_marked(exporter: InMemorySpanExporter) -> None:
    engine = FakeEngine()
    engine.refusal = RuntimeError("broken")
    app = create_app(served(engine), ServerSettings(tracing=True))
    TestClient(app, base_url="http://127.0.0.1").post(CHAT, json=BODY)
    assert not only(exporter).status.is_ok
    assert "broken" not in only(exporter).to_json()


def test_housekeeping_makes_no_span(traced: TestClient, exporter: InMemorySpanExporter) -> None:
    traced.get("/health")
    assert not exporter.get_finished_spans()


def test_without_the_extra_the_flag_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(RuntimeUnavailableError) as caught:
        require_tracing()
    assert "mrs-onnx[otel]" in caught.value.hint
