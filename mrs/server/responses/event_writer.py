"""Events of a streamed response as they go over the wire: named and numbered."""

from __future__ import annotations

import secrets
from typing import Any

import orjson

from mrs.server.responses.json_bytes import from_json, to_json

_OBFUSCATED_SIZE = 64


class EventWriter:
    """Renders the events of one response, numbered from 0.

    Args:
        obfuscate: deltas get random characters, so that their size tells nothing of their text.
    """

    def __init__(self, *, obfuscate: bool = False) -> None:
        self._number = 0
        self._obfuscate = obfuscate

    def event(self, kind: str, **fields: Any) -> bytes:
        """One event."""
        number = self._take_number()
        data = to_json({"type": kind, "sequence_number": number, **fields})
        return _frame(kind, data)

    def frame_of_delta(self, kind: str, **fields: Any) -> tuple[bytes, bytes]:
        """What stands before the number, and before the delta, in all events of one kind.

        A stream has an event for each token: only number and text are rendered for each.
        """
        data = to_json({"type": kind, **fields})
        head = _frame(kind, data).removesuffix(b"}\n\n")
        return head + b',"sequence_number":', b',"delta":'

    def delta(self, frame: tuple[bytes, bytes], text: str) -> bytes:
        """An event that adds text."""
        before_number, before_delta = frame
        number = str(self._take_number()).encode("ascii")
        end = b"}\n\n"
        if self._obfuscate:
            end = b',"obfuscation":"' + _noise(text) + b'"' + end
        return before_number + number + before_delta + orjson.dumps(text) + end

    def take_back(self) -> None:
        """Give the number of the last event to another one, since nobody has seen it."""
        self._number -= 1

    def _take_number(self) -> int:
        number = self._number
        self._number += 1
        return number


def obfuscated(frame: bytes) -> bytes:
    """An event as it was sent, with random characters if it adds text and had none."""
    name, _, data = frame.partition(b"\ndata: ")
    if not name.endswith(b".delta") or b'"obfuscation":' in data:
        return frame
    noise = _noise(from_json(data)["delta"])
    return frame.removesuffix(b"}\n\n") + b',"obfuscation":"' + noise + b'"}\n\n'


def _noise(text: str) -> bytes:
    """As many characters as a text lacks to the next multiple of a fixed size."""
    missing = -len(text) % _OBFUSCATED_SIZE
    return secrets.token_urlsafe(missing)[:missing].encode("ascii")


def _frame(kind: str, data: bytes) -> bytes:
    return b"event: " + kind.encode("ascii") + b"\ndata: " + data + b"\n\n"
