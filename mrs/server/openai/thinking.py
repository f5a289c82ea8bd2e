"""What a chat completion request says of reasoning."""

from __future__ import annotations

from typing import Any

from mrs.errors import InvalidValueError
from mrs.server.conversation.chat_format import chat_format
from mrs.server.errors import FieldTypeError, UnsupportedFieldError
from mrs.server.openai.schemas import ChatCompletionRequest
from mrs.server.served_model import ServedModel

_OFF = frozenset({"off", "none"})
_EFFORTS = ("minimal", "low", "medium", "high", "xhigh")
_SAME = {"max": "xhigh"}
_OWN_KEYS = ("enable_thinking", "reasoning_effort")


def thinking(request: ChatCompletionRequest) -> tuple[bool | None, str | None]:
    """Whether the model reasons, and how much; None leaves it to the model.

    Both may be said at the top or among ``chat_template_kwargs``.

    Raises:
        RequestError: an effort that there is not, or two fields that contradict each other.
    """
    given = request.chat_template_kwargs or {}
    enabled = _either(request.enable_thinking, given.get("enable_thinking"), "enable_thinking")
    effort = _either(request.reasoning_effort, given.get("reasoning_effort"), "reasoning_effort")
    if enabled is not None and not isinstance(enabled, bool):
        raise _wrong_type("enable_thinking", "true or false")
    if effort is None:
        return enabled, None
    if not isinstance(effort, str):
        raise _wrong_type("reasoning_effort", "a string")
    return _joined(enabled, effort)


def reasoning_budget(tokens: int | None, model: ServedModel) -> int | None:
    """So many tokens of reasoning at most, as ``thinking_token_budget`` asks; None for any.

    Raises:
        UnsupportedFieldError: the model's reasoning cannot be closed.
    """
    if tokens is not None and chat_format(model).has_channels:
        raise UnsupportedFieldError(
            "'thinking_token_budget' is not supported by models that answer in channels.",
            hint="Leave it out; 'reasoning_effort' makes them reason less.",
            param="thinking_token_budget",
        )
    return tokens


def other_variables(request: ChatCompletionRequest) -> dict[str, Any]:
    """The variables of the template that say nothing of reasoning."""
    given = request.chat_template_kwargs or {}
    return {name: value for name, value in given.items() if name not in _OWN_KEYS}


def _joined(enabled: bool | None, effort: str) -> tuple[bool | None, str | None]:
    plain = effort.strip().lower()
    plain = _SAME.get(plain, plain)
    if plain not in _OFF and plain not in _EFFORTS:
        raise InvalidValueError(
            f"'reasoning_effort' is {effort[:40]!r}.",
            hint=f"It is one of: none, off, {', '.join(_EFFORTS)}, max.",
            param="reasoning_effort",
        )
    off = plain in _OFF
    if enabled is not None and enabled is off:
        raise InvalidValueError(
            f"'reasoning_effort' is {plain!r} and 'enable_thinking' is {str(enabled).lower()}: "
            "they contradict each other.",
            hint="Send one of them.",
            param="enable_thinking",
        )
    return not off, None if off else plain


def _either(first: Any, second: Any, name: str) -> Any:
    if first is not None and second is not None and first != second:
        raise InvalidValueError(
            f"'{name}' and 'chat_template_kwargs.{name}' differ.",
            hint="Send one of them.",
            param=f"chat_template_kwargs.{name}",
        )
    return second if first is None else first


def _wrong_type(name: str, kind: str) -> FieldTypeError:
    param = f"chat_template_kwargs.{name}"
    return FieldTypeError(f"'{param}' should be {kind}.", param=param)
