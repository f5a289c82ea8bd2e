from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from mrs.errors import QueueFullError
from mrs.runtime.generation import EngineStats, GenerationDelta
from mrs.runtime.grammar.stats import GrammarStats
from mrs.server.app import create_app
from mrs.server.metrics.generation_metrics import GenerationMetrics
from mrs.server.metrics.server_metrics import ServerMetrics
from mrs.server.model_catalog import SingleModel
from mrs.server.settings import ServerSettings
from tests.server.fake_engine import FakeEngine, end, say, served, token

CHAT = "/v1/chat/completions"
BODY: dict[str, Any] = {"messages": [{"role": "user", "content": "question"}]}
DOCUMENT = Path(__file__).parents[3] / "docs" / "server.md"


@dataclass(frozen=True)
class FullStats(EngineStats):
    """All that an engine may know of itself."""

    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0


class CountingEngine(FakeEngine):
    """An engine whose figures grow with each look."""

    grammar_stats = GrammarStats()

    def reset(self, *script: Any) -> None:
        super().reset(*script)
        self.looks = 0

    def stats(self) -> EngineStats:
        self.looks += 1
        figures = dict.fromkeys(FullStats.__dataclass_fields__, self.looks)
        for field in GrammarStats.__dataclass_fields__:
            setattr(self.grammar_stats, field, self.looks)
        return FullStats(**figures)


@pytest.fixture
def engine() -> CountingEngine:
    return CountingEngine(say("one", "two"))


