"""Requests to prompt ids, with user text kept apart from the model's control tokens."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

from mrs.chat_template import ChatTemplate
from mrs.errors import ChatTemplateError, InvalidValueError, ModelLoadError
from mrs.runtime.control_text import ControlText, MixedText
from mrs.runtime.infill import infill_tokens
from mrs.runtime.literals import any_of
from mrs.runtime.tokenizer import Tokenizer

_MAX_DEPTH = 100
_FIRST_MARK = 0xD800
_END_MARK = "\udfff"
_MARKS = ord(_END_MARK) - _FIRST_MARK
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class PromptEncoder:
    """Encodes what a request says for one model.

    Args:
        tokenizer: the model's tokenizer.
        template: its chat template, or None if it has none.
        bos_token_id: its begin-of-sequence token, if any.
        add_bos: whether a prompt that does not start with BOS gets one.
        tool_template: the template for conversations with tools, if it is another.

    Raises:
        ModelLoadError: the control tokens start with more than 2047 different characters.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        template: ChatTemplate | None,
        *,
        bos_token_id: int | None,
        add_bos: bool,
        tool_template: ChatTemplate | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._template = template
        self._tool_template = tool_template or template
        self._bos = [bos_token_id] if add_bos and bos_token_id is not None else []
        self._disguise = _Disguise(tokenizer.special_tokens)

    def encode_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        continue_final: bool = False,
        **variables: Any,
    ) -> tuple[int, ...]:
        """The prompt of a conversation, through the chat template.

        Control tokens that the template writes are control tokens; in the messages and variables
        they are plain text.

        Args:
            messages: ``content`` is a string, None (nothing), or a list of text parts, which are
                put together.
            add_generation_prompt: end with the start of the assistant's turn.
            continue_final: end where the content of the last message ends, instead.
            variables: more names for the template (``tools``, ...).

        Raises:
            ChatTemplateError: there is no template, or it fails on or refuses the messages.
            InvalidValueError: a content part is not text, or the nesting is too deep.
        """
        template = self._tool_template if variables.get("tools") else self._template
        if template is None:
            raise ChatTemplateError(
                "The model has no chat template.",
                hint="Use text completions, or export the model with a chat template.",
            )
        disguised = [self._disguise.put_on(_with_flat_content(message)) for message in messages]
        if continue_final:
            disguised[-1]["content"] = disguised[-1].get("content", "") + _END_MARK
        prompt = template.render(
            disguised,
            add_generation_prompt=add_generation_prompt and not continue_final,
            **{name: self._disguise.put_on(value) for name, value in variables.items()},
        )
        if continue_final:
            prompt = _up_to_end_mark(prompt)
        parts = self._tokenizer.split_special(prompt)
        return self._with_bos(self._tokenizer.encode_parts(map(self._without_disguise, parts)))

    @property
    def begin(self) -> tuple[int, ...]:
        """What every prompt begins with."""
        return tuple(self._bos)

    def encode_text(
        self, text: str, *, parse_special: bool = False, add_bos: bool = True
    ) -> tuple[int, ...]:
        """The prompt of a text completion.

        Args:
            text: what the model continues.
            parse_special: the text of a control token means that token, and is no plain text.
            add_bos: begin as every prompt of the model does.
        """
        ids = self._tokenizer.encode(text, parse_special=parse_special)
        return self._with_bos(ids) if add_bos else tuple(ids)

    def encode_infill(self, prefix: str, suffix: str) -> tuple[int, ...]:
        """The prompt for what stands between two texts; control tokens in them are plain text.

        Raises:
            InvalidValueError: the model was not taught that.
        """
        tokens = infill_tokens(self._tokenizer.special_tokens)
        parts = (tokens.prefix, prefix, tokens.suffix, suffix, tokens.middle)
        return self._with_bos(self._tokenizer.encode_parts(part for part in parts if part != ""))

    def _without_disguise(self, part: int | str) -> int | str:
        return self._disguise.take_off(part) if isinstance(part, str) else part

    def _with_bos(self, ids: list[int]) -> tuple[int, ...]:
        starts_with_bos = ids[:1] == self._bos
        return tuple(ids if starts_with_bos else self._bos + ids)


