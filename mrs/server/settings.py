"""What a server can be told about itself."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from mrs.server.access_keys import AccessPolicy

LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
MIB = 1024 * 1024


@dataclass(frozen=True)
class RequestLimits:
    """How many things of a kind one request may hold.

    Attributes:
        messages: messages of a conversation, or items of an input.
        tools: tools, or functions.
        choices: answers to one prompt.
        stops: stop strings.
        prompts: prompts or texts of one request.
        schema_bytes: the largest JSON schema, and all schemas of the tools together.
    """

    messages: int = 4096
    tools: int = 128
    choices: int = 16
    stops: int = 16
    prompts: int = 2048
    schema_bytes: int = 256 * 1024


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
        repository: folder of the models, for the doctor to look at.
        read_timeout: seconds that a body may take to arrive.
        request_timeout: seconds that an answer may take; None for any.
        limits: how many things of a kind one request may hold.
        access: keys, and what needs one.
        cors_origins: web pages that may use the server; ``*`` for any.
        access_log: write a line for each request.
        log_payloads: write the bodies of requests, too.
        metrics: answer ``GET /metrics``.
        tracing: make a span of each request.
    """

    allowed_hosts: frozenset[str] | None = LOOPBACK_HOSTS
    max_body_bytes: int = 32 * MIB
    keep_alive_interval: float = 10.0
    inline_body_bytes: int = 4096
    responses_db: Path | None = None
    responses_max_age: float = 30 * 24 * 3600.0
    responses_max_bytes: int = 1024 * MIB
    repository: Path | None = None
    read_timeout: float = 60.0
    request_timeout: float | None = None
    limits: RequestLimits = field(default_factory=RequestLimits)
    access: AccessPolicy = field(default_factory=AccessPolicy)
    cors_origins: tuple[str, ...] = ()
    access_log: bool = True
    log_payloads: bool = False
    metrics: bool = True
    tracing: bool = False


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
