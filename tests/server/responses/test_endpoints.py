"""The endpoints over an engine that answers "Hello"."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

from mrs.errors import QueueFullError
from mrs.runtime.generation import FinishReason
from tests.server.fake_engine import (
    FakeEncoder,
    FakeEngine,
    end,
    failure,
    say,
    served,
    token,
)
from tests.server.live_server import LiveServer
from tests.server.responses.events import check_grammar, kinds, parse_events

Create = Callable[..., dict[str, Any]]


def error_of(reply: Any) -> tuple[int, str | None, str | None]:
    error = reply.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return reply.status_code, error["code"], error["param"]


def streamed(client: TestClient, **fields: Any) -> list[dict[str, Any]]:
    reply = client.post("/v1/responses", json={"input": "Hi", "stream": True, **fields})
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"].startswith("text/event-stream")
    return parse_events(reply.content)


def fetched(client: TestClient, response_id: str) -> dict[str, Any]:
    reply = client.get(f"/v1/responses/{response_id}")
    assert reply.status_code == 200, reply.text
    resource: dict[str, Any] = reply.json()
    return resource


def input_of(client: TestClient, response_id: str, **query: Any) -> dict[str, Any]:
    reply = client.get(f"/v1/responses/{response_id}/input_items", params=query)
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


class TestCreating:
    def test_a_whole_response(self, create: Create) -> None:
        resource = create(metadata={"a": "b"}, temperature=0.5, instructions="Be brief.")
        assert resource["status"] == "completed"
        assert resource["output_text"] == "Hello"
        assert resource["metadata"] == {"a": "b"}
        assert resource["temperature"] == 0.5
        assert resource["instructions"] == "Be brief."
        assert resource["usage"]["output_tokens"] == 3
        assert resource["usage"]["total_tokens"] == resource["usage"]["input_tokens"] + 3
        assert resource["model"] == "tiny/fake"

    def test_a_stream_has_the_same_response(self, client: TestClient) -> None:
        final = check_grammar(streamed(client))
        assert final["output_text"] == "Hello"
        assert fetched(client, final["id"]) == final

    def test_no_end_mark_follows_the_last_event(self, client: TestClient) -> None:
        reply = client.post("/v1/responses", json={"input": "Hi", "stream": True})
        assert b"[DONE]" not in reply.content

    def test_the_samplers_reach_the_engine(self, create: Create, engine: FakeEngine) -> None:
        create(max_output_tokens=5, top_k=3, seed=7, stop=["x"], top_logprobs=2)
        sampling = engine.requests[0].sampling
        assert (sampling.max_tokens, sampling.top_k, sampling.seed) == (5, 3, 7)
        assert (sampling.stop, sampling.logprobs) == (("x",), 2)

    def test_a_limit_makes_it_incomplete(self, create: Create, engine: FakeEngine) -> None:
        engine.script = lambda _: [(token("Hel", finish=FinishReason.LENGTH),)]
        resource = create(max_output_tokens=1)
        assert resource["status"] == "incomplete"
        assert resource["incomplete_details"] == {"reason": "max_output_tokens"}
        assert resource["output"][0]["status"] == "incomplete"

    def test_a_failure_of_the_engine_is_an_error(
        self, client: TestClient, engine: FakeEngine
    ) -> None:
        engine.script = lambda _: [(token("a"),), (failure(RuntimeError("secret")),)]
        reply = client.post("/v1/responses", json={"input": "Hi"})
        assert error_of(reply) == (500, "internal_error", None)
        assert "secret" not in reply.text

    def test_a_failure_in_a_stream_is_its_last_event(
        self, client: TestClient, engine: FakeEngine
    ) -> None:
        """A stream that broke must not look like a success (public bug B8)."""
        engine.script = lambda _: [(token("a"),), (failure(RuntimeError("secret")),)]
        final = check_grammar(streamed(client))
        assert final["status"] == "failed"
        assert final["error"]["code"] == "server_error"
        assert final["output"][0]["status"] == "incomplete"
        assert "secret" not in str(final)
        assert fetched(client, final["id"]) == final

    def test_a_full_queue_is_told_before_a_stream_begins(
        self, client: TestClient, engine: FakeEngine
    ) -> None:
        engine.refusal = QueueFullError("The queue is full.", retry_after=3)
        reply = client.post("/v1/responses", json={"input": "Hi", "stream": True})
        assert reply.status_code == 429
        assert reply.headers["retry-after"] == "3"

    @pytest.mark.parametrize(
        ("body", "expected"),
        [
            ({}, (400, "missing_required_parameter", "input")),
            ({"input": []}, (400, "invalid_value", "input")),
            ({"input": "Hi", "model": "gpt"}, (404, "model_not_found", "model")),
            (
                {"input": "Hi", "previous_response_id": "resp_x"},
                (400, "previous_response_not_found", "previous_response_id"),
            ),
            (
                {"input": [{"type": "item_reference", "id": "x"}]},
                (404, "item_not_found", "input[0].id"),
            ),
        ],
    )
    def test_errors(
        self, client: TestClient, body: dict[str, Any], expected: tuple[int, str, str]
    ) -> None:
        assert error_of(client.post("/v1/responses", json=body)) == expected


def test_a_large_body_is_prepared_in_a_thread() -> None:
    engine, encoder = FakeEngine(say("Hello")), FakeEncoder()
    with LiveServer(served(engine, encoder)) as server, server.connect() as connection:
        for text in ("x", "x" * 10_000):
            connection.post("/v1/responses", json.dumps({"input": text}).encode())
            assert connection.read_json()[0] == 200
        inline, in_thread = encoder.threads
        assert inline == server.thread_id
        assert in_thread != server.thread_id


class TestGoingOn:
    def test_the_next_turn_sees_the_turns_before(
        self, create: Create, encoder: FakeEncoder
    ) -> None:
        first = create("One", instructions="Not carried over.")
        second = create("Two", previous_response_id=first["id"])
        create("Three", previous_response_id=second["id"])
        assert [dict(message) for message in encoder.conversations[-1]] == [
            {"role": "user", "content": "One"},
            {"role": "assistant", "content": "Hello"},
            {"role": "user", "content": "Two"},
            {"role": "assistant", "content": "Hello"},
            {"role": "user", "content": "Three"},
        ]

    def test_a_turn_may_have_no_input_of_its_own(
        self, create: Create, encoder: FakeEncoder
    ) -> None:
        create(None, previous_response_id=create("One")["id"])
        assert [message["role"] for message in encoder.conversations[-1]] == ["user", "assistant"]

    def test_a_streamed_response_can_be_gone_on_from(
        self, client: TestClient, create: Create, encoder: FakeEncoder
    ) -> None:
        final = check_grammar(streamed(client))
        create("Two", previous_response_id=final["id"])
        assert len(encoder.conversations[-1]) == 3

    def test_what_is_not_stored_cannot_be_gone_on_from(
        self, client: TestClient, create: Create
    ) -> None:
        resource = create(store=False)
        assert resource["store"] is False
        body = {"input": "Two", "previous_response_id": resource["id"]}
        assert error_of(client.post("/v1/responses", json=body))[0] == 400
        assert client.get(f"/v1/responses/{resource['id']}").status_code == 404

    def test_what_failed_cannot_be_gone_on_from(
        self, client: TestClient, engine: FakeEngine
    ) -> None:
        engine.script = lambda _: [(failure(),)]
        failed = check_grammar(streamed(client))
        engine.script = say("Hello")
        body = {"input": "Two", "previous_response_id": failed["id"]}
        reply = client.post("/v1/responses", json=body)
        assert error_of(reply)[:2] == (400, "previous_response_unfinished")

    def test_items_can_be_referred_to(self, create: Create, encoder: FakeEncoder) -> None:
        first = create("One")
        create([{"type": "item_reference", "id": first["output"][0]["id"]}])
        assert [dict(message) for message in encoder.conversations[-1]] == [
            {"role": "assistant", "content": "Hello"}
        ]

    def test_a_long_conversation_loses_its_oldest_turns_if_it_may(
        self, create: Create, encoder: FakeEncoder, engine: FakeEngine
    ) -> None:
        # The model has room for 128 tokens, and each character is one.
        turns = [{"role": "user", "content": f"{number}" * 30} for number in range(6)]
        create(
            [{"role": "system", "content": "S" * 10}, *turns],
            truncation="auto",
            max_output_tokens=20,
        )
        assert engine.requests[-1].prompt_ids == tuple(
            map(ord, "S" * 10 + "3" * 30 + "4" * 30 + "5" * 30)
        )

    def test_one_turn_that_is_too_long_is_left_to_the_engine(
        self, create: Create, engine: FakeEngine
    ) -> None:
        create("x" * 500, truncation="auto")
        assert engine.requests[-1].truncate
        assert len(engine.requests[-1].prompt_ids) == 500

    def test_without_truncation_nothing_is_left_out(
        self, create: Create, engine: FakeEngine
    ) -> None:
        create([{"role": "user", "content": "x" * 100}] * 3)
        assert not engine.requests[-1].truncate
        assert len(engine.requests[-1].prompt_ids) == 300


class TestStored:
    def test_a_whole_response_can_be_fetched(self, client: TestClient, create: Create) -> None:
        resource = create()
        assert fetched(client, resource["id"]) == resource

    @pytest.mark.parametrize(
        ("method", "path"),
        [
            ("GET", "/v1/responses/resp_x"),
            ("GET", "/v1/responses/resp_x?stream=true"),
            ("DELETE", "/v1/responses/resp_x"),
            ("POST", "/v1/responses/resp_x/cancel"),
            ("GET", "/v1/responses/resp_x/input_items"),
        ],
    )
    def test_what_is_not_there(self, client: TestClient, method: str, path: str) -> None:
        expected = (404, "response_not_found", "response_id")
        assert error_of(client.request(method, path)) == expected

    def test_a_deleted_response_is_gone(self, client: TestClient, create: Create) -> None:
        path = f"/v1/responses/{create()['id']}"
        reply = client.delete(path).json()
        assert reply == {"id": path.split("/")[-1], "object": "response", "deleted": True}
        assert client.get(path).status_code == 404
        assert client.delete(path).status_code == 404

    def test_input_items_are_those_of_the_whole_conversation(
        self, client: TestClient, create: Create
    ) -> None:
        first = create("One")
        second = create([{"role": "user", "content": "Two"}], previous_response_id=first["id"])
        found = input_of(client, second["id"], order="asc")
        assert [item["content"][0]["text"] for item in found["data"]] == ["One", "Hello", "Two"]
        assert found["data"][1] == first["output"][0]
        assert found["has_more"] is False
        assert input_of(client, second["id"])["data"] == found["data"][::-1]
        page = input_of(client, second["id"], limit=1, after=found["data"][2]["id"])
        assert page["data"] == [found["data"][1]]
        assert page["has_more"] is True

    @pytest.mark.parametrize(
        ("query", "param"),
        [
            ("limit=0", "limit"),
            ("limit=101", "limit"),
            ("limit=x", "limit"),
            ("order=up", "order"),
            ("after=x", "after"),
            ("include=x", "include"),
            ("include[]=x", "include"),
        ],
    )
    def test_wrong_queries(
        self, client: TestClient, create: Create, query: str, param: str
    ) -> None:
        reply = client.get(f"/v1/responses/{create()['id']}/input_items?{query}")
        assert error_of(reply) == (400, "invalid_value", param)

    def test_what_runs_with_its_client_cannot_be_cancelled(
        self, client: TestClient, create: Create
    ) -> None:
        reply = client.post(f"/v1/responses/{create()['id']}/cancel")
        assert error_of(reply)[:2] == (400, "response_not_in_background")

    def test_events_are_sent_again_as_they_were(self, client: TestClient) -> None:
        events = streamed(client)
        path = f"/v1/responses/{events[0]['response']['id']}?stream=true"
        assert parse_events(client.get(path).content) == events
        later = parse_events(client.get(path + "&starting_after=4").content)
        assert later == events[5:]
        hidden = parse_events(client.get(path + "&include_obfuscation=true").content)
        assert {"obfuscation" in event for event in hidden if "delta" in event} == {True}
        assert kinds(hidden) == kinds(events)

    @pytest.mark.parametrize("query", ["stream=perhaps", "stream=true&starting_after=-1"])
    def test_wrong_replays(self, client: TestClient, create: Create, query: str) -> None:
        reply = client.get(f"/v1/responses/{create()['id']}?{query}")
        assert reply.status_code == 400

    def test_a_response_that_was_not_streamed_has_no_events(
        self, client: TestClient, create: Create
    ) -> None:
        reply = client.get(f"/v1/responses/{create()['id']}?stream=true")
        assert error_of(reply)[:2] == (400, "response_events_not_stored")

    def test_a_conversation_is_not_compacted(self, client: TestClient) -> None:
        reply = client.post("/v1/responses/compact", json={"model": "m"})
        assert error_of(reply)[0] == 404


class TestCounting:
    def test_tokens_of_a_conversation(
        self, client: TestClient, create: Create, engine: FakeEngine
    ) -> None:
        first = create("One")
        body = {"input": "Two!", "previous_response_id": first["id"], "instructions": "Be."}
        reply = client.post("/v1/responses/input_tokens", json=body).json()
        assert reply == {"object": "response.input_tokens", "input_tokens": 3 + 5 + 4 + 3}
        assert len(engine.requests) == 1


def test_what_coding_agents_send_is_accepted(client: TestClient) -> None:
    """Agents that keep their own history were refused elsewhere for one field or another."""
    said = [{"type": "input_text", "text": "List the files."}]
    call = {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "call_1"}
    sealed = {"type": "reasoning", "summary": [], "content": None, "encrypted_content": "mrs1.SG0="}
    events = streamed(
        client,
        model="default",
        instructions="You are an agent.",
        input=[
            {"type": "message", "role": "developer", "content": said},
            {"type": "message", "role": "user", "content": said},
            sealed,
            call,
            {"type": "function_call_output", "call_id": "call_1", "output": "a.txt"},
        ],
        tools=[{"type": "function", "name": "shell", "strict": False, "parameters": {}}],
        tool_choice="auto",
        parallel_tool_calls=False,
        reasoning={"effort": "medium", "summary": "auto"},
        store=False,
        include=["reasoning.encrypted_content"],
        prompt_cache_key="0199",
        text={"verbosity": "medium"},
    )
    final = check_grammar(events)
    assert final["status"] == "completed"
    assert final["store"] is False


@pytest.mark.parametrize(
    "item",
    [
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "[" * 100_000},
        {"role": "user", "content": "\ud800 \u0000 \u202e"},
        {"role": "user", "content": [{"type": "input_text", "text": ""}] * 5_000},
        {"type": "reasoning", "summary": [], "encrypted_content": "mrs1." + "A" * 100_000},
        {"type": "message", "role": "user", "content": "Hi", "id": "x" * 512},
    ],
)
def test_hostile_items_fail_alone(client: TestClient, item: dict[str, Any]) -> None:
    body = json.dumps({"input": [item]})
    headers = {"content-type": "application/json"}
    reply = client.post("/v1/responses", content=body, headers=headers)
    assert reply.status_code in (200, 400), reply.text
    assert client.post("/v1/responses", json={"input": "Hi"}).status_code == 200


def test_numbers_of_any_size_in_a_schema_are_told_again(client: TestClient) -> None:
    tool = {
        "type": "function",
        "name": "f",
        "description": None,
        "parameters": {"type": "object", "maxProperties": 10**30, "minProperties": -1e300},
        "strict": False,
    }
    final = check_grammar(streamed(client, tools=[tool]))
    assert final["tools"] == [tool]
    assert fetched(client, final["id"]) == final


def test_a_stop_token_is_no_text(create: Create, engine: FakeEngine) -> None:
    engine.script = lambda _: [(token("a"),), (end(),)]
    assert create()["output_text"] == "a"