def read(client: TestClient) -> dict[str, float]:
    """All samples, by their name and labels as they are written."""
    samples: dict[str, float] = {}
    for family in text_string_to_metric_families(client.get("/metrics").text):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            samples[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return samples


def test_every_documented_metric_exists_and_moves(client: TestClient, engine: FakeEngine) -> None:
    documented = re.findall(r"^\| `([a-z_:]+)` \|", DOCUMENT.read_text(), re.MULTILINE)
    metrics = [
        name for name in documented if name.startswith(("vllm:", "mrs_", "mistralrs_", "http_"))
    ]
    assert len(metrics) > 40

    def values(name: str) -> dict[str, float]:
        return {
            sample: value
            for sample, value in read(client).items()
            if sample.partition("{")[0] in (name, f"{name}_count")
        }

    before = {name: values(name) for name in metrics}
    engine.script = lambda request: [
        (replace(token("a"), cached_tokens=3),),
        (token("b"),),
        (end(),),
    ]
    for _ in range(2):
        assert client.post(CHAT, json=BODY).status_code == 200
    with client.stream("POST", CHAT, json={**BODY, "stream": True}) as reply:
        reply.read()
    engine.refusal = QueueFullError("Full.")
    client.post(CHAT, json=BODY)
    constant = {"mrs_build_info", "mrs_model_status", "http_requests_in_flight"}
    still = {"vllm:kv_cache_usage_perc", "vllm:inter_token_latency_seconds", "mrs_asyncio_tasks"}
    still.add("mistralrs_inter_token_latency_seconds")
    for name in metrics:
        after = values(name)
        assert after, f"{name} does not exist"
        if name not in constant | still:
            assert after != before[name], f"{name} does not move"


def test_the_tasks_of_the_event_loop_are_counted(client: TestClient) -> None:
    assert read(client)["mrs_asyncio_tasks"] >= 1


def test_every_metric_is_documented(client: TestClient) -> None:
    client.post(CHAT, json=BODY)
    families = text_string_to_metric_families(client.get("/metrics").text)
    names = {
        family.name + ("_total" if family.type == "counter" else "")
        for family in families
        if not family.name.startswith("process_") and not family.name.endswith("_created")
    }
    text = DOCUMENT.read_text()
    assert not {name for name in names if f"| `{name}` |" not in text}


def test_a_request_is_counted_by_route_model_and_status(client: TestClient) -> None:
    client.post(CHAT, json=BODY)
    client.get("/v1/models/some/long/name")
    client.get("/no/such/place")
    samples = read(client)
    for labels in (
        f"method=POST,model=tiny/fake,path={CHAT},status=200",
        "method=GET,model=none,path=/v1/models/{name:path},status=404",
        "method=GET,model=none,path=<unmatched>,status=404",
    ):
        assert samples[f"http_requests_total{{{labels}}}"] == 1


def test_what_clients_invent_makes_no_series(client: TestClient) -> None:
    for number in range(20):
        client.request(f"M{number}", f"/x{number}")
        client.post(CHAT, json={**BODY, "model": f"m{number}"})
    samples = read(client)
    assert len([name for name in samples if name.startswith("http_requests_total")]) == 2


def test_housekeeping_is_not_counted(client: TestClient) -> None:
    for path in ("/health", "/metrics", "/v1/models"):
        client.get(path)
    assert not [name for name in read(client) if name.startswith("http_requests_total")]


def test_tokens_and_reasons_are_counted(client: TestClient) -> None:
    client.post(CHAT, json={**BODY, "n": 2})
    samples = read(client)
    model = "{model_name=tiny/fake}"
    assert samples[f"vllm:prompt_tokens_total{model}"] == len("question")
    assert samples[f"vllm:generation_tokens_total{model}"] == 6
    assert samples["vllm:request_success_total{finished_reason=stop,model_name=tiny/fake}"] == 2
    assert samples[f"mistralrs_tokens_processed_total{model}"] == len("question") + 6
    assert samples[f"vllm:time_to_first_token_seconds_count{model}"] == 1


def test_refusals_are_counted_by_reason(client: TestClient, engine: FakeEngine) -> None:
    engine.refusal = QueueFullError("Full.")
    assert client.post(CHAT, json=BODY).status_code == 429
    assert read(client)["mrs_requests_refused_total{model_name=tiny/fake,reason=queue_full}"] == 1


def test_a_latency_is_that_of_each_token(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 3.0])
    monkeypatch.setattr(
        "mrs.server.metrics.generation_metrics.time.perf_counter", lambda: next(clock)
    )
    metrics = ServerMetrics(SingleModel(served(FakeEngine())))
    stream = admitted(metrics.generation)
    stream.step((token("a"),))
    stream.step((GenerationDelta(0, "four", (1, 2, 3, 4)),))
    stream.ended()
    text = metrics.text().decode()
    assert 'vllm:time_to_first_token_seconds_sum{model_name="m"} 1.0' in text
    assert 'vllm:inter_token_latency_seconds_sum{model_name="m"} 0.5' in text
    assert 'vllm:e2e_request_latency_seconds_sum{model_name="m"} 3.0' in text


def test_a_stream_that_is_given_up_counts_as_aborted() -> None:
    metrics = ServerMetrics(SingleModel(served(FakeEngine())))
    stream = admitted(metrics.generation)
    stream.ended()
    stream.ended()
    text = metrics.text().decode()
    assert 'vllm:request_success_total{finished_reason="abort",model_name="m"} 1.0' in text


def admitted(metrics: GenerationMetrics) -> Any:
    from mrs.runtime.generation import GenerationRequest

    return metrics.admitted("m", GenerationRequest((1, 2, 3)))


def test_metrics_can_be_off(engine: FakeEngine) -> None:
    app = create_app(served(engine), ServerSettings(metrics=False))
    client = TestClient(app, base_url="http://127.0.0.1")
    assert client.get("/metrics").status_code == 404
    assert client.post(CHAT, json=BODY).status_code == 200


def test_two_servers_of_one_process_count_apart(engine: FakeEngine, client: TestClient) -> None:
    other = TestClient(create_app(served(engine), ServerSettings()), base_url="http://127.0.0.1")
    client.post(CHAT, json=BODY)
    assert not [name for name in read(other) if name.startswith("http_requests_total")]
