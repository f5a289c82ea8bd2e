from __future__ import annotations

import pytest

from mrs.server.dialect import Dialect, dialect_of

VERSION = (b"anthropic-version", b"2023-06-01")


def dialect(path: str, *headers: tuple[bytes, bytes]) -> Dialect:
    return dialect_of({"type": "http", "path": path, "headers": list(headers)})


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens", "/v1/messages/x"])
def test_messages_are_anthropics(path: str) -> None:
    assert dialect(path) is Dialect.ANTHROPIC


@pytest.mark.parametrize(
    "path", ["/v1/messagesx", "/v1/chat/completions", "/v1/completions", "/", "/v2/v1/messages"]
)
def test_other_paths_are_openais(path: str) -> None:
    assert dialect(path, VERSION) is Dialect.OPENAI


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/a/b"])
def test_models_are_those_of_whoever_asks(path: str) -> None:
    assert dialect(path) is Dialect.OPENAI
    assert dialect(path, VERSION) is Dialect.ANTHROPIC
