"""Tools, calls and the choice among tools, as requests and answers hold them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from mrs.server.validation import UNSUPPORTED, RequestModel

MAX_TOOLS = 512
FunctionName = Annotated[str, Field(min_length=1, max_length=256)]


class FunctionDefinition(RequestModel):
    """A function that the model may call."""

    name: FunctionName
    description: str | None = None
    parameters: dict[str, Any] | None = Field(
        None, description="JSON schema of the arguments, an object; anything if absent."
    )
    strict: bool | None = Field(
        None, description="Arguments match the schema also where the model is free to call."
    )


class Tool(RequestModel):
    """A tool: a function, nested as in chat completions or flat as in Responses."""

    type: Literal["function"] = "function"
    function: FunctionDefinition | None = None
    name: FunctionName | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None

    @model_validator(mode="before")
    @classmethod
    def _functions_alone(cls, value: Any) -> Any:
        kind = value.get("type", "function") if isinstance(value, dict) else "function"
        if isinstance(kind, str) and kind != "function":
            raise PydanticCustomError(
                UNSUPPORTED,
                "tools of type {kind} are not supported; functions are",
                {"kind": repr(kind[:60])},
            )
        return value

    @model_validator(mode="after")
    def _named(self) -> Tool:
        if self.function is None and self.name is None:
            raise PydanticCustomError("no_function", "a tool needs a function with a name")
        return self

    @property
    def definition(self) -> FunctionDefinition:
        """The function, however it was written."""
        if self.function is not None:
            return self.function
        assert self.name is not None
        return FunctionDefinition(
            name=self.name,
            description=self.description,
            parameters=self.parameters,
            strict=self.strict,
        )


class NamedFunction(RequestModel):
    """The name of a function."""

    name: FunctionName


class NamedTool(RequestModel):
    """One tool of the request, nested or flat."""

    type: Literal["function"] = "function"
    function: NamedFunction | None = None
    name: FunctionName | None = None

    @model_validator(mode="after")
    def _named(self) -> NamedTool:
        if self.function is None and self.name is None:
            raise PydanticCustomError("no_function", "it needs a function with a name")
        return self

    @property
    def function_name(self) -> str:
        """The name, however it was written."""
        name = self.function.name if self.function is not None else self.name
        assert name is not None
        return name


class AllowedToolsBody(RequestModel):
    """The subset, and whether one of it must be called."""

    mode: Literal["auto", "required"]
    tools: list[NamedTool] = Field(min_length=1, max_length=MAX_TOOLS)


class AllowedTools(RequestModel):
    """A subset of the tools; OpenAI's clients nest it, mistral.rs's do not."""

    type: Literal["allowed_tools"]
    allowed_tools: AllowedToolsBody | None = None
    mode: Literal["auto", "required"] | None = None
    tools: list[NamedTool] | None = Field(None, min_length=1, max_length=MAX_TOOLS)

    @model_validator(mode="after")
    def _with_tools(self) -> AllowedTools:
        if self.allowed_tools is None and self.tools is None:
            raise PydanticCustomError("no_tools", "it needs the tools that are allowed")
        return self

    @property
    def body(self) -> AllowedToolsBody:
        """The subset, however it was written."""
        if self.allowed_tools is not None:
            return self.allowed_tools
        return AllowedToolsBody(mode=self.mode or "auto", tools=self.tools or [])


def _choice_tag(value: Any) -> str | None:
    if isinstance(value, str):
        return "<mode>"
    if not isinstance(value, dict):
        return None
    return "<allowed>" if value.get("type") == "allowed_tools" else "<named>"


ToolChoiceField = Annotated[
    Annotated[Literal["none", "auto", "required"], Tag("<mode>")]
    | Annotated[AllowedTools, Tag("<allowed>")]
    | Annotated[NamedTool, Tag("<named>")],
    Discriminator(
        _choice_tag,
        custom_error_type="choice_type",
        custom_error_message="it should be none, auto, required, or an object that names tools",
    ),
]


def _function_choice_tag(value: Any) -> str | None:
    if isinstance(value, str):
        return "<mode>"
    return "<named>" if isinstance(value, dict) else None


FunctionChoiceField = Annotated[
    Annotated[Literal["none", "auto"], Tag("<mode>")] | Annotated[NamedFunction, Tag("<named>")],
    Discriminator(
        _function_choice_tag,
        custom_error_type="choice_type",
        custom_error_message="it should be none, auto, or an object with the name of a function",
    ),
]


class CalledFunctionField(RequestModel):
    """The function of an earlier call, and the arguments as JSON text."""

    name: FunctionName
    arguments: str | dict[str, Any] | None = Field(
        None, validation_alias=AliasChoices("arguments", "parameters")
    )


class ToolCallField(RequestModel):
    """A call in an earlier answer."""

    id: str | None = None
    type: Literal["function"] = "function"
    function: CalledFunctionField


class CalledFunction(BaseModel):
    """The function that the model calls."""

    name: str
    arguments: str = Field(description="A JSON object as text, as the model wrote it.")


class ToolCall(BaseModel):
    """A call that the model makes."""

    id: str
    type: Literal["function"]
    function: CalledFunction


class CalledFunctionDelta(BaseModel):
    """More of a call: its name first, then pieces of the arguments."""

    name: str | None = None
    arguments: str | None = None


class ToolCallDelta(BaseModel):
    """More of a call; the first one of a call has its id and its function's name."""

    index: int
    id: str | None = None
    type: Literal["function"] | None = None
    function: CalledFunctionDelta
