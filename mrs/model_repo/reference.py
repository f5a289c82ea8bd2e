"""Model references: ``name`` (the newest version), ``name:3``, or the folder of one version."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from mrs.errors import InvalidReferenceError

NAME_RULE = "a-z, 0-9, '.', '_' and '-', starting with a letter or digit, at most 96 characters"

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,95}")
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")


@dataclass(frozen=True)
class ModelReference:
    """A model by name, and one of its versions or (``number`` None) the newest."""

    name: str
    number: int | None = None

    def __str__(self) -> str:
        return self.name if self.number is None else f"{self.name}:{self.number}"


def is_name(text: str) -> bool:
    """Whether ``text`` may be the name of a model."""
    return _NAME.fullmatch(text) is not None


def parse_number(text: str) -> int | None:
    """The version number that ``text`` spells (``1`` and up, no leading zero), or None."""
    return int(text) if _NUMBER.fullmatch(text) else None


def check_name(name: str) -> str:
    """Return ``name`` if it may be the name of a model.

    Raises:
        InvalidReferenceError: it breaks `NAME_RULE`.
    """
    if is_name(name):
        return name
    proposal = name_from(name)
    hint = f"Names consist of {NAME_RULE}."
    raise InvalidReferenceError(
        f"{name!r} is not a model name.",
        hint=f"{hint} Perhaps: {proposal}" if proposal else hint,
        param="name",
    )


def name_from(text: str) -> str:
    """The nearest model name to free text such as a file's stem; empty if nothing is left."""
    lowered = re.sub(r"[^a-z0-9._-]+", "-", text.lower())
    return re.sub(r"^[^a-z0-9]+", "", lowered)[:96].rstrip("._-")


def parse_reference(text: str) -> ModelReference | Path:
    """Tell a name from a folder: whatever holds a ``/``, or is ``.``, ``..`` or ``~``, is a path.

    Raises:
        InvalidReferenceError: the text is neither.
    """
    if "\0" in text:
        raise InvalidReferenceError(f"{text!r} holds a NUL character.", param="reference")
    if "/" in text or text in {".", "..", "~"}:
        return _expanded(text)
    name, colon, version = text.partition(":")
    check_name(name)
    if not colon:
        return ModelReference(name)
    number = parse_number(version)
    if number is None:
        raise InvalidReferenceError(
            f"{version!r} in {text!r} is not a version number.",
            hint=f"Write {name}:1 for version 1, or {name} for the newest version.",
            param="reference",
        )
    return ModelReference(name, number)


def _expanded(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise InvalidReferenceError(
            f"The home folder in {text!r} is unknown.", param="reference"
        ) from error
