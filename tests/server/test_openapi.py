from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from mrs.server.access_keys import AccessPolicy, KeyRing, access_key
from mrs.server.app import create_app
from mrs.server.settings import ServerSettings
from tests.server.fake_engine import FakeEngine, served


@pytest.fixture
def description(client: TestClient) -> dict[str, Any]:
    reply = client.get("/openapi.json")
    assert reply.status_code == 200
    return dict(reply.json())


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "$ref":
                yield inner
            else:
                yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_every_reference_resolves(description: dict[str, Any]) -> None:
    schemas = description["components"]["schemas"]
    found = set(references(description))
    assert found
    assert {reference.removeprefix("#/components/schemas/") for reference in found} <= set(schemas)


def test_no_schema_is_unused(description: dict[str, Any]) -> None:
    used = {reference.rpartition("/")[2] for reference in references(description)}
    assert used == set(description["components"]["schemas"])


def test_what_only_serves_the_page_is_not_described(description: dict[str, Any]) -> None:
    assert not {"/", "/docs", "/openapi.json"} & set(description["paths"])


def test_the_chat_operation_names_request_answer_chunk_and_errors(
    description: dict[str, Any],
) -> None:
    operation = description["paths"]["/v1/chat/completions"]["post"]
    assert list(references(operation["requestBody"])) == [
        "#/components/schemas/ChatCompletionRequest"
    ]
    assert set(references(operation["responses"]["200"])) == {
        "#/components/schemas/ChatCompletion",
        "#/components/schemas/ChatCompletionChunk",
    }
    assert set(operation["responses"]) == {"200", "400", "404", "413", "429", "500", "503"}
    for status in ("400", "404", "413", "429", "500", "503"):
        assert set(references(operation["responses"][status])) == {"#/components/schemas/ErrorBody"}


def test_the_request_tells_its_limits(description: dict[str, Any]) -> None:
    fields = description["components"]["schemas"]["ChatCompletionRequest"]["properties"]
    temperature = fields["temperature"]["anyOf"][0]
    assert (temperature["minimum"], temperature["maximum"]) == (0, 2)
    assert fields["n"]["anyOf"][0]["maximum"] == 16
    assert [option["type"] for option in fields["stop"]["anyOf"]] == ["string", "array", "null"]


def test_no_reply_is_one_that_the_server_never_sends(description: dict[str, Any]) -> None:
    assert "422" not in str(description["paths"])


def test_the_page_needs_no_other_server(client: TestClient) -> None:
    reply = client.get("/docs")
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    assert "/openapi.json" in reply.text
    assert not re.search(r"(src|href)=[\"'](https?:)?//|@import|url\(", reply.text)
    # Not even by mistake: the browser is told to load nothing else.
    policy = reply.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy


@pytest.mark.parametrize(
    ("model", "names"),
    [("TokenizeRequest", ["content", "prompt", "messages"]), ("ContentPart", ["text", "refusal"])],
)
def test_that_one_of_several_fields_must_be_there_is_told(
    description: dict[str, Any], model: str, names: list[str]
) -> None:
    ways = description["components"]["schemas"][model]["anyOf"]
    assert [way["required"] for way in ways] == [[name] for name in names]
    assert all(
        way["properties"][name] == {"not": {"type": "null"}}
        for way, name in zip(ways, names, strict=True)
    )


def test_the_keys_that_are_needed_are_told() -> None:
    keys = KeyRing([access_key("a"), access_key("b", admin=True)])
    app = create_app(served(FakeEngine()), ServerSettings(access=AccessPolicy(keys)))
    client = TestClient(app, base_url="http://127.0.0.1")
    description = client.get("/openapi.json").json()
    told = {
        path: (
            {next(iter(way)) for way in operation.get("security", ())},
            operation["responses"].keys() & {"401", "403"},
        )
        for path, operations in description["paths"].items()
        for operation in operations.values()
    }
    schemes = set(description["components"]["securitySchemes"])
    assert len(schemes) == 2
    assert told["/health"] == (set(), set())
    assert told["/v1/chat/completions"] == (schemes, {"401"})
    assert told["/v1/system/info"] == (schemes, {"401", "403"})
    # A tool that reads the description finds the replies as they are.
    assert client.get("/v1/models").status_code == 401
    assert client.get("/v1/system/info", headers={"x-api-key": "a"}).status_code == 403


def test_without_keys_none_are_told(description: dict[str, Any]) -> None:
    assert "securitySchemes" not in description["components"]
    responses = [
        operation["responses"]
        for operations in description["paths"].values()
        for operation in operations.values()
    ]
    assert not any({"401", "403"} & replies.keys() for replies in responses)
