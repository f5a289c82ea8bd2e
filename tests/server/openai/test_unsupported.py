from __future__ import annotations

from typing import Any

import pytest

from mrs.server.errors import UnsupportedFieldError
from mrs.server.openai.unsupported import UNSUPPORTED_FIELDS, refuse_unsupported

ASKS = {
    "audio": {"voice": "alloy", "format": "mp3"},
    "modalities": ["text", "audio"],
    "moderation": {"model": "m"},
    "store": True,
    "web_search_options": {},
    "adapter": "a",
    "agent_permission": "auto",
    "code_execution_permission": "auto",
    "enable_shell": True,
    "files": [{"name": "a"}],
    "max_tool_rounds": 3,
    "session_id": "s",
    "chat_template": "{{ messages }}",
    "prompt_embeds": "AAAA",
    "allowed_token_ids": [1, 2],
    "bad_words": ["a"],
    "guided_grammar": 'root ::= "a"',
}
# What the openai client or common tools send when they want nothing of it.
ASKS_FOR_NOTHING = [
    ("modalities", ["text"]),
    ("store", False),
    ("bad_words", []),
]


def test_every_field_of_the_table_is_tested() -> None:
    assert ASKS.keys() == UNSUPPORTED_FIELDS.keys()


@pytest.mark.parametrize("name", ASKS)
def test_asking_for_something_is_refused_by_name(name: str) -> None:
    with pytest.raises(UnsupportedFieldError) as caught:
        refuse_unsupported({name: ASKS[name]}, UNSUPPORTED_FIELDS)
    assert caught.value.param == name
    assert name in caught.value.message


@pytest.mark.parametrize(("name", "value"), ASKS_FOR_NOTHING)
def test_asking_for_nothing_passes(name: str, value: Any) -> None:
    refuse_unsupported({name: value}, UNSUPPORTED_FIELDS)


@pytest.mark.parametrize("name", ASKS)
def test_null_asks_for_nothing(name: str) -> None:
    refuse_unsupported({name: None}, UNSUPPORTED_FIELDS)


@pytest.mark.parametrize(
    ("name", "value"),
    [],
)
def test_values_of_another_kind_are_refused(name: str, value: Any) -> None:
    with pytest.raises(UnsupportedFieldError):
        refuse_unsupported({name: value}, UNSUPPORTED_FIELDS)


def test_which_of_several_is_named_does_not_vary() -> None:
    with pytest.raises(UnsupportedFieldError) as caught:
        refuse_unsupported(dict(reversed(ASKS.items())), UNSUPPORTED_FIELDS)
    assert caught.value.param == min(ASKS)


def test_other_fields_pass() -> None:
    harmless = {"user": "u", "metadata": {"a": "b"}, "service_tier": "auto", "seed": 1, "x": [1]}
    refuse_unsupported(harmless, UNSUPPORTED_FIELDS)
