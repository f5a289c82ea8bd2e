"""Messages of a request to messages of a chat template."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mrs.errors import InvalidValueError
from mrs.server.anthropic.blocks import (
    DocumentBlock,
    RedactedThinkingBlock,
    SearchResultBlock,
    SystemBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from mrs.server.anthropic.schemas import Message
from mrs.server.conversation.conversation import TemplateMessage

Blocks = Sequence[Any]


def template_messages(
    system: str | list[TextBlock] | None, messages: Sequence[Message]
) -> tuple[TemplateMessage, ...]:
    """Return the turns as chat templates know them.

    Messages of one role that follow each other are one turn, as Anthropic has it. Results of tools
    become messages of their own, in their place.

    Raises:
        InvalidValueError: a block stands where it makes no sense.
    """
    turns = _Turns()
    if text := _joined(system):
        turns.add({"role": "system", "content": text})
    for index, message in enumerate(messages):
        blocks = _blocks(message)
        if message.role == "assistant":
            turns.add_answer(blocks, index)
        else:
            turns.add_question(message.role, blocks, index)
    return tuple(turns.messages)


class _Turns:
    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self._names: dict[str, str] = {}

    def add(self, message: dict[str, Any]) -> None:
        last = self.messages[-1] if self.messages else None
        # A tool's result stays apart: each belongs to one call.
        if last is None or last["role"] != message["role"] or last["role"] == "tool":
            self.messages.append(message)
        elif last["role"] == "assistant":
            _go_on(last, message)
        else:
            last["content"] = "\n".join(filter(None, (last["content"], message["content"])))

    def add_question(self, role: str, blocks: Blocks, index: int) -> None:
        texts: list[str] = []
        said = False

        def flush() -> None:
            if texts:
                self.add({"role": role, "content": "\n".join(texts)})
                texts.clear()

        for place, block in enumerate(blocks):
            said = True
            if isinstance(block, ToolResultBlock) and role == "user":
                flush()
                self.add(self._result(block))
            elif isinstance(block, SystemBlock):
                flush()
                self.add({"role": "system", "content": _joined(block.content)})
            else:
                texts.append(_read(block, f"messages[{index}].content[{place}]", role))
        flush()
        if not said:
            self.add({"role": role, "content": ""})

    def add_answer(self, blocks: Blocks, index: int) -> None:
        message: dict[str, Any] = {"role": "assistant", "content": ""}
        for place, block in enumerate(blocks):
            path = f"messages[{index}].content[{place}]"
            if isinstance(block, ThinkingBlock):
                thought = message.get("reasoning_content", "") + block.thinking
                message |= {"reasoning_content": thought} if thought else {}
            elif isinstance(block, ToolUseBlock):
                self._names[block.id] = block.name
                message.setdefault("tool_calls", []).append(_call(block))
            elif not isinstance(block, RedactedThinkingBlock):
                message["content"] += _read(block, path, "assistant")
        self.add(message)

    def _result(self, block: ToolResultBlock) -> dict[str, Any]:
        text = _joined(block.content)
        if block.is_error:
            text = f"Error: {text}" if text else "Error"
        message = {"role": "tool", "content": text, "tool_call_id": block.tool_use_id}
        if name := self._names.get(block.tool_use_id):
            message["name"] = name
        return message


def _blocks(message: Message) -> Blocks:
    if isinstance(message.content, str):
        return [TextBlock(type="text", text=message.content)]
    return message.content


def _go_on(message: dict[str, Any], more: dict[str, Any]) -> None:
    """Put a second message of an assistant to its first."""
    message["content"] += more["content"]
    if more.get("reasoning_content"):
        thought: str = message.get("reasoning_content", "")
        message["reasoning_content"] = thought + more["reasoning_content"]
    if more.get("tool_calls"):
        message.setdefault("tool_calls", []).extend(more["tool_calls"])


def _call(block: ToolUseBlock) -> dict[str, Any]:
    function = {"name": block.name, "arguments": block.input}
    return {"id": block.id, "type": "function", "function": function}


def _joined(content: str | list[Any] | list[TextBlock] | None) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "\n".join(_text(block) for block in content)


def _read(block: Any, path: str, role: str) -> str:
    if isinstance(block, TextBlock | DocumentBlock | SearchResultBlock):
        return _text(block)
    raise InvalidValueError(
        f"A block of type {block.type!r} may not be in a message of the {role}.", param=path
    )


def _text(block: TextBlock | DocumentBlock | SearchResultBlock) -> str:
    if isinstance(block, TextBlock):
        return block.text
    if isinstance(block, SearchResultBlock):
        lines: Iterator[str | None] = iter((block.title, block.source, _joined(block.content)))
        return "\n".join(filter(None, ("<search_result>", *lines, "</search_result>")))
    source = block.source
    text = source.data if source.type == "text" else _joined(source.content)
    return "\n".join(filter(None, ("<document>", block.title, block.context, text, "</document>")))
