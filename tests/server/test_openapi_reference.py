"""Our OpenAPI document against mistral.rs's: the same endpoints, and all that they take and tell.

What is not there yet is in ``tests/data/openapi/missing.json``, by endpoint, with the reason; a
property stands for all that is below it. The list may only shrink.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from tests.openapi_properties import ENDPOINTS, Endpoints, endpoint_properties

DATA = Path(__file__).parents[1] / "data" / "openapi"
REFERENCE: Endpoints = json.loads((DATA / "reference.json").read_text())
MISSING: dict[str, dict[str, dict[str, str]]] = json.loads((DATA / "missing.json").read_text())


@pytest.fixture
def ours(client: TestClient) -> Endpoints:
    return endpoint_properties(cast("FastAPI", client.app).openapi())


def parent_is_in(name: str, names: set[str]) -> bool:
    """Whether something that a property is below is among ``names``.

    >>> parent_is_in("tools[].function.name", {"tools"})
    True
    """
    parts = name.replace("[]", ".[]").split(".")
    parents = [".".join(parts[:count]).replace(".[]", "[]") for count in range(1, len(parts))]
    return any(parent in names for parent in parents)


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_an_endpoint_takes_and_tells_what_the_reference_does(
    ours: Endpoints, endpoint: str
) -> None:
    assert endpoint in ours
    for part, names in REFERENCE[endpoint].items():
        listed = set(MISSING.get(endpoint, {}).get(part, {}))
        absent = set(names) - set(ours[endpoint][part])
        unlisted = {name for name in absent - listed if not parent_is_in(name, listed)}
        assert not unlisted, f"{part} lacks properties"
        assert listed <= absent, f"{part}: these are there by now, remove them from the list"


def test_the_list_is_of_what_the_reference_has() -> None:
    for endpoint, parts in MISSING.items():
        for part, names in parts.items():
            assert set(names) <= set(REFERENCE[endpoint][part])


def test_properties_are_found_through_references_unions_and_lists() -> None:
    schema: dict[str, Any] = {
        "components": {
            "schemas": {
                "Node": {
                    "properties": {
                        "next": {"$ref": "#/components/schemas/Node"},
                        "items": {"type": "array", "items": {"properties": {"x": {}}}},
                    }
                }
            }
        },
        "paths": {
            "/a": {
                "post": {
                    "requestBody": {
                        "content": {
                            "application/json": {
                                "schema": {
                                    "anyOf": [
                                        {"$ref": "#/components/schemas/Node"},
                                        {"properties": {"other": {}}},
                                    ]
                                }
                            }
                        }
                    },
                    "responses": {"400": {"content": {"a": {"schema": {"properties": {"e": {}}}}}}},
                }
            }
        },
    }
    assert endpoint_properties(schema) == {
        "POST /a": {"request": ["items", "items[].x", "next", "other"], "response": []}
    }
