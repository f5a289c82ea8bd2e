"""Content blocks of a request, as they are validated.

https://docs.claude.com/en/api/messages. What only Anthropic's own tools and media-reading models
can honour is refused by name; ``cache_control`` and citations of earlier answers, which every block
may have, ask for nothing here.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from mrs.server.validation import UNSUPPORTED, RequestModel


def _refuse(message: str, **names: Any) -> PydanticCustomError:
    return PydanticCustomError(UNSUPPORTED, message, names)


class TextBlock(RequestModel):
    """Text."""

    type: Literal["text"]
    text: str


class _Unsupported(RequestModel):
    """A block of a type that is known and that this server can do nothing with."""

    @model_validator(mode="before")
    @classmethod
    def _always(cls, value: Any) -> Any:
        kind = value.get("type") if isinstance(value, dict) else None
        if isinstance(kind, str) and kind in _MEDIA:
            raise _refuse("this model reads text only, not blocks of type {kind}", kind=kind)
        if isinstance(kind, str) and _is_of_a_server_tool(kind):
            message = "blocks of type {kind} belong to tools that this server does not have"
            raise _refuse(message, kind=kind)
        shown = repr(kind)[:60]
        raise PydanticCustomError("block_type", "no block has the type {kind}", {"kind": shown})


_MEDIA = frozenset({"image", "audio", "video", "file"})
_SERVER_BLOCKS = frozenset({"server_tool_use", "container_upload", "tool_reference"})


def _is_of_a_server_tool(kind: str) -> bool:
    return kind in _SERVER_BLOCKS or kind.startswith("mcp_") or kind.endswith("_tool_result")


def _tag_by_type(*known: str) -> Any:
    def tag(value: Any) -> str | None:
        kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
        if not isinstance(value, dict | RequestModel):
            return None
        return f"<{kind}>" if kind in known else "<unsupported>"

    return Discriminator(
        tag,
        custom_error_type="block_type",
        custom_error_message="it should be a content block: an object with a type",
    )


def _tag_string_or_blocks(value: Any) -> str | None:
    if isinstance(value, str):
        return "<string>"
    return "<blocks>" if isinstance(value, list) else None


_STRING_OR_BLOCKS = Discriminator(
    _tag_string_or_blocks,
    custom_error_type="content_type",
    custom_error_message="it should be a string or an array of content blocks",
)

TextBlocks = Annotated[
    Annotated[str, Tag("<string>")] | Annotated[list[TextBlock], Tag("<blocks>")],
    _STRING_OR_BLOCKS,
]


class Citations(RequestModel):
    """Whether the answer should cite a document."""

    enabled: bool | None = None

    @model_validator(mode="after")
    def _none_here(self) -> Citations:
        if self.enabled:
            raise _refuse("answers here cite no documents")
        return self


class DocumentSource(RequestModel):
    """What a document says: plain text, or text blocks."""

    type: Literal["text", "content"]
    media_type: str | None = None
    data: str | None = None
    content: TextBlocks | None = None

    @model_validator(mode="before")
    @classmethod
    def _text_only(cls, value: Any) -> Any:
        kind = value.get("type") if isinstance(value, dict) else None
        if kind in ("base64", "url", "file"):
            message = "documents are read as text or content, not from a source of type {kind}"
            raise _refuse(message, kind=kind)
        return value

    @model_validator(mode="after")
    def _not_empty(self) -> DocumentSource:
        if (self.data if self.type == "text" else self.content) is None:
            name = "data" if self.type == "text" else "content"
            raise PydanticCustomError("empty_source", "it should have {name}", {"name": name})
        return self


class DocumentBlock(RequestModel):
    """A text to answer from."""

    type: Literal["document"]
    source: DocumentSource
    title: str | None = None
    context: str | None = None
    citations: Citations | None = None


class SearchResultBlock(RequestModel):
    """A passage that was found."""

    type: Literal["search_result"]
    source: str
    title: str
    content: list[TextBlock]
    citations: Citations | None = None


class ThinkingBlock(RequestModel):
    """What the model thought in an earlier turn. The signature is not looked at."""

    type: Literal["thinking"]
    thinking: str
    signature: str | None = None


class RedactedThinkingBlock(RequestModel):
    """The same, sealed by another server: it cannot be read here."""

    type: Literal["redacted_thinking"]
    data: str


class ToolUseBlock(RequestModel):
    """A call that the model made."""

    type: Literal["tool_use"]
    id: str = Field(min_length=1, max_length=256)
    name: str = Field(min_length=1, max_length=256)
    input: dict[str, Any]


ToolResultContent = Annotated[
    Annotated[str, Tag("<string>")]
    | Annotated[
        list[
            Annotated[
                Annotated[TextBlock, Tag("<text>")]
                | Annotated[DocumentBlock, Tag("<document>")]
                | Annotated[SearchResultBlock, Tag("<search_result>")]
                | Annotated[_Unsupported, Tag("<unsupported>")],
                _tag_by_type("text", "document", "search_result"),
            ]
        ],
        Tag("<blocks>"),
    ],
    _STRING_OR_BLOCKS,
]


class ToolResultBlock(RequestModel):
    """What a call gave."""

    type: Literal["tool_result"]
    tool_use_id: str = Field(min_length=1, max_length=256)
    content: ToolResultContent | None = None
    is_error: bool | None = None


class SystemBlock(RequestModel):
    """Instructions amid the conversation."""

    type: Literal["mid_conv_system"]
    content: list[TextBlock]


Block = Annotated[
    Annotated[TextBlock, Tag("<text>")]
    | Annotated[DocumentBlock, Tag("<document>")]
    | Annotated[SearchResultBlock, Tag("<search_result>")]
    | Annotated[ThinkingBlock, Tag("<thinking>")]
    | Annotated[RedactedThinkingBlock, Tag("<redacted_thinking>")]
    | Annotated[ToolUseBlock, Tag("<tool_use>")]
    | Annotated[ToolResultBlock, Tag("<tool_result>")]
    | Annotated[SystemBlock, Tag("<mid_conv_system>")]
    | Annotated[_Unsupported, Tag("<unsupported>")],
    _tag_by_type(
        *("text", "document", "search_result", "thinking", "redacted_thinking"),
        *("tool_use", "tool_result", "mid_conv_system"),
    ),
]

Content = Annotated[
    Annotated[str, Tag("<string>")] | Annotated[list[Block], Tag("<blocks>")], _STRING_OR_BLOCKS
]
