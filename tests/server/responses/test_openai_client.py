"""The real openai client, which validates all that it is sent, over a real server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import OpenAI
from pydantic import BaseModel

from tests.server.fake_engine import TIMEOUT, FakeEngine, end, served, token
from tests.server.fake_engine import FakeEncoder as FakeEncoderOfCharacters
from tests.server.live_server import LiveServer
from tests.server.responses.conftest import TOOLS_AND_THOUGHTS

CALL = '<tool_call>\n{"name": "look_up", "arguments": {"word": "sea"}}\n</tool_call>'
TOOL: Any = {
    "type": "function",
    "name": "look_up",
    "description": "Look a word up.",
    "parameters": {"type": "object", "properties": {"word": {"type": "string"}}},
    "strict": False,
}


class Answering(FakeEngine):
    """Gives the answers that a test wants, one to each request, a token for each character."""

    def __init__(self) -> None:
        super().__init__(lambda _: [*((token(char),) for char in self.answers.pop(0)), (end(),)])
        self.answers: list[str] = []


@pytest.fixture(scope="module")
def _server() -> Iterator[tuple[LiveServer, Answering, FakeEncoderOfCharacters]]:
    engine, encoder = Answering(), FakeEncoderOfCharacters()
    with LiveServer(served(engine, encoder, TOOLS_AND_THOUGHTS)) as server:
        yield server, engine, encoder


@pytest.fixture
def client(_server: Any) -> Iterator[OpenAI]:
    with OpenAI(
        base_url=f"{_server[0].url}/v1",
        api_key="none",
        max_retries=0,
        timeout=TIMEOUT,
        _strict_response_validation=True,
    ) as client:
        yield client


@pytest.fixture
def answers(_server: Any) -> list[str]:
    """What the model says next."""
    found: list[str] = _server[1].answers
    found.clear()
    return found


@pytest.fixture
def conversations(_server: Any) -> list[Any]:
    """What the model was shown."""
    found: list[Any] = _server[2].conversations
    return found


def ask(client: OpenAI, said: Any = "Hi", **fields: Any) -> Any:
    return client.responses.create(model="default", input=said, **fields)


def test_a_response(client: OpenAI, answers: list[str]) -> None:
    answers.append("Hello")
    response = ask(client, metadata={"a": "b"})
    assert response.output_text == "Hello"
    assert client.responses.retrieve(response.id) == response
    client.responses.delete(response.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(response.id)


def test_the_events_of_text_reasoning_and_calls_are_those_that_the_client_knows(
    client: OpenAI, answers: list[str]
) -> None:
    answers.append(f"<think>Hm.</think>I look.\n{CALL}")
    seen = set()
    for event in ask(client, stream=True, tools=[TOOL]):
        # An unknown event would have no class of its own.
        assert type(event).__name__.endswith("Event"), event
        seen.add(event.type.removeprefix("response."))
    assert seen >= {
        *("created", "in_progress", "output_item.added", "content_part.added"),
        *("reasoning_text.delta", "reasoning_text.done", "output_text.delta", "output_text.done"),
        *("function_call_arguments.delta", "function_call_arguments.done"),
        *("content_part.done", "output_item.done", "completed"),
    }


def test_the_client_puts_a_stream_together(client: OpenAI, answers: list[str]) -> None:
    answers.append(f"<think>Hm.</think>I look.\n{CALL}")
    tools = [TOOL]
    with client.responses.stream(model="default", input="Hi", tools=tools) as stream:
        snapshots = [
            event.snapshot for event in stream if event.type == "response.output_text.delta"
        ]
        final = stream.get_final_response()
    assert snapshots[-1].strip() == "I look."
    thought, said, call = final.output
    assert thought.type == "reasoning"
    assert said.type == "message"
    assert call.type == "function_call"
    assert call.arguments == '{"word": "sea"}'
    stored = client.responses.retrieve(final.id).output
    assert [item.id for item in stored] == [thought.id, said.id, call.id]


def test_a_round_of_tools_goes_on_from_the_response_before(
    client: OpenAI, answers: list[str], conversations: list[Any]
) -> None:
    """A stored response keeps its calls: an output without its call is the public bug."""
    answers += [f"<think>I need it.</think>{CALL}", "It is water."]
    first = ask(client, "What is the sea?", tools=[TOOL])
    call = first.output[-1]
    assert call.type == "function_call"
    result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "water"}
    second = ask(client, [result], previous_response_id=first.id, tools=[TOOL])
    assert second.output_text == "It is water."
    user, assistant, tool = conversations[-1]
    assert user["content"] == "What is the sea?"
    assert assistant["reasoning_content"] == "I need it."
    assert assistant["tool_calls"][0]["function"] == {
        "name": "look_up",
        "arguments": '{"word": "sea"}',
    }
    assert (tool["tool_call_id"], tool["content"]) == (call.call_id, "water")


def test_a_client_may_send_all_items_back_itself(
    client: OpenAI, answers: list[str], conversations: list[Any]
) -> None:
    answers += [f"<think>I need it.</think>{CALL}", "It is water."]
    first = ask(client, "?", tools=[TOOL], store=False, include=["reasoning.encrypted_content"])
    thought, call = first.output
    # Clients of hidden reasoning send back no content.
    sealed = {"type": "reasoning", "summary": [], "encrypted_content": thought.encrypted_content}
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "water"}
    given = [{"role": "user", "content": "?"}, sealed, call.to_dict(), result]
    ask(client, given, tools=[TOOL], store=False)
    assert conversations[-1][1]["reasoning_content"] == "I need it."


class Sea(BaseModel):
    depth: int


def test_the_client_parses_an_answer_of_its_schema(client: OpenAI, answers: list[str]) -> None:
    answers.append('{"depth": 7}')
    response = client.responses.parse(model="default", input="Hi", text_format=Sea)
    assert response.output_parsed == Sea(depth=7)


def test_input_items_come_page_by_page(client: OpenAI, answers: list[str]) -> None:
    answers.append("Hello")
    given = [{"role": "user", "content": str(number)} for number in range(5)]
    response = ask(client, given)
    items = list(client.responses.input_items.list(response.id, limit=2, order="asc"))
    assert [item.to_dict()["content"][0]["text"] for item in items] == list("01234")


def test_polling_and_cancelling(client: OpenAI, answers: list[str]) -> None:
    answers.append("Hello")
    response = ask(client, background=True)
    assert response.status == "queued"
    deadline = threading.Event()
    while response.status in ("queued", "in_progress"):
        response = client.responses.retrieve(response.id)
        deadline.wait(0.01)
    assert response.output_text == "Hello"
    assert client.responses.cancel(response.id) == response


def test_a_stream_goes_on_where_it_was_left(client: OpenAI, answers: list[str]) -> None:
    answers.append("Hello")
    events = list(ask(client, background=True, stream=True))
    response_id = events[0].response.id
    again = list(client.responses.retrieve(response_id, stream=True, starting_after=3))
    assert again == events[4:]


def test_counting_tokens(client: OpenAI) -> None:
    counted = client.responses.input_tokens.count(model="default", input="Hello")
    assert counted.input_tokens == 5


def test_logprobs(client: OpenAI, answers: list[str]) -> None:
    answers.append("Hello")
    response = ask(client, include=["message.output_text.logprobs"], top_logprobs=2)
    assert response.top_logprobs == 2


def test_errors_are_the_clients_own(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, previous_response_id="resp_x")
    assert caught.value.code == "previous_response_not_found"
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, tools=[{"type": "web_search"}])
    assert caught.value.param == "tools[0]"
