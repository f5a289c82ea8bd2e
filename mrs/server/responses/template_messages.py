"""Items to the messages of a chat template."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from mrs.errors import InvalidValueError
from mrs.server.conversation.conversation import TemplateMessage
from mrs.server.responses.items import Item, part_texts
from mrs.server.responses.tools import full_name


def template_messages(items: Iterable[Item], instructions: str | None) -> list[TemplateMessage]:
    """The conversation that some items make.

    Reasoning, a text and calls that follow each other are one message of the assistant. What
    comes first from system and developer is one system message, after the instructions, since
    most templates know one alone.

    Raises:
        InvalidValueError: an output belongs to no call.
    """
    turns = _Turns(instructions)
    for item in items:
        turns.add(item)
    return turns.close()


class _Turns:
    """Collects messages, the assistant's piece by piece."""

    def __init__(self, instructions: str | None) -> None:
        self._system = [instructions] if instructions else []
        self._messages: list[TemplateMessage] = []
        self._assistant: dict[str, Any] | None = None
        self._called: dict[str, str] = {}

    def add(self, item: Item) -> None:
        """Take the next item."""
        getattr(self, f"_add_{item['type']}")(item)

    def close(self) -> list[TemplateMessage]:
        """The messages."""
        self._end_assistant()
        if not self._system:
            return self._messages
        system = {"role": "system", "content": "\n\n".join(self._system)}
        return [system, *self._messages]

    def _add_message(self, item: Item) -> None:
        text = part_texts(item["content"])
        if item["role"] == "assistant":
            # Two texts are two messages.
            if self._assistant is not None and {"content", "tool_calls"} & self._assistant.keys():
                self._end_assistant()
            self._turn()["content"] = text
            return
        self._end_assistant()
        role = "system" if item["role"] == "developer" else item["role"]
        if role == "system" and not self._messages:
            self._system.append(text)
        else:
            self._messages.append({"role": role, "content": text})

    def _add_reasoning(self, item: Item) -> None:
        if self._assistant is not None and {"content", "tool_calls"} & self._assistant.keys():
            self._end_assistant()
        thought = part_texts(item["content"] or item["summary"])
        turn = self._turn()
        before = turn.get("reasoning_content")
        turn["reasoning_content"] = thought if before is None else f"{before}\n{thought}"

    def _add_function_call(self, item: Item) -> None:
        name = full_name(item.get("namespace"), item["name"])
        self._called[item["call_id"]] = name
        call = {
            "id": item["call_id"],
            "type": "function",
            "function": {"name": name, "arguments": _arguments(item["arguments"])},
        }
        self._turn().setdefault("tool_calls", []).append(call)

    def _add_function_call_output(self, item: Item) -> None:
        self._end_assistant()
        call_id = item["call_id"]
        if call_id not in self._called:
            raise InvalidValueError(
                f"No function call has the id {call_id[:100]!r}, which an output names.",
                hint="Send the function_call item before its output, or 'previous_response_id'.",
                param="input",
            )
        output = item["output"]
        self._messages.append(
            {
                "role": "tool",
                "tool_call_id": call_id,
                "name": self._called[call_id],
                "content": output if isinstance(output, str) else part_texts(output),
            }
        )

    def _turn(self) -> dict[str, Any]:
        if self._assistant is None:
            self._assistant = {"role": "assistant"}
        return self._assistant

    def _end_assistant(self) -> None:
        if self._assistant is not None:
            self._messages.append({"content": "", **self._assistant})
            self._assistant = None


def _arguments(text: str) -> Any:
    """An object where it is one; a call that was cut off stays as far as it came."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


def without_oldest(
    messages: Sequence[TemplateMessage], turns: int
) -> Sequence[TemplateMessage] | None:
    """The conversation without so many of its oldest turns; None if the newest would go.

    A turn begins where the user speaks; what the system said first stays.
    """
    starts = [index for index, message in enumerate(messages) if message["role"] == "user"]
    if turns >= len(starts):
        return None
    head = [message for message in messages[:1] if message["role"] == "system"]
    return messages if turns == 0 else [*head, *messages[starts[turns] :]]
