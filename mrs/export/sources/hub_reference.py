"""What ``org/name[@revision][:file.gguf]`` asks for."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mrs.errors import UsageError

_PART = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?"
_FORM = re.compile(rf"({_PART}/{_PART})(?:@([^:]*))?(?::(.*))?", re.DOTALL)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_LONGEST = 96
_FILE_ENDINGS = (".gguf", ".safetensors", ".onnx", ".bin", ".pt", ".pth", ".ckpt", ".json")


@dataclass(frozen=True)
class HubReference:
    """A repository of the Hub, and perhaps one GGUF file in it.

    Attributes:
        repository: ``org/name``.
        revision: a branch, tag or commit.
        file: path or base name of a .gguf file, or None for the model in safetensors.
    """

    repository: str
    revision: str = "main"
    file: str | None = None

    @property
    def is_pinned(self) -> bool:
        """Whether the revision is a whole commit id, which always means the same files."""
        return _COMMIT.fullmatch(self.revision) is not None

    def __str__(self) -> str:
        revision = "" if self.revision == "main" else f"@{self.revision}"
        return f"{self.repository}{revision}" + (f":{self.file}" if self.file else "")


def looks_like_hub_reference(text: str) -> bool:
    """Whether ``text`` has the form of a reference and cannot be meant as a path of a file."""
    match = _FORM.fullmatch(text)
    return match is not None and not match[1].lower().endswith(_FILE_ENDINGS)


def parse_hub_reference(text: str) -> HubReference:
    """Parse ``org/name[@revision][:file.gguf]``.

    Raises:
        UsageError: the text is not of this form.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise _malformed(text, "it is not of the form")
    repository, revision, file = match.groups()
    if len(repository) > _LONGEST or "--" in repository or ".." in repository:
        raise _malformed(text, f"{repository[:80]!r} is no name of a repository")
    if revision is not None and not _is_revision(revision):
        raise _malformed(text, f"{revision[:80]!r} is no revision")
    if file is not None and not file.lower().endswith(".gguf"):
        raise _malformed(text, f"{file[:80]!r} is no name of a .gguf file")
    return HubReference(repository, revision or "main", file)


def _is_revision(text: str) -> bool:
    """Branches, tags and commits of git; refused is what could leave a folder or hide."""
    plain = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/+-]{0,199}", text)
    return plain is not None and ".." not in text and "//" not in text and text[-1] not in "/."


def _malformed(text: str, problem: str) -> UsageError:
    return UsageError(
        f"The source {text[:120]!r} is malformed: {problem}.",
        hint="Write ORG/NAME, ORG/NAME@REVISION, or ORG/NAME:FILE.gguf.",
    )