class _Disguise:
    """Makes the text of control tokens unrecognizable while a template works with it.

    The first character of each occurrence is replaced by a lone surrogate that stands for it. No
    well-formed text contains those, so user text can neither contain nor fake one; and the length
    of the text, its other characters and thus what templates ask of it stay the same. An occurrence
    that is only begun at the end of a string is replaced too: the next string could complete it.
    """

    def __init__(self, literals: Mapping[str, int]) -> None:
        firsts = sorted({literal[0] for literal in literals})
        if len(firsts) > _MARKS:
            raise ModelLoadError(
                f"The control tokens start with {len(firsts)} characters; {_MARKS} are supported."
            )
        self._literals = sorted(literals)
        self._on = {ord(first): chr(_FIRST_MARK + i) for i, first in enumerate(firsts)}
        self._off = {_FIRST_MARK + i: first for i, first in enumerate(firsts)}
        self._longest = max(map(len, self._literals), default=0)
        alternatives = any_of(self._literals)
        self._start = re.compile(f"(?={alternatives}).", re.DOTALL) if alternatives else None

    def put_on(self, value: Any, depth: int = 0) -> Any:
        """A copy of a JSON-like value with all its strings disguised, but for `ControlText`."""
        if isinstance(value, MixedText):
            return "".join(map(self.put_on, value.parts))
        if isinstance(value, ControlText):
            return str(value)
        if isinstance(value, str):
            return self._put_on_text(value)
        if depth > _MAX_DEPTH:
            raise InvalidValueError(f"The messages are nested more than {_MAX_DEPTH} levels deep.")
        if isinstance(value, Mapping):
            return {self.put_on(key): self.put_on(item, depth + 1) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.put_on(item, depth + 1) for item in value]
        return value

    def take_off(self, text: str) -> str:
        """The text as it was."""
        return text.translate(self._off)

    def _put_on_text(self, text: str) -> str:
        text = _LONE_SURROGATE.sub("\ufffd", text)
        if self._start is None:
            return text
        text = self._start.sub(lambda match: match.group().translate(self._on), text)
        return self._put_on_end(text)

    def _put_on_end(self, text: str) -> str:
        # A template may strip the text, so what counts as its end is before the spaces.
        end = len(text.rstrip())
        for start in range(max(end - self._longest + 1, 0), end):
            if ord(text[start]) in self._on and self._begins(text[start:end]):
                text = text[:start] + text[start].translate(self._on) + text[start + 1 :]
        return text

    def _begins(self, text: str) -> bool:
        index = bisect_left(self._literals, text)
        return index < len(self._literals) and self._literals[index].startswith(text)


def _up_to_end_mark(prompt: str) -> str:
    before, mark, _ = prompt.rpartition(_END_MARK)
    if not mark:
        raise ChatTemplateError("The chat template does not show the last message as it is.")
    return before


def _with_flat_content(message: Mapping[str, Any]) -> Mapping[str, Any]:
    content = message.get("content", "")
    if isinstance(content, str):
        return message
    return {**message, "content": _flat(content)}


def _flat(content: Any) -> str:
    if content is None:
        return ""
    if not isinstance(content, Sequence):
        raise _not_text(type(content).__name__)
    return "".join(map(_text_of_part, content))


def _text_of_part(part: Any) -> str:
    if isinstance(part, str):
        return part
    text = part.get("text") if isinstance(part, Mapping) else None
    if not isinstance(text, str) or part.get("type", "text") != "text":
        kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
        raise _not_text(str(kind))
    return text


def _not_text(kind: str) -> InvalidValueError:
    return InvalidValueError(
        f"Content of type {kind[:60]!r} is not supported; the model reads text only.",
        param="messages",
    )
