"""One model's chat template."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from jinja2 import Template, meta
from jinja2.exceptions import TemplateSyntaxError

from mrs.chat_template.budget import TemplateLimitError, render_budget
from mrs.chat_template.sandbox import GLOBALS, RefusalError, TemplateSandbox
from mrs.chat_template.syntax import meter
from mrs.errors import ChatTemplateError

MAX_SOURCE_CHARACTERS = 256 * 1024
MAX_OUTPUT_CHARACTERS = 32 * 1024 * 1024
MAX_STEPS = 2_000_000

_FILE_NAME = "<chat template>"
RESERVED = frozenset({"messages", "add_generation_prompt", "bos_token", "eos_token", *GLOBALS})
"""Names that templates find, and that nobody can set."""

_HINT = "The template comes with the model; a corrected one has to be exported with it."


class ChatTemplate:
    """A compiled template; rendering it is safe whatever it says, and thread-safe.

    Args:
        source: Jinja, as models carry it.
        bos_token: text of the begin-of-sequence token, for templates that write it.
        eos_token: text of the end-of-sequence token.

    Raises:
        ChatTemplateError: the source is too long, does not compile, or uses what is not available.
    """

    def __init__(self, source: str, *, bos_token: str = "", eos_token: str = "") -> None:
        self.source = source
        self._variables: frozenset[str] | None = None
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}
        self._template = _compile(source)

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        **variables: Any,
    ) -> str:
        """The prompt for a conversation.

        Args:
            messages: mappings with ``role`` and ``content`` and whatever else the template knows.
            add_generation_prompt: end with the start of the assistant's turn.
            variables: more names for the template (``tools``, ``enable_thinking``, ...).

        Raises:
            ChatTemplateError: the template refuses the messages (in its own words), fails on them,
                or does more work than it may.
        """
        if taken := RESERVED & variables.keys():
            raise ChatTemplateError(f"The template variable {min(taken)!r} cannot be set.")
        names = {
            "tools": None,
            "documents": None,
            **variables,
            **self._tokens,
            "messages": messages,
            "add_generation_prompt": add_generation_prompt,
        }
        with _described_failures(), render_budget(MAX_STEPS):
            return _joined(self._template.generate(names))

    @property
    def variables(self) -> frozenset[str]:
        """The names that it looks for and that `render` may be given."""
        if self._variables is None:
            found = meta.find_undeclared_variables(TemplateSandbox().parse(self.source))
            self._variables = frozenset(found) - RESERVED
        return self._variables

    def try_out(self) -> None:
        """Render one turn of a user, to learn of a template that no request could use.

        A refusal in the template's own words is no failure: it may ask for other messages.

        Raises:
            ChatTemplateError: it fails, or does more work than it may.
        """
        try:
            self.render([{"role": "user", "content": "Hello!"}])
        except ChatTemplateError as error:
            if not isinstance(error.__cause__, RefusalError):
                raise


def _compile(source: str) -> Template:
    if len(source) > MAX_SOURCE_CHARACTERS:
        raise ChatTemplateError(
            f"The chat template has {len(source)} characters; {MAX_SOURCE_CHARACTERS} are allowed.",
            hint=_HINT,
        )
    try:
        sandbox = TemplateSandbox()
        tree = sandbox.parse(source)
        meter(tree)
        tree.set_environment(sandbox)
        code = sandbox.compile(tree, filename=_FILE_NAME)
        return Template.from_code(sandbox, code, sandbox.globals)
    except TemplateSyntaxError as error:
        raise ChatTemplateError(
            f"The chat template does not compile: line {error.lineno}: {_sentence(error.message)}.",
            hint=_HINT,
        ) from error
    except (RecursionError, SyntaxError, MemoryError) as error:  # Python's own limits
        raise ChatTemplateError(
            "The chat template does not compile: it is nested too deeply.", hint=_HINT
        ) from error
    except Exception as error:  # what else Python may think of generated code
        raise ChatTemplateError(
            f"The chat template does not compile: {_sentence(error)}.", hint=_HINT
        ) from error


def _joined(chunks: Iterator[str]) -> str:
    parts = []
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > MAX_OUTPUT_CHARACTERS:
            raise TemplateLimitError(f"it writes more than {MAX_OUTPUT_CHARACTERS} characters")
        parts.append(chunk)
    return "".join(parts)


@contextmanager
def _described_failures() -> Iterator[None]:
    try:
        yield
    except RefusalError as error:
        raise ChatTemplateError(
            str(error) or "The chat template refuses these messages."
        ) from error
    except TemplateLimitError as error:
        raise ChatTemplateError(f"The chat template was stopped: {error}.", hint=_HINT) from error
    except Exception as error:  # what a template can raise has no bounds
        line = _failing_line(error)
        where = f" in line {line}" if line else ""
        raise ChatTemplateError(
            f"The chat template fails on these messages{where}: {_sentence(error)}."
        ) from error


def _failing_line(error: Exception) -> int | None:
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == _FILE_NAME
    ]
    return lines[-1] if lines else None


def _sentence(error: Exception | str | None) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    text = " ".join(str(error).split())[:300].rstrip(".")
    return text or type(error).__name__
