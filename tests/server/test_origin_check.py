from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from mrs.server.app import create_app
from mrs.server.settings import ServerSettings
from tests.server.fake_engine import FakeEngine, say, served

CHAT = "/v1/chat/completions"
BODY = {"messages": [{"role": "user", "content": "x"}]}
PAGE = "https://app.example"


def client_of(*origins: str) -> TestClient:
    settings = ServerSettings(cors_origins=origins)
    app = create_app(served(FakeEngine(say("x"))), settings)
    return TestClient(app, base_url="http://127.0.0.1:1234")


def post(client: TestClient, origin: str) -> tuple[int, str | None]:
    reply = client.post(CHAT, json=BODY, headers={"origin": origin})
    return reply.status_code, reply.headers.get("access-control-allow-origin")


@pytest.mark.parametrize(
    "origin", [PAGE, "null", "http://127.0.0.1:9999", "http://127.0.0.1.evil.example", "http://["]
)
def test_a_page_that_is_not_known_may_send_nothing(origin: str) -> None:
    reply = client_of().post("/v1/models/unload", headers={"origin": origin})
    assert (reply.status_code, reply.json()["error"]["code"]) == (403, "origin_not_allowed")
    assert "access-control-allow-origin" not in reply.headers


def test_the_servers_own_page_may() -> None:
    assert post(client_of(), "http://127.0.0.1:1234") == (200, None)


def test_without_origins_no_preflight_succeeds() -> None:
    headers = {"origin": PAGE, "access-control-request-method": "POST"}
    reply = client_of().options(CHAT, headers=headers)
    assert reply.status_code == 405
    assert not [name for name in reply.headers if name.startswith("access-control")]


def test_a_page_that_is_known_may_send_and_read() -> None:
    client = client_of(PAGE)
    assert post(client, PAGE) == (200, PAGE)
    assert post(client, "https://other.example") == (403, None)
    reply = client.get("/v1/models", headers={"origin": PAGE})
    assert "x-request-id" in reply.headers["access-control-expose-headers"]


def test_its_preflight_succeeds_with_the_headers_of_sdks() -> None:
    reply = client_of(PAGE).options(
        CHAT,
        headers={
            "origin": PAGE,
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization,content-type,x-stainless-os",
        },
    )
    assert reply.status_code == 200
    assert reply.headers["access-control-allow-origin"] == PAGE
    assert "x-stainless-os" in reply.headers["access-control-allow-headers"]


@pytest.mark.parametrize("origins", [(PAGE,), ("*",)])
def test_cookies_never_count(origins: tuple[str, ...]) -> None:
    client = client_of(*origins)
    headers = {"origin": PAGE, "access-control-request-method": "POST"}
    for reply in (client.options(CHAT, headers=headers), client.get("/health", headers=headers)):
        assert "access-control-allow-credentials" not in reply.headers


def test_any_page_can_be_allowed() -> None:
    assert post(client_of("*"), "https://other.example") == (200, "*")


def test_a_page_hears_of_errors_too() -> None:
    reply = client_of(PAGE).post(CHAT, json={}, headers={"origin": PAGE})
    assert reply.status_code == 400
    assert reply.headers["access-control-allow-origin"] == PAGE
