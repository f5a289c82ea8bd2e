"""Messages of a request to messages of a chat template."""

from __future__ import annotations

from collections.abc import Sequence

from mrs.server.errors import MissingFieldError
from mrs.server.openai.schemas import ChatMessage, ContentPart
from mrs.server.openai.unsupported import UNSUPPORTED_MESSAGE_FIELDS, refuse_unsupported

TemplateMessage = dict[str, str]
_PASSED_ON = ("name", "tool_call_id", "reasoning_content")


def template_messages(messages: Sequence[ChatMessage]) -> list[TemplateMessage]:
    """Return the messages with their content as one string each.

    Raises:
        UnsupportedFieldError: a message holds what cannot be honoured, such as tool calls.
        MissingFieldError: a message that must have a content has none.
    """
    return [_template_message(message, index) for index, message in enumerate(messages)]


def _template_message(message: ChatMessage, index: int) -> TemplateMessage:
    path = f"messages[{index}]."
    refuse_unsupported(message.model_extra or {}, UNSUPPORTED_MESSAGE_FIELDS, path)
    if "content" not in message.model_fields_set and message.role != "assistant":
        param = path + "content"
        raise MissingFieldError(f"The field '{param}' is required.", param=param)
    # Templates know no developer: OpenAI gave the system's role that name for newer models.
    role = "system" if message.role == "developer" else message.role
    passed_on = {name: value for name in _PASSED_ON if (value := getattr(message, name))}
    return {"role": role, "content": _text(message), **passed_on}


def _text(message: ChatMessage) -> str:
    if message.content is None:
        return message.refusal or ""
    if isinstance(message.content, str):
        return message.content
    # A line break between parts, as llama.cpp and vLLM have it.
    return "\n".join(_part_text(part) for part in message.content)


def _part_text(part: ContentPart) -> str:
    return (part.text if part.type == "text" else part.refusal) or ""
