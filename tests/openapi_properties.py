"""What an OpenAPI document says of its endpoints, reduced to the names of properties.

    python -m tests.openapi_properties SPEC.json > tests/data/openapi/reference.json

writes the test data of `tests.server.test_openapi_reference` from mistral.rs's document.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Endpoints = dict[str, dict[str, list[str]]]

ENDPOINTS = (
    "POST /v1/chat/completions",
    "POST /v1/completions",
    "POST /v1/embeddings",
    "POST /v1/responses",
    "GET /v1/responses/{response_id}",
    "DELETE /v1/responses/{response_id}",
    "POST /v1/responses/{response_id}/cancel",
    "POST /v1/messages",
    "POST /v1/messages/count_tokens",
    "GET /v1/models",
    "POST /v1/models/status",
    "POST /v1/models/unload",
    "POST /v1/models/reload",
    "GET /v1/system/info",
    "POST /v1/system/doctor",
    "GET /metrics",
    "GET /health",
)
"""Those of mistral.rs that are compared."""


def endpoint_properties(document: dict[str, Any]) -> Endpoints:
    """For each endpoint: the properties of its request and of its successful responses.

    A property is named by its path: ``messages[].content``.
    """
    found: Endpoints = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            body = operation.get("requestBody", {})
            replies = [
                reply for status, reply in operation["responses"].items() if status.startswith("2")
            ]
            found[f"{method.upper()} {path}"] = {
                "request": sorted(_of_contents([body], document)),
                "response": sorted(_of_contents(replies, document)),
            }
    return found


def _of_contents(parts: list[dict[str, Any]], document: dict[str, Any]) -> set[str]:
    return {
        name
        for part in parts
        for content in part.get("content", {}).values()
        for name in _properties(content.get("schema", {}), document, ())
    }


def _properties(
    schema: Any, document: dict[str, Any], within: tuple[str, ...], prefix: str = ""
) -> Iterator[str]:
    if not isinstance(schema, dict):
        return
    if reference := schema.get("$ref"):
        if reference not in within:  # A schema within itself has no new names.
            name = reference.rpartition("/")[2]
            inner = document["components"]["schemas"][name]
            yield from _properties(inner, document, (*within, reference), prefix)
        return
    for kind in ("oneOf", "anyOf", "allOf"):
        for inner in schema.get(kind, ()):
            yield from _properties(inner, document, within, prefix)
    yield from _properties(schema.get("items"), document, within, prefix + "[]")
    for name, inner in schema.get("properties", {}).items():
        path = f"{prefix}.{name}" if prefix else name
        yield path
        yield from _properties(inner, document, within, path)


def main() -> None:
    """Write the reduced form of a document."""
    document = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    found = endpoint_properties(document.get("spec", document))
    reduced = {endpoint: found[endpoint] for endpoint in ENDPOINTS}
    json.dump(reduced, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
