"""What a server can be told about itself."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mrs.errors import UsageError

KEEP_ALIVE_VARIABLE = "KEEP_ALIVE_INTERVAL"
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
MIB = 1024 * 1024


@dataclass(frozen=True)
class ServerSettings:
    """Limits and intervals of one server.

    Attributes:
        allowed_hosts: host names, without port, that a ``Host`` header may hold; None allows any.
            On a loopback address the list is what stops a web page from reaching the server
            through a name that resolves to 127.0.0.1 (DNS rebinding).
        max_body_bytes: largest request body; counted while it is read.
        keep_alive_interval: seconds of silence after which a stream gets a comment line.
        inline_body_bytes: bodies up to this size are parsed, rendered and tokenized on the event
            loop; larger ones in a thread, so that they stall no stream.
    """

    allowed_hosts: frozenset[str] | None = LOOPBACK_HOSTS
    max_body_bytes: int = 32 * MIB
    keep_alive_interval: float = 10.0
    inline_body_bytes: int = 4096


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches a numeric address (127.0.0.0/8 or ::1)."""
    return ipaddress.ip_address(address).is_loopback


def allowed_hosts(host: str, address: str, extra: Iterable[str] = ()) -> frozenset[str] | None:
    """Choose the host names that a server answers for.

    On a network, whoever connects may know the server by any name, so that the check is off
    unless names are given.

    Args:
        host: what the user asked to listen on.
        address: the numeric address that it turned out to be.
        extra: more names, as the user wrote them.
    """
    extra = [name.strip().lower() for name in extra]
    if not extra and not is_loopback(address):
        return None
    return LOOPBACK_HOSTS.union(extra, (_in_a_url(host.lower()), _in_a_url(address)))


def _in_a_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def keep_alive_interval(environment: Mapping[str, str]) -> float:
    """Read the keep-alive interval, in seconds, from ``KEEP_ALIVE_INTERVAL`` (milliseconds).

    Raises:
        UsageError: the variable is set to anything but a whole number above zero.
    """
    text = environment.get(KEEP_ALIVE_VARIABLE, "").strip()
    if not text:
        return ServerSettings.keep_alive_interval
    # 12 digits are 30 years: longer numbers are mistakes, and int() of them may itself be slow.
    if not (text.isascii() and text.isdigit() and len(text) <= 12 and int(text) > 0):
        raise UsageError(
            f"{KEEP_ALIVE_VARIABLE} is {text[:40]!r}, which is not a whole number of milliseconds "
            "above zero.",
            hint=f"Set it to a number such as 10000 (ten seconds), or unset {KEEP_ALIVE_VARIABLE}.",
        )
    return int(text) / 1000
