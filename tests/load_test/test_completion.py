from __future__ import annotations

import asyncio
import socket

import pytest

from mrs.load_test.completion import Endpoint, Outcome, Target, complete
from mrs.load_test.http_stream import ServerAddress
from tests.load_test.scripted_server import OK, Scripted, answer, chunk, event, scripted_server


def ask(server: Scripted, **changes: object) -> Outcome:
    fields = {"model": "m", "endpoint": Endpoint.CHAT, "max_tokens": 3, **changes}
    target = Target(ServerAddress.from_url(server.url), **fields)  # type: ignore[arg-type]
    return asyncio.run(complete(target, "Hello"))


def outcome_of(reply: bytes) -> Outcome:
    with scripted_server(lambda body: reply) as server:
        return ask(server)


def test_tokens_are_those_that_the_server_counts_and_arrivals_those_with_text() -> None:
    outcome = outcome_of(answer("a", "b", "c", prompt_tokens=7))
    assert outcome.ok
    assert (outcome.tokens, outcome.prompt_tokens, len(outcome.arrivals)) == (4, 7, 3)
    assert outcome.asked <= outcome.arrivals[0] <= outcome.arrivals[-1]


def test_a_server_that_counts_nothing_has_its_events_counted() -> None:
    assert outcome_of(OK + chunk("a") + chunk("b") + b"data: [DONE]\n\n").tokens == 2


def test_comments_and_other_fields_are_no_events() -> None:
    assert outcome_of(OK + b": keep-alive\n\nevent: x\nid: 1\n" + chunk("a")).tokens == 1


@pytest.mark.parametrize(
    "choice",
    [{"text": "a"}, {"delta": {"content": "a"}}, {"delta": {"reasoning_content": "a"}}],
    ids=str,
)
def test_text_is_found_in_every_form(choice: dict[str, object]) -> None:
    assert outcome_of(OK + event({"choices": [choice]})).ok


def test_a_chat_asks_for_exactly_so_many_tokens() -> None:
    with scripted_server(lambda body: answer("a")) as server:
        ask(server, api_key="secret")
    assert server.requests == [
        {
            "model": "m",
            "max_tokens": 3,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
            "messages": [{"role": "user", "content": "Hello"}],
        }
    ]
    assert server.headers[0].startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
    assert b"Authorization: Bearer secret\r\n" in server.headers[0]


def test_a_completion_sends_its_prompt() -> None:
    with scripted_server(lambda body: answer("a")) as server:
        ask(server, endpoint=Endpoint.COMPLETIONS)
    assert server.requests[0]["prompt"] == "Hello"
    assert server.headers[0].startswith(b"POST /v1/completions HTTP/1.1\r\n")
    assert b"Authorization" not in server.headers[0]


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (b"HTTP/1.1 429 Too Many\r\n\r\nqueue is full", "status 429: queue is full"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "does not answer with HTTP"),
        (b"", "closed the connection without an answer"),
        (OK, "sent no text"),
        (OK + b"data: {broken\n\n", "an event that is not JSON"),
        (OK + chunk("a") + event({"error": {"message": "boom"}}), "in the middle: boom"),
    ],
    ids=["status", "no HTTP", "nothing", "no text", "no JSON", "error"],
)
def test_what_goes_wrong_is_told(reply: bytes, message: str) -> None:
    outcome = outcome_of(reply)
    assert not outcome.ok
    assert message in outcome.error


def test_a_server_that_is_not_there_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    target = Target(ServerAddress("127.0.0.1", port), "m", Endpoint.CHAT, 3)
    assert not asyncio.run(complete(target, "Hello")).ok


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://127.0.0.1:1234", ServerAddress("127.0.0.1", 1234)),
        ("http://127.0.0.1:1234/v1/", ServerAddress("127.0.0.1", 1234)),
        ("localhost:80", ServerAddress("localhost", 80)),
        ("https://models.example/api/v1", ServerAddress("models.example", 443, "/api", tls=True)),
        ("http://[::1]:8000", ServerAddress("::1", 8000)),
    ],
)
def test_a_url_names_a_server_with_or_without_v1(url: str, address: ServerAddress) -> None:
    assert ServerAddress.from_url(url) == address


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://x:99999"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="URL"):
        ServerAddress.from_url(url)
