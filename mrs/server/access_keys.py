"""Who may use the server: keys, kept as digests and compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from mrs.errors import UsageError

_DIGEST = re.compile(r"sha256:([0-9a-fA-F]{64})")
_LARGEST_FILE = 1024 * 1024
_PRINCIPAL_LENGTH = 16


@dataclass(frozen=True)
class AccessKey:
    """A key that somebody may have.

    Attributes:
        digest: SHA-256 of the key.
        admin: it also opens the routes of administration.
    """

    digest: bytes
    admin: bool = False

    @property
    def principal(self) -> str:
        """A stable name for whoever has the key, which tells nothing of it."""
        named = hashlib.sha256(b"mrs principal\0" + self.digest)
        return "key-" + named.hexdigest()[:_PRINCIPAL_LENGTH]


def access_key(text: str, *, admin: bool = False) -> AccessKey:
    """A key as a user writes it: itself, or ``sha256:`` and its digest in hex."""
    given = _DIGEST.fullmatch(text)
    digest = bytes.fromhex(given[1]) if given else hashlib.sha256(text.encode()).digest()
    return AccessKey(digest, admin)


class KeyRing:
    """All keys of a server.

    Args:
        keys: may hold a key twice; it is one of administration if it is that once.
    """

    def __init__(self, keys: Iterable[AccessKey] = ()) -> None:
        # The last one of a digest counts: keys of administration come last.
        ordered = sorted(keys, key=lambda key: key.admin)
        self._keys = tuple({key.digest: key for key in ordered}.values())

    def __bool__(self) -> bool:
        return bool(self._keys)

    @property
    def has_admin(self) -> bool:
        """Whether there is a key of administration."""
        return any(key.admin for key in self._keys)

    def find(self, presented: bytes) -> AccessKey | None:
        """The key that was presented, if it is one; takes as long whichever it is."""
        digest = hashlib.sha256(presented).digest()
        found = None
        for key in self._keys:
            if hmac.compare_digest(key.digest, digest):
                found = key
        return found


@dataclass(frozen=True)
class AccessPolicy:
    """Who may do what.

    Attributes:
        keys: those that the server knows; without any, everybody may ask.
        public_health: health and documentation need no key.
        open_admin: administration needs no key of its own, as only this machine reaches the
            server.
    """

    keys: KeyRing = field(default_factory=KeyRing)
    public_health: bool = True
    open_admin: bool = True


def read_keys(file: Path, *, admin: bool = False) -> list[AccessKey]:
    """The keys of a file: one on each line, ``#`` begins a comment.

    Raises:
        UsageError: the file cannot be read, or holds no key.
    """
    try:
        if file.stat().st_size > _LARGEST_FILE:
            raise UsageError(f"{file} is too large for a file of keys.")
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UsageError(f"The keys in {file} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is no text.") from error
    keys = [line.partition("#")[0].strip() for line in lines]
    for number, key in enumerate(keys, 1):
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise UsageError(
                f"Line {number} of {file} is no key: keys have printable ASCII characters and no "
                "spaces."
            )
    if not any(keys):
        raise UsageError(f"{file} holds no key.", hint="Write one on each line.")
    return [access_key(key, admin=admin) for key in keys if key]
