from __future__ import annotations

import logging

import pytest
from starlette.testclient import TestClient

from mrs.server.app import create_app
from mrs.server.request_body import shown_payload
from mrs.server.settings import ServerSettings
from tests.server.fake_engine import FakeEngine, say, served


@pytest.mark.parametrize("wanted", [False, True])
def test_bodies_are_logged_only_where_that_is_asked_for(
    caplog: pytest.LogCaptureFixture, wanted: bool
) -> None:
    caplog.set_level(logging.DEBUG, "mrs")
    app = create_app(served(FakeEngine(say("x"))), ServerSettings(log_payloads=wanted))
    body = {"messages": [{"role": "user", "content": "my secret"}]}
    TestClient(app, base_url="http://127.0.0.1").post("/v1/chat/completions", json=body)
    assert ("my secret" in caplog.text) is wanted


def test_a_body_cannot_forge_a_line() -> None:
    shown = shown_payload(b'{"a": "\r\n2026 INFO forged \x1b[31m\xff"}')
    assert shown.isascii()
    assert shown.isprintable()


def test_a_long_body_is_cut() -> None:
    assert len(shown_payload(b"a" * 1_000_000)) < 70_000
