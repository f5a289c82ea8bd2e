"""What a chat template does with tools, found by letting it render a small conversation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from typing import Any

from mrs.chat_template import ChatTemplate
from mrs.errors import ChatTemplateError

_NAME = "probed_function"
_KEY = "probed_key"
_VALUE = "probed_value"
_OTHER = "other_value"
_RESULT = "probed_result"
_SYSTEM = "probed_system"
_TOOL: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": _NAME,
        "description": "A function.",
        "parameters": {
            "type": "object",
            "properties": {_KEY: {"type": "string", "description": "A text."}},
            "required": [_KEY],
        },
    },
}
_USER = {"role": "user", "content": "Hello!"}


class CallArguments(Enum):
    """How a template wants the arguments of a call in an earlier answer."""

    OBJECT = auto()
    TEXT = auto()
    NOT_AT_ALL = auto()


@dataclass(frozen=True)
class TemplateTraits:
    """What a template makes of the parts of a conversation.

    Attributes:
        shows_system: messages of the system.
        shows_tools: the list of tools.
        calls: calls in earlier answers.
        shows_all_calls: also where an answer has more than one.
        shows_results: messages with the results of tools.
        variables: names that it looks for besides the messages.
    """

    shows_system: bool
    shows_tools: bool
    calls: CallArguments
    shows_all_calls: bool
    shows_results: bool
    variables: frozenset[str] = frozenset()


@lru_cache(maxsize=64)
def template_traits(source: str) -> TemplateTraits:
    """Try a template out; what it fails on, it does not show."""
    try:
        template = ChatTemplate(source)
    except ChatTemplateError:
        return TemplateTraits(True, False, CallArguments.NOT_AT_ALL, True, False)
    return TemplateTraits(
        shows_system=_shows_system(template),
        shows_tools=_NAME in _rendered(template, [_USER], tools=[_TOOL]),
        calls=_call_arguments(template),
        shows_all_calls=_shows_all_calls(template),
        shows_results=_shows_results(template),
        variables=template.variables,
    )


def _shows_system(template: ChatTemplate) -> bool:
    return _SYSTEM in _rendered(template, [{"role": "system", "content": _SYSTEM}, _USER])


def _call_arguments(template: ChatTemplate) -> CallArguments:
    as_object = _rendered(template, [_USER, _answer({_KEY: _VALUE})], tools=[_TOOL])
    as_text = _rendered(template, [_USER, _answer(_as_text(_VALUE))], tools=[_TOOL])
    # A template that expects text writes an object as Python shows it.
    if _VALUE in as_object and f"'{_KEY}'" not in as_object:
        return CallArguments.OBJECT
    if _VALUE in as_text:
        return CallArguments.TEXT
    return CallArguments.NOT_AT_ALL


def _shows_all_calls(template: ChatTemplate) -> bool:
    first, second = ({_KEY: _VALUE}, {_KEY: _OTHER}), (_as_text(_VALUE), _as_text(_OTHER))
    return any(
        _OTHER in _rendered(template, [_USER, _answer(*forms)], tools=[_TOOL])
        for forms in (first, second)
    )


def _shows_results(template: ChatTemplate) -> bool:
    result = {"role": "tool", "name": _NAME, "tool_call_id": "probe1234", "content": _RESULT}
    arguments: tuple[Any, ...] = ({_KEY: _VALUE}, _as_text(_VALUE))
    return any(
        _RESULT in _rendered(template, [_USER, _answer(form), result], tools=[_TOOL])
        for form in arguments
    )


def _answer(*arguments: Any) -> Mapping[str, Any]:
    calls = [
        {"id": "probe1234", "type": "function", "function": {"name": _NAME, "arguments": one}}
        for one in arguments
    ]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def _as_text(value: str) -> str:
    return json.dumps({_KEY: value})


def _rendered(template: ChatTemplate, messages: list[Mapping[str, Any]], **variables: Any) -> str:
    try:
        return template.render(messages, **variables)
    except ChatTemplateError:
        return ""
