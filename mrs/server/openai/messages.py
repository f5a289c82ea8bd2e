"""Messages of a request to messages of a chat template."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mrs.errors import InvalidValueError
from mrs.server.conversation.call_ids import new_call_id
from mrs.server.errors import MissingFieldError
from mrs.server.openai.message_schemas import ChatMessage, ContentPart
from mrs.server.openai.tool_schemas import CalledFunctionField
from mrs.server.openai.unsupported import UNSUPPORTED_MESSAGE_FIELDS, refuse_unsupported

_PASSED_ON = ("name", "tool_call_id", "reasoning_content")


def template_messages(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """Return the messages with their content as one string each.

    Raises:
        UnsupportedFieldError: a message holds what cannot be honoured, such as audio.
        MissingFieldError: a message that must have a content has none.
        InvalidValueError: the arguments of a call are no JSON object, or a call stands where none
            can.
    """
    turns = _Turns()
    for index, message in enumerate(messages):
        turns.add(message, f"messages[{index}].")
    return turns.messages


class _Turns:
    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        # The older form of calls has no ids: a result belongs to the last call of its name.
        self._unnamed_calls: dict[str, str] = {}

    def add(self, message: ChatMessage, path: str) -> None:
        refuse_unsupported(message.model_extra or {}, UNSUPPORTED_MESSAGE_FIELDS, path)
        if "content" not in message.model_fields_set and message.role != "assistant":
            param = path + "content"
            raise MissingFieldError(f"The field '{param}' is required.", param=param)
        turn: dict[str, Any] = {"role": _role(message), "content": _text(message)}
        turn |= {name: value for name in _PASSED_ON if (value := getattr(message, name))}
        if message.role == "function":
            turn["tool_call_id"] = self._unnamed_calls.get(message.name or "", "")
        if calls := self._calls(message, path):
            turn["tool_calls"] = calls
        self.messages.append(turn)

    def _calls(self, message: ChatMessage, path: str) -> list[dict[str, Any]]:
        if not message.tool_calls and message.function_call is None:
            return []
        if message.role != "assistant":
            name = "tool_calls" if message.tool_calls else "function_call"
            raise InvalidValueError(
                f"'{path}{name}' is in a message of the {message.role}; only the assistant calls.",
                param=path + name,
            )
        calls = []
        for index, call in enumerate(message.tool_calls or ()):
            param = f"{path}tool_calls[{index}].function.arguments"
            calls.append(_call(call.id or new_call_id(), call.function, param))
        if message.function_call is not None:
            call_id = new_call_id()
            self._unnamed_calls[message.function_call.name] = call_id
            param = f"{path}function_call.arguments"
            calls.append(_call(call_id, message.function_call, param))
        return calls


def _role(message: ChatMessage) -> str:
    # Templates know no developer: OpenAI gave the system's role that name for newer models.
    return {"developer": "system", "function": "tool"}.get(message.role, message.role)


def _call(call_id: str, function: CalledFunctionField, param: str) -> dict[str, Any]:
    arguments = _arguments(function.arguments, param)
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": function.name, "arguments": arguments},
    }


def _arguments(arguments: str | Mapping[str, Any] | None, param: str) -> Mapping[str, Any]:
    """The arguments as an object: most templates write them themselves."""
    if isinstance(arguments, Mapping):
        return arguments
    try:
        value = json.loads(arguments) if arguments and arguments.strip() else {}
    except (ValueError, RecursionError) as error:
        detail = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
        raise InvalidValueError(f"'{param}' is not JSON: {detail}.", param=param) from error
    if not isinstance(value, dict):
        raise InvalidValueError(f"'{param}' is not a JSON object.", param=param)
    return value


def _text(message: ChatMessage) -> str:
    if message.content is None:
        return message.refusal or ""
    if isinstance(message.content, str):
        return message.content
    # A line break between parts, as llama.cpp and vLLM have it.
    return "\n".join(_part_text(part) for part in message.content)


def _part_text(part: ContentPart) -> str:
    return (part.text if part.type == "text" else part.refusal) or ""
