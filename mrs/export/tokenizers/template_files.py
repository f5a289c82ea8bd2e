"""The chat templates that a Hugging Face folder holds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mrs.errors import CheckpointError, CorruptCheckpointError
from mrs.export.checkpoints.json_section import JsonSection, read_json
from mrs.export.tokenizers.small_file import read_text

MAX_TEMPLATE_BYTES = 1 << 20
TEMPLATE_FILE = "chat_template.jinja"
LEGACY_FILE = "chat_template.json"
ADDITIONAL_FOLDER = "additional_chat_templates"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True)
class ChatTemplates:
    """The templates of one model.

    Attributes:
        default: the usual one, or None.
        named: others by name (``tool_use``, ``rag``).
        origin: where `default` is from.
    """

    default: str | None = None
    named: Mapping[str, str] = field(default_factory=dict)
    origin: str | None = None


def read_chat_templates(folder: Path, config: JsonSection) -> ChatTemplates:
    """The templates of a folder: of the first of these places that has any.

    1. ``chat_template.jinja``, and ``additional_chat_templates/NAME.jinja`` beside it;
    2. ``tokenizer_config.json``: one template, or a list of named ones;
    3. ``chat_template.json``.

    Args:
        folder: the model.
        config: its ``tokenizer_config.json``.

    Raises:
        CheckpointError: a file is too large, no text, or does not hold what it should.
    """
    if (folder / TEMPLATE_FILE).exists() or (folder / ADDITIONAL_FOLDER).is_dir():
        return _from_files(folder)
    if config.has("chat_template"):
        return templates_of(config.values["chat_template"], config.file)
    if (folder / LEGACY_FILE).exists():
        values = read_json(folder / LEGACY_FILE, MAX_TEMPLATE_BYTES).values
        return templates_of(values.get("chat_template"), LEGACY_FILE)
    return ChatTemplates()


def templates_of(value: Any, origin: str) -> ChatTemplates:
    """One template, or a list of ``{"name": ..., "template": ...}``.

    Raises:
        CorruptCheckpointError: it is neither.
    """
    if value is None or value == "":
        return ChatTemplates()
    if isinstance(value, str):
        return ChatTemplates(value, {}, origin)
    return named_templates(dict(map(_pair, _list(value, origin))), origin)


def named_templates(texts: Mapping[str, str], origin: str) -> ChatTemplates:
    """Templates of which the one called ``default`` is the usual one; empty ones do not count.

    Without a ``default`` a single one is it; of several none is, unless it is named at export.

    Raises:
        CheckpointError: a name cannot be the name of a file.
    """
    templates = {name: text for name, text in texts.items() if text}
    for name in templates:
        if not _NAME.fullmatch(name):
            raise CheckpointError(f"The chat template {name!r} has a name that no file can have.")
    usual = "default" if "default" in templates or len(templates) != 1 else next(iter(templates))
    others = {name: text for name, text in templates.items() if name != usual}
    default = templates.get(usual)
    suffix = "" if usual == "default" else f" ({usual})"
    return ChatTemplates(default, others, None if default is None else origin + suffix)


def _from_files(folder: Path) -> ChatTemplates:
    templates = {
        path.stem: read_text(path, MAX_TEMPLATE_BYTES)
        for path in sorted((folder / ADDITIONAL_FOLDER).glob("*.jinja"))
    }
    if (folder / TEMPLATE_FILE).exists():
        templates["default"] = read_text(folder / TEMPLATE_FILE, MAX_TEMPLATE_BYTES)
        return named_templates(templates, TEMPLATE_FILE)
    return named_templates(templates, ADDITIONAL_FOLDER)


def _list(value: Any, origin: str) -> list[Any]:
    if not isinstance(value, list):
        raise CorruptCheckpointError(f"{origin}: chat_template is neither a text nor a list.")
    return value


def _pair(entry: Any) -> tuple[str, str]:
    if isinstance(entry, dict):
        name, template = entry.get("name"), entry.get("template")
        if isinstance(name, str) and isinstance(template, str):
            return name, template
    raise CorruptCheckpointError("An entry of chat_template has no name or no template.")
