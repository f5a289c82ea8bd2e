"""What ``pypi:NAME==VERSION:MEMBER`` asks for.

Names follow PEP 503 and versions PEP 440; nothing else is let through to pip.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mrs.errors import UsageError

_LONGEST = 100
_FORM = "Write pypi:NAME==VERSION, or pypi:NAME for the newest version."

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?", re.IGNORECASE | re.ASCII)
_VERSION = re.compile(
    r"""
    v? (?:(?P<epoch>[0-9]+)!)?
    (?P<release>[0-9]+(?:\.[0-9]+)*)
    (?:[-_.]?(?P<pre>alpha|beta|preview|pre|rc|a|b|c)[-_.]?(?P<pre_number>[0-9]*))?
    (?:-(?P<bare_post>[0-9]+)|[-_.]?(?P<post>post|rev|r)[-_.]?(?P<post_number>[0-9]*))?
    (?:[-_.]?(?P<dev>dev)[-_.]?(?P<dev_number>[0-9]*))?
    (?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?
    """,
    re.IGNORECASE | re.ASCII | re.VERBOSE,
)
_PRE_RELEASES = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}


@dataclass(frozen=True)
class PackageRequirement:
    """A package that holds a model.

    Attributes:
        name: normalized project name.
        version: normalized version, or None for the newest.
        member: path or base name of the .gguf file in the wheel, or None for the only one.
    """

    name: str
    version: str | None = None
    member: str | None = None

    def __str__(self) -> str:
        return self.name if self.version is None else f"{self.name}=={self.version}"


def parse_package_requirement(text: str) -> PackageRequirement:
    """Parse what follows ``pypi:``.

    Raises:
        UsageError: the text is not of the form ``NAME[==VERSION][:MEMBER]``.
    """
    package, colon, member = text.partition(":")
    name, pin, version = package.partition("==")
    name, version = name.strip(), version.strip()
    if "[" in package:
        raise _malformed(text, "extras bring no model", _FORM)
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        operator = re.search(r"[<>~!=@;]", name)
        problem = "only == can pin a version" if operator else f"{name[:80]!r} is no package name"
        raise _malformed(text, problem, _FORM)
    normalized = normalize_version(version) if pin else None
    if pin and normalized is None:
        raise _malformed(text, f"{version[:80]!r} is no version", _FORM)
    if colon and not member:
        raise _malformed(text, "the file name after the second colon is empty", _FORM)
    return PackageRequirement(normalize_name(name), normalized, member or None)


def normalize_name(name: str) -> str:
    """A project name as PEP 503 compares it: lower case, runs of ``-_.`` made one ``-``."""
    return re.sub(r"[-_.]+", "-", name).lower()


def normalize_version(text: str) -> str | None:
    """A version in PEP 440's normal form, or None if it is no version."""
    match = _VERSION.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        return None
    part = match.groupdict()
    normal = f"{int(part['epoch'])}!" if int(part["epoch"] or 0) else ""
    normal += ".".join(str(int(number)) for number in part["release"].split("."))
    if part["pre"]:
        kind = part["pre"].lower()
        normal += f"{_PRE_RELEASES.get(kind, kind)}{int(part['pre_number'] or 0)}"
    if part["bare_post"] or part["post"]:
        normal += f".post{int(part['bare_post'] or part['post_number'] or 0)}"
    if part["dev"]:
        normal += f".dev{int(part['dev_number'] or 0)}"
    if part["local"]:
        normal += "+" + _normal_local(part["local"])
    return normal


def version_key(normal: str) -> str:
    """The same text for normalized versions that PEP 440 holds equal: ``1.0.0`` and ``1``."""
    release = re.match(r"(?:[0-9]+!)?[0-9]+(?:\.[0-9]+)*", normal)
    if release is None:
        return normal
    return re.sub(r"(?:\.0)+$", "", release[0]) + normal[release.end() :]


def _normal_local(local: str) -> str:
    parts = re.split(r"[-_.]", local.lower())
    return ".".join(str(int(part)) if part.isdigit() else part for part in parts)


def _malformed(text: str, problem: str, hint: str) -> UsageError:
    return UsageError(f"The source {'pypi:' + text[:120]!r} is malformed: {problem}.", hint=hint)
