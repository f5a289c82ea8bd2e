"""Items of a request to items as they are stored: each with an id, and text in parts."""

from __future__ import annotations

import base64
import binascii
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from mrs.errors import InvalidValueError
from mrs.server.responses.errors import ItemNotFoundError
from mrs.server.responses.item_schemas import (
    Content,
    InputFunctionCall,
    InputFunctionCallOutput,
    InputItem,
    InputMessage,
    InputPart,
    InputReasoning,
    ItemReference,
)
from mrs.server.responses.schemas import ResponsesRequest

Item = dict[str, Any]
_SEALED = "mrs1."


def new_id(prefix: str) -> str:
    """An id that nobody can guess."""
    return f"{prefix}_{uuid.uuid4().hex}"


def referenced_ids(request: ResponsesRequest) -> list[str]:
    """Ids of the items that the request refers to instead of holding them."""
    items = request.input if isinstance(request.input, list) else []
    return [item.id for item in items if isinstance(item, ItemReference)]


def input_items(request: ResponsesRequest, known: Mapping[str, Item]) -> list[Item]:
    """The items of this turn.

    Args:
        request: checked.
        known: stored items, by id.

    Raises:
        ItemNotFoundError: a reference is to no item that is known.
        InvalidValueError: encrypted reasoning was not encrypted by this server.
    """
    if request.input is None:
        return []
    if isinstance(request.input, str):
        return [_message("user", [_text_part("input_text", request.input)])]
    items: list[Item] = []
    earlier = dict(known)
    for index, given in enumerate(request.input):
        item = _item(given, earlier, f"input[{index}]")
        earlier[item["id"]] = item
        items.append(item)
    return items


def seal(reasoning: str) -> str:
    """Reasoning in the opaque form in which clients that keep nothing else send it back.

    It is no secret, since the same answer holds it in the clear.
    """
    return _SEALED + base64.urlsafe_b64encode(reasoning.encode()).decode("ascii")


def unseal(sealed: str, param: str) -> str:
    """The opposite of `seal`.

    Raises:
        InvalidValueError: it comes from elsewhere.
    """
    try:
        if not sealed.startswith(_SEALED):
            raise ValueError("not ours")
        raw = base64.b64decode(sealed.removeprefix(_SEALED), altchars=b"-_", validate=True)
        return raw.decode()
    except (ValueError, binascii.Error) as error:
        raise InvalidValueError(
            f"'{param}' cannot be read: another server wrote it.",
            hint="Leave the reasoning item out, or send its 'content'.",
            param=param,
        ) from error


def _item(given: InputItem, known: Mapping[str, Item], path: str) -> Item:
    if isinstance(given, ItemReference):
        if given.id not in known:
            raise ItemNotFoundError(
                f"The item {given.id[:100]!r} was not found.",
                hint="Items of responses with 'store': false are not kept. Send the item itself.",
                param=f"{path}.id",
            )
        return known[given.id]
    if isinstance(given, InputMessage):
        return _given_message(given)
    if isinstance(given, InputFunctionCall):
        return _function_call(given)
    if isinstance(given, InputFunctionCallOutput):
        return _function_call_output(given)
    return _reasoning(given, path)


def _given_message(given: InputMessage) -> Item:
    assistant = given.role == "assistant"
    parts = _parts(given.content, "output_text" if assistant else "input_text", refusals=assistant)
    item = _message(given.role, parts, given.id)
    return item if given.phase is None else {**item, "phase": given.phase}


def _message(role: str, parts: list[dict[str, Any]], item_id: str | None = None) -> Item:
    return {
        "type": "message",
        "id": item_id or new_id("msg"),
        "status": "completed",
        "role": role,
        "content": parts,
    }


def _function_call(given: InputFunctionCall) -> Item:
    item = {
        "type": "function_call",
        "id": given.id or new_id("fc"),
        "status": given.status or "completed",
        "call_id": given.call_id,
        "name": given.name,
        "arguments": given.arguments,
    }
    return item if given.namespace is None else {**item, "namespace": given.namespace}


def _function_call_output(given: InputFunctionCallOutput) -> Item:
    output = given.output
    return {
        "type": "function_call_output",
        "id": given.id or new_id("fco"),
        "status": given.status or "completed",
        "call_id": given.call_id,
        "output": output if isinstance(output, str) else _parts(output, "input_text"),
    }


def _reasoning(given: InputReasoning, path: str) -> Item:
    content = [part.said or "" for part in given.content or ()]
    if not content and given.encrypted_content:
        content = [unseal(given.encrypted_content, f"{path}.encrypted_content")]
    return {
        "type": "reasoning",
        "id": given.id or new_id("rs"),
        "status": given.status or "completed",
        "summary": [{"type": "summary_text", "text": part.said or ""} for part in given.summary],
        "content": [{"type": "reasoning_text", "text": text} for text in content],
    }


def _parts(content: Content, kind: str, *, refusals: bool = False) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [_text_part(kind, content)]
    return [_part(part, kind, refusals=refusals) for part in content]


def _part(part: InputPart, kind: str, *, refusals: bool) -> dict[str, Any]:
    if refusals and part.type == "refusal":
        return {"type": "refusal", "refusal": part.said or ""}
    return _text_part(kind, part.said or "")


def _text_part(kind: str, text: str) -> dict[str, Any]:
    part = {"type": kind, "text": text}
    return {**part, "annotations": [], "logprobs": []} if kind == "output_text" else part


def part_texts(parts: Sequence[Mapping[str, Any]]) -> str:
    """The text of parts, a line break between them, as llama.cpp and vLLM have it."""
    return "\n".join(
        part["refusal"] if part["type"] == "refusal" else part["text"] for part in parts
    )
