"""The fake model has one token for each character, whose id is its code point."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.server.fake_engine import FakeEncoder

HI = [ord("h"), ord("i")]


def post(client: TestClient, path: str, **body: Any) -> Any:
    reply = client.post(path, json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


@pytest.mark.parametrize("path", ["/tokenize", "/v1/tokenize"])
def test_content_is_answered_as_llama_cpp_does(client: TestClient, path: str) -> None:
    assert post(client, path, content="hi") == {"tokens": HI}


@pytest.mark.parametrize("path", ["/tokenize", "/v1/tokenize"])
def test_a_prompt_is_answered_as_vllm_does(client: TestClient, path: str) -> None:
    found = post(client, path, prompt="hi", return_token_strs=True)
    assert (found["tokens"], found["count"], found["max_model_len"]) == (HI, 2, 128)
    assert len(found["token_strs"]) == 2


def test_pieces_that_are_no_utf_8_are_bytes(client: TestClient) -> None:
    found = post(client, "/tokenize", content="\x07\x08", with_pieces=True)
    assert found == {"tokens": [{"id": 7, "piece": "x"}, {"id": 8, "piece": [0xE2, 0x82]}]}


def test_the_beginning_of_prompts_is_there_by_default_for_prompts_alone(
    client: TestClient, encoder: FakeEncoder
) -> None:
    encoder.begin = (1,)
    assert post(client, "/tokenize", prompt="hi")["tokens"] == [1, *HI]
    assert post(client, "/tokenize", prompt="hi", add_special_tokens=False)["tokens"] == HI
    assert post(client, "/tokenize", content="hi")["tokens"] == HI
    assert post(client, "/tokenize", content="hi", add_special=True)["tokens"] == [1, *HI]


def test_control_tokens_are_parsed_unless_they_are_not_to_be(client: TestClient) -> None:
    assert post(client, "/tokenize", content="<eos>")["tokens"] == [0]
    plain = post(client, "/tokenize", content="<eos>", parse_special=False)
    assert plain["tokens"] == [ord(char) for char in "<eos>"]


def test_a_conversation_has_the_tokens_of_its_prompt(client: TestClient) -> None:
    messages = [{"role": "user", "content": "hi"}]
    assert post(client, "/tokenize", messages=messages)["tokens"] == HI
    assert post(client, "/apply-template", messages=messages) == {"prompt": "hi"}


def test_tokens_have_a_text(client: TestClient) -> None:
    assert post(client, "/detokenize", tokens=HI) == {"content": "hi", "prompt": "hi"}
    assert post(client, "/v1/detokenize", tokens=[])["content"] == ""


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", {}, "content"),
        ("/tokenize", {"content": "a", "prompt": "b"}, "prompt"),
        ("/tokenize", {"content": 5}, "content"),
        ("/tokenize", {"messages": []}, "messages"),
        (
            "/tokenize",
            {"messages": "hi", "add_generation_prompt": False},
            "add_generation_prompt",
        ),
        ("/detokenize", {}, "tokens"),
        ("/detokenize", {"tokens": [1000]}, "tokens"),
        ("/detokenize", {"tokens": [-1]}, "tokens[0]"),
        ("/apply-template", {}, "messages"),
    ],
    ids=str,
)
def test_what_cannot_be_honoured_is_named(
    client: TestClient, path: str, body: dict[str, Any], param: str
) -> None:
    reply = client.post(path, json=body)
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == param


def test_an_unknown_model_is_404(client: TestClient) -> None:
    assert client.post("/tokenize", json={"content": "a", "model": "x"}).status_code == 404
