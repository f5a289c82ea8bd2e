"""The process that tries grammars: what would kill or stall a server does so here.

llguidance bounds its own work well, but not everywhere: some schemas take minutes or gigabytes,
and a chain of many thousand references overflows the stack, which no exception handler survives.
This file is run as a program and imports nothing of mrs.

Requests and replies are frames: four bytes of length, big-endian, and JSON. The first request is
the vocabulary, and all others are grammars. A reply is ``{"error": null}`` or has a message.
"""

from __future__ import annotations

import contextlib
import json
import resource
import struct
import sys
from typing import Any, BinaryIO


def main() -> None:
    """Serve until the input ends."""
    import llguidance

    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    setup = _receive(requests)
    if setup is None:
        return
    _limit(resource.RLIMIT_AS, setup["bytes"])
    _limit(resource.RLIMIT_STACK, setup["stack"])
    _limit(resource.RLIMIT_CORE, 0)
    limits = llguidance.LLParserLimits(**setup["limits"])
    vocabulary: Any = _Bytes(setup)
    tokenizer = llguidance.LLTokenizer(vocabulary, eos_token=setup["eos"], slices=[])
    while (grammar := _receive(requests)) is not None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        _limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime + setup["seconds"]) + 2)
        _send(replies, {"error": _tried(llguidance, tokenizer, grammar, limits)})


def _tried(llguidance: Any, tokenizer: Any, grammar: str, limits: Any) -> str | None:
    try:
        matcher = llguidance.LLMatcher(tokenizer, grammar, log_level=0, limits=limits)
        if not matcher.is_error():
            matcher.compute_bitmask()
        error: str = matcher.get_error()
        del matcher  # That it can be freed on this stack is part of the trial.
    except BaseException as panic:  # a panic of the library is no Exception
        return f"{type(panic).__name__}: {panic}"
    return error or None


class _Bytes:
    """A vocabulary of the right size, with the special tokens of the model and all single bytes."""

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, setup: dict[str, Any]) -> None:
        special = {int(index): text for index, text in setup["special"].items()}
        self.tokens = [b""] * setup["size"]
        for index, text in special.items():
            self.tokens[index] = text.encode()
        free = [index for index in range(setup["size"]) if index not in special][:256]
        for byte, index in enumerate(free):
            self.tokens[index] = bytes([byte])
        self._ids = free
        self.special_token_ids = list(special)
        self.eos_token_id = setup["eos"][0]

    def __call__(self, text: str) -> list[int]:
        return [self._ids[byte] for byte in text.encode() if byte < len(self._ids)]


def _limit(what: int, value: int) -> None:
    _, hard = resource.getrlimit(what)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(what, (value, hard))


def _receive(stream: BinaryIO) -> Any:
    head = stream.read(4)
    if len(head) < 4:
        return None
    (length,) = struct.unpack(">I", head)
    return json.loads(stream.read(length))


def _send(stream: BinaryIO, value: Any) -> None:
    data = json.dumps(value).encode()
    stream.write(struct.pack(">I", len(data)) + data)
    stream.flush()


if __name__ == "__main__":
    main()
