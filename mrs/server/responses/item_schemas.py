"""Items of a request, as they are validated."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, field_validator, model_validator
from pydantic_core import PydanticCustomError

from mrs.server.text_unions import text_or_list
from mrs.server.validation import UNSUPPORTED, RequestModel

MEDIA_PARTS = frozenset(
    {"input_image", "input_audio", "input_file", "input_video", "computer_screenshot", "image_url"}
)
ITEM_TYPES = ("message", "function_call", "function_call_output", "reasoning", "item_reference")
ItemId = Annotated[str, Field(min_length=1, max_length=512)]
ItemStatus = Literal["in_progress", "completed", "incomplete"]


class InputPart(RequestModel):
    """A piece of a message: text, or what an assistant said when it refused."""

    type: Literal["input_text", "output_text", "text", "refusal", "summary_text", "reasoning_text"]
    text: str | None = None
    refusal: str | None = None

    @field_validator("type", mode="before")
    @classmethod
    def _no_media(cls, value: Any) -> Any:
        if isinstance(value, str) and value in MEDIA_PARTS:
            raise PydanticCustomError(
                UNSUPPORTED, "this model reads text only, not parts of type {kind}", {"kind": value}
            )
        return value

    @model_validator(mode="after")
    def _not_empty(self) -> InputPart:
        if self.said is None:
            name = "refusal" if self.type == "refusal" else "text"
            raise PydanticCustomError(
                "empty_part",
                "a part of type {kind} needs its {name}",
                {"kind": self.type, "name": name},
            )
        return self

    @property
    def said(self) -> str | None:
        """The text of either kind."""
        return self.refusal if self.type == "refusal" else self.text


Content = Annotated[
    Annotated[str, Tag("<string>")] | Annotated[list[InputPart], Tag("<parts>")],
    text_or_list(
        "<parts>",
        error_type="content_type",
        message="it should be a string or an array of content parts",
    ),
]


class InputMessage(RequestModel):
    """What somebody said. The type may be left out."""

    type: Literal["message"] = "message"
    id: ItemId | None = None
    role: Literal["user", "assistant", "system", "developer"]
    content: Content
    status: ItemStatus | None = None
    phase: Literal["commentary", "final_answer"] | None = None


class InputFunctionCall(RequestModel):
    """A call that the model made."""

    type: Literal["function_call"]
    id: ItemId | None = None
    call_id: ItemId
    name: str = Field(min_length=1)
    namespace: str | None = None
    arguments: str
    status: ItemStatus | None = None


class InputFunctionCallOutput(RequestModel):
    """What a called function returned."""

    type: Literal["function_call_output"]
    id: ItemId | None = None
    call_id: ItemId
    output: Content
    status: ItemStatus | None = None


class InputReasoning(RequestModel):
    """What the model thought. ``encrypted_content`` stands in for content that is not there."""

    type: Literal["reasoning"]
    id: ItemId | None = None
    summary: list[InputPart] = Field(default_factory=list)
    content: list[InputPart] | None = None
    encrypted_content: str | None = None
    status: ItemStatus | None = None


class ItemReference(RequestModel):
    """An item that is stored. The type may be left out."""

    type: Literal["item_reference"] = "item_reference"
    id: ItemId


def _supported(value: Any) -> Any:
    kind = value.get("type") if isinstance(value, dict) else None
    if isinstance(kind, str) and kind not in ITEM_TYPES:
        raise PydanticCustomError(
            UNSUPPORTED,
            "items of type {kind} are not supported; {types} are",
            {"kind": kind[:60], "types": ", ".join(ITEM_TYPES)},
        )
    return value


def _item_tag(value: Any) -> str | None:
    if not isinstance(value, dict):
        return None
    kind = value.get("type")
    if kind is None:
        # A null is no type either; the models take the field as absent.
        kind = "message" if "role" in value or "id" not in value else "item_reference"
    return f"<{kind}>" if isinstance(kind, str) else None


def _without_null_type(value: Any) -> Any:
    if isinstance(value, dict) and "type" in value and value["type"] is None:
        return {name: field for name, field in value.items() if name != "type"}
    return value


InputItem = Annotated[
    Annotated[InputMessage, Tag("<message>")]
    | Annotated[InputFunctionCall, Tag("<function_call>")]
    | Annotated[InputFunctionCallOutput, Tag("<function_call_output>")]
    | Annotated[InputReasoning, Tag("<reasoning>")]
    | Annotated[ItemReference, Tag("<item_reference>")],
    Discriminator(
        _item_tag,
        custom_error_type="item_type",
        custom_error_message="it should be an item: an object with a type",
    ),
    BeforeValidator(_supported),
    BeforeValidator(_without_null_type),
]


Input = Annotated[
    Annotated[str, Tag("<string>")] | Annotated[list[InputItem], Tag("<items>")],
    text_or_list(
        "<items>",
        error_type="input_type",
        message="it should be a string or an array of items",
    ),
]
