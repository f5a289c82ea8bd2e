from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from mrs.errors import ModelLoadError
from mrs.server.app import create_app
from mrs.server.model_names import ModelNames
from mrs.server.resident_models import ResidentModels
from mrs.server.served_model import ModelKind
from mrs.server.settings import ServerSettings
from tests.server.fake_models import FakeSource

CHAT = "/v1/chat/completions"


@pytest.fixture
def sources() -> list[FakeSource]:
    return [FakeSource("org/chat"), FakeSource("vectors", ModelKind.EMBEDDING)]


@pytest.fixture
def catalog(sources: list[FakeSource]) -> ResidentModels:
    names = ModelNames([source.description for source in sources], aliases={"gpt-4o": "org/chat"})
    return ResidentModels(sources, names, unload_timeout=0.0)


@pytest.fixture
def several(catalog: ResidentModels) -> TestClient:
    return TestClient(create_app(catalog, ServerSettings()), base_url="http://127.0.0.1")


def ask(client: TestClient, operation: str, model: str) -> tuple[int, dict[str, Any]]:
    reply = client.post(f"/v1/models/{operation}", json={"model_id": model})
    return reply.status_code, reply.json()


def test_a_card_tells_length_kind_and_state(client: TestClient) -> None:
    assert client.get("/v1/models").json() == {
        "object": "list",
        "data": [
            {
                "id": "tiny/fake",
                "object": "model",
                "created": 1_700_000_000,
                "owned_by": "mrs",
                "root": "tiny/fake",
                "parent": None,
                "max_model_len": 128,
                "kind": "text",
                "status": "loaded",
                "quant": None,
                "architecture": None,
            }
        ],
    }


def test_all_models_are_listed(several: TestClient) -> None:
    cards = several.get("/v1/models").json()["data"]
    assert [(card["id"], card["kind"], card["status"]) for card in cards] == [
        ("org/chat", "text", "unloaded"),
        ("vectors", "embedding", "unloaded"),
    ]


@pytest.mark.parametrize("name", ["org/chat", "default", "gpt-4o"])
def test_a_model_is_found_by_each_of_its_names(several: TestClient, name: str) -> None:
    assert several.get(f"/v1/models/{name}").json()["id"] == "org/chat"


def test_a_model_that_is_not_served_is_404(several: TestClient) -> None:
    reply = several.get("/v1/models/nobody")
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "model_not_found")


def test_a_request_loads_the_model_that_it_names(several: TestClient) -> None:
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "x"}]}
    assert several.post(CHAT, json=body).json()["model"] == "org/chat"
    assert ask(several, "status", "org/chat") == (
        200,
        {"model_id": "org/chat", "status": "loaded", "error": None},
    )


def test_an_embedding_model_does_not_chat(several: TestClient) -> None:
    body = {"model": "vectors", "messages": [{"role": "user", "content": "x"}]}
    reply = several.post(CHAT, json=body)
    assert reply.status_code == 400
    assert reply.json()["error"]["code"] == "wrong_model_kind"
    assert "/v1/embeddings" in reply.json()["error"]["message"]


def test_unload_and_reload(several: TestClient, sources: list[FakeSource]) -> None:
    assert ask(several, "reload", "vectors")[1]["status"] == "loaded"
    assert sources[1].open_now == 1
    assert ask(several, "unload", "vectors") == (
        200,
        {"model_id": "vectors", "status": "unloaded", "error": None},
    )
    assert sources[1].open_now == 0


@pytest.mark.parametrize("operation", ["status", "unload", "reload"])
def test_an_operation_on_no_model_is_404(several: TestClient, operation: str) -> None:
    status, body = ask(several, operation, "nobody")
    assert (status, body["model_id"], body["status"]) == (404, "nobody", "not_found")
    assert "nobody" in body["error"]


@pytest.mark.parametrize("operation", ["status", "unload", "reload"])
def test_a_malformed_operation_is_400(several: TestClient, operation: str) -> None:
    reply = several.post(f"/v1/models/{operation}", json={"model": "x"})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "model_id")


def test_a_model_that_cannot_be_loaded_is_503_and_says_what_of(
    several: TestClient, sources: list[FakeSource]
) -> None:
    sources[0].error = ModelLoadError("/secret is broken.")
    status, body = ask(several, "reload", "org/chat")
    assert (status, body["status"]) == (503, "internal_error")
    assert "model_load_failed" in body["error"]
    reply = several.post(CHAT, json={"messages": [{"role": "user", "content": "x"}]})
    assert reply.status_code == 503
    assert reply.json()["error"]["code"] == "model_unavailable"
    assert reply.headers["retry-after"] == "5"
    assert "secret" not in reply.text


@pytest.mark.parametrize("operation", ["unload", "reload"])
def test_a_model_that_stays_is_409(client: TestClient, operation: str) -> None:
    status, body = ask(client, operation, "tiny/fake")
    assert (status, body["status"]) == (409, "no_loader_config")
