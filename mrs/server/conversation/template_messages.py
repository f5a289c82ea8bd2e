"""Messages fitted to what a chat template can show.

Templates differ in what they know of tools. What one does not show is written into the text of a
message, in the form that the model is told to use itself: nothing of a conversation is lost.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mrs.runtime.control_text import MixedText
from mrs.server.conversation.conversation import FunctionTool, TemplateMessage
from mrs.server.conversation.template_traits import CallArguments, TemplateTraits
from mrs.server.conversation.tool_formats import ToolFormat

_SHORT_ID = 9


def tool_definitions(tools: Sequence[FunctionTool]) -> list[dict[str, Any]]:
    """The tools as chat templates know them."""
    return [{"type": "function", "function": _definition(tool)} for tool in tools]


def fitted_messages(
    messages: Sequence[TemplateMessage],
    tools: Sequence[FunctionTool],
    form: ToolFormat,
    traits: TemplateTraits,
) -> list[TemplateMessage]:
    """The messages, with what the template does not show written into them."""
    known = _with_names(messages)
    if form.short_ids:
        known = list(map(_with_short_ids, known))
    if not traits.shows_all_calls and traits.calls is not CallArguments.NOT_AT_ALL:
        known = list(_with_single_calls(known))
    fitted: list[TemplateMessage] = []
    for message in known:
        if message.get("tool_calls"):
            fitted.append(_with_shown_calls(message, form, traits.calls))
        elif message["role"] == "tool" and not traits.shows_results:
            _add_result(fitted, message)
        else:
            fitted.append(message)
    if tools and not traits.shows_tools:
        return _with_instruction(fitted, tools, form, shows_system=traits.shows_system)
    return fitted


def _with_names(messages: Sequence[TemplateMessage]) -> list[TemplateMessage]:
    """Results of tools with the names that some templates show, and clients leave out."""
    names: dict[str, str] = {}
    named: list[TemplateMessage] = []
    for message in messages:
        names |= {call["id"]: call["function"]["name"] for call in message.get("tool_calls", ())}
        name = names.get(message.get("tool_call_id", ""))
        is_nameless = message["role"] == "tool" and not message.get("name")
        named.append({**message, "name": name} if is_nameless and name else message)
    return named


def _with_short_ids(message: TemplateMessage) -> TemplateMessage:
    """Ids that another server made, in the form that the template demands."""
    changed = dict(message)
    if message.get("tool_calls"):
        calls = message["tool_calls"]
        changed["tool_calls"] = [{**call, "id": _short_id(call["id"])} for call in calls]
    if "tool_call_id" in message:
        changed["tool_call_id"] = _short_id(message["tool_call_id"])
    return changed


def _short_id(call_id: str) -> str:
    if len(call_id) == _SHORT_ID and call_id.isascii() and call_id.isalnum():
        return call_id
    return hashlib.sha256(call_id.encode(errors="replace")).hexdigest()[:_SHORT_ID]


def _with_single_calls(messages: Sequence[TemplateMessage]) -> Iterator[TemplateMessage]:
    """Answers with several calls, as several answers that are each followed by their result."""
    results = {
        message.get("tool_call_id"): message for message in messages if message["role"] == "tool"
    }
    moved: set[str] = set()
    for message in messages:
        calls = message.get("tool_calls") or ()
        if len(calls) < 2:
            if message.get("tool_call_id") not in moved:
                yield message
            continue
        for index, call in enumerate(calls):
            first = message if index == 0 else {"role": "assistant", "content": ""}
            yield {**first, "tool_calls": [call]}
            if call["id"] in results:
                moved.add(call["id"])
                yield results[call["id"]]


def _definition(tool: FunctionTool) -> dict[str, Any]:
    parameters = tool.parameters or {"type": "object", "properties": {}}
    return {"name": tool.name, "description": tool.description or "", "parameters": parameters}


def _with_shown_calls(
    message: TemplateMessage, form: ToolFormat, shown: CallArguments
) -> TemplateMessage:
    if shown is CallArguments.OBJECT:
        return message
    calls = message["tool_calls"]
    if shown is CallArguments.TEXT:
        return {**message, "tool_calls": [_with_text_arguments(call) for call in calls]}
    functions = [call["function"] for call in calls]
    written = form.write([(function["name"], function["arguments"]) for function in functions])
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    content = message.get("content") or ""
    parts = (content, "\n", *written.parts) if content else written.parts
    return {**rest, "content": MixedText(parts)}


def _with_text_arguments(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    text = json.dumps(function["arguments"], ensure_ascii=False)
    return {**call, "function": {**function, "arguments": text}}


def _add_result(fitted: list[TemplateMessage], message: TemplateMessage) -> None:
    """Results become a message of the user, those of one turn together."""
    text = f"<tool_response>\n{message.get('content') or ''}\n</tool_response>"
    if fitted and fitted[-1].get("holds_results"):
        text = _lines(fitted.pop()["content"], text)
    fitted.append({"role": "user", "content": text, "holds_results": True})


def _with_instruction(
    messages: list[TemplateMessage],
    tools: Sequence[FunctionTool],
    form: ToolFormat,
    *,
    shows_system: bool,
) -> list[TemplateMessage]:
    instruction = _instruction(tools, form)
    first = messages[0]
    if first["role"] == ("system" if shows_system else "user"):
        content = first.get("content") or ""
        texts = (content, instruction) if shows_system else (instruction, content)
        both = [part for text in texts if text for part in ("\n\n", *_parts(text))]
        return [{**first, "content": MixedText(both[1:])}, *messages[1:]]
    role = "system" if shows_system else "user"
    return [{"role": role, "content": instruction}, *messages]


def _parts(text: str) -> tuple[str, ...]:
    return text.parts if isinstance(text, MixedText) else (text,)


def _instruction(tools: Sequence[FunctionTool], form: ToolFormat) -> MixedText:
    listed = "\n".join(json.dumps(one, ensure_ascii=False) for one in tool_definitions(tools))
    example = form.write([("function_name", {"argument": "value"})])
    before = (
        "You can call functions. These are there, each described as JSON:\n"
        f"<tools>\n{listed}\n</tools>\n"
        "To call one, answer with its name and its arguments in exactly this form:\n"
    )
    after = (
        "\nYou are then told what it returned, between <tool_response> and </tool_response>. "
        "Call a function only where it helps to answer."
    )
    return MixedText((before, *example.parts, after))


def _lines(first: str, second: str) -> str:
    return f"{first}\n{second}" if first else second
