from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

from mrs.server.access_keys import AccessPolicy, KeyRing, access_key
from mrs.server.app import create_app
from mrs.server.settings import ServerSettings
from tests.server.fake_engine import FakeEngine, served

CHAT = "/v1/chat/completions"
BODY = {"messages": [{"role": "user", "content": "x"}]}
KEYS = KeyRing([access_key("one"), access_key("two"), access_key("boss", admin=True)])
Make = Callable[..., TestClient]


@pytest.fixture
def make(engine: FakeEngine) -> Make:
    def client(keys: KeyRing = KEYS, **policy: Any) -> TestClient:
        settings = ServerSettings(access=AccessPolicy(keys, **policy))
        return TestClient(create_app(served(engine), settings), base_url="http://127.0.0.1")

    return client


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer one"},
        {"authorization": "bearer  two "},
        {"x-api-key": "one"},
        {"x-api-key": "boss"},
        {"authorization": "Bearer wrong", "x-api-key": "one"},
    ],
)
def test_a_good_key_opens(make: Make, headers: dict[str, str]) -> None:
    assert make().post(CHAT, json=BODY, headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": "Bearer"},
        {"authorization": "Basic one"},
        {"authorization": "one"},
        {"x-api-key": ""},
        {"x-api-key": "ONE"},
        {"cookie": "one"},
    ],
)
def test_anything_else_does_not(make: Make, engine: FakeEngine, headers: dict[str, str]) -> None:
    reply = make().post(CHAT, json=BODY, headers=headers)
    assert reply.status_code == 401
    assert reply.headers["www-authenticate"] == "Bearer"
    error = reply.json()["error"]
    assert (error["type"], error["code"]) == ("authentication_error", "invalid_api_key")
    assert not engine.requests


def test_anthropics_clients_are_told_in_their_shape(make: Make) -> None:
    reply = make().post("/v1/messages", json={})
    assert reply.status_code == 401
    assert reply.json()["error"]["type"] == "authentication_error"
    assert reply.json()["type"] == "error"


def test_the_key_itself_is_never_told(make: Make) -> None:
    reply = make().post(CHAT, json=BODY, headers=bearer("my-secret-guess"))
    assert "my-secret-guess" not in reply.text


def test_without_keys_any_key_will_do(make: Make) -> None:
    client = make(KeyRing())
    for headers in ({}, bearer("none"), {"x-api-key": "x"}):
        assert client.post(CHAT, json=BODY, headers=headers).status_code == 200


@pytest.mark.parametrize("path", ["/", "/health", "/health/live", "/health/ready", "/docs"])
def test_health_and_documentation_are_public(make: Make, path: str) -> None:
    assert make().get(path).status_code == 200
    assert make(public_health=False).get(path).status_code == 401


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/default", "/metrics", "/nowhere"])
def test_all_else_is_not(make: Make, path: str) -> None:
    assert make().get(path).status_code == 401


@pytest.mark.parametrize("path", ["/HEALTH", "/health%2f..%2fv1/models", "/v1/models?/health"])
def test_a_path_cannot_be_dressed_as_a_public_one(make: Make, path: str) -> None:
    assert make().get(path).status_code in (401, 404)


def unload(client: TestClient, key: str | None) -> int:
    body = {"model_id": "nobody"}
    headers = bearer(key) if key else {}
    return client.post("/v1/models/unload", json=body, headers=headers).status_code


def test_administration_needs_a_key_for_it(make: Make) -> None:
    client = make()
    assert (unload(client, None), unload(client, "one"), unload(client, "boss")) == (401, 403, 404)


def test_on_a_network_administration_is_off_without_such_a_key(make: Make) -> None:
    client = make(KeyRing([access_key("one")]), open_admin=False)
    assert unload(client, "one") == 403
    assert client.get("/v1/models", headers=bearer("one")).status_code == 200
    assert unload(make(KeyRing(), open_admin=False), None) == 403


def test_on_this_machine_any_good_key_may_administrate(make: Make) -> None:
    assert unload(make(KeyRing([access_key("one")])), "one") == 404
    assert unload(make(KeyRing()), None) == 404


def test_prompts_of_one_key_are_not_reused_for_another(make: Make, engine: FakeEngine) -> None:
    client = make()
    for key in ("one", "two", "one"):
        client.post(CHAT, json=BODY, headers=bearer(key))
    client.post(CHAT, json={**BODY, "cache_salt": "mine"}, headers=bearer("one"))
    salts = [request.cache_salt for request in engine.requests]
    assert salts[0] == salts[2]
    assert len(set(salts)) == 3
    assert salts[3] == salts[0] + "mine"


def test_without_keys_all_share_what_was_computed(make: Make, engine: FakeEngine) -> None:
    make(KeyRing()).post(CHAT, json=BODY, headers=bearer("anything"))
    assert engine.requests[0].cache_salt == ""


def test_a_salt_cannot_be_that_of_another_key(make: Make, engine: FakeEngine) -> None:
    one, two = access_key("one").principal, access_key("two").principal
    client = make()
    client.post(CHAT, json={**BODY, "cache_salt": f"{two}/"}, headers=bearer("one"))
    client.post(CHAT, json=BODY, headers=bearer("two"))
    assert [request.cache_salt for request in engine.requests] == [f"{one}/{two}/", f"{two}/"]


def test_a_refusal_is_in_the_log_wherever_it_was(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "mrs")
    make().get("/v1/models")
    assert "GET /v1/models 401" in caplog.text
