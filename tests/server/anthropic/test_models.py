"""Models as Anthropic's clients see them."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from mrs.errors import InvalidValueError
from mrs.server.anthropic.models import model_page
from mrs.server.served_model import ModelDescription, ModelKind

VERSION = {"anthropic-version": "2023-06-01"}
MODELS = [ModelDescription(name, ModelKind.TEXT, 1_700_000_000, 128) for name in "abcd"]


def page(**options: str) -> tuple[str, bool]:
    made = model_page(MODELS, **options)
    names = "".join(model.id for model in made.data)
    assert (made.first_id, made.last_id) == (names[:1] or None, names[-1:] or None)
    return names, made.has_more


def test_pages_follow_each_other() -> None:
    assert page() == ("abcd", False)
    assert page(limit="3") == ("abc", True)
    assert page(limit="3", after_id="c") == ("d", False)
    assert page(limit="2", before_id="d") == ("bc", True)
    assert page(after_id="d") == ("", False)


@pytest.mark.parametrize("limit", ["0", "-1", "1001", "x", "", "٣", "9" * 5000])
def test_limits_that_make_no_sense_are_refused(limit: str) -> None:
    with pytest.raises(InvalidValueError):
        model_page(MODELS, limit=limit)


def test_who_asks_as_anthropics_clients_do_gets_anthropics_shape(client: TestClient) -> None:
    reply = client.get("/v1/models", headers=VERSION)
    expected = {
        "type": "model",
        "id": "tiny/fake",
        "display_name": "tiny/fake",
        "created_at": "2023-11-14T22:13:20Z",
        "lifecycle": "active",
        "max_input_tokens": 128,
        "max_tokens": 128,
    }
    assert reply.json()["data"] == [expected]
    assert client.get("/v1/models/tiny/fake", headers=VERSION).json() == expected
    assert client.get("/v1/models").json()["object"] == "list"


def test_errors_about_models_are_in_the_shape_of_who_asks(client: TestClient) -> None:
    reply = client.get("/v1/models/none", headers=VERSION)
    assert (reply.status_code, reply.json()["error"]["type"]) == (404, "not_found_error")
    assert client.get("/v1/models/none").json()["error"]["code"] == "model_not_found"
    reply = client.get("/v1/models?limit=x", headers=VERSION)
    assert (reply.status_code, reply.json()["error"]["type"]) == (400, "invalid_request_error")
