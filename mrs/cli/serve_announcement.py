"""What `mrs serve` tells when it is ready."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mrs.server.model_source import RepositoryModel


class Announcement:
    """How to use the server.

    Args:
        url: where it is.
        sources: its models, the default first.
        slots: answers that each generates at once.
        needs_key: clients must send a key.
    """

    def __init__(
        self, url: str, sources: Sequence[RepositoryModel], slots: int, *, needs_key: bool
    ) -> None:
        self._url = url
        self._sources = sources
        self._slots = slots
        self._needs_key = needs_key

    def for_people(self) -> None:
        """Say it on stderr."""
        from mrs.cli.console import plural, printable, stderr_console

        url, first = self._url, self._sources[0]
        model = first.description
        length, slots = model.max_model_len, plural(self._slots, "slot")
        others = ", ".join(source.version.reference for source in self._sources[1:])
        more = f"\nLoaded when they are asked for: {printable(others)}\n" if others else ""
        header = " -H 'Authorization: Bearer YOUR_KEY'" if self._needs_key else ""
        key = "YOUR_KEY" if self._needs_key else "none"
        stderr_console().print(
            f"""
{printable(first.version.reference)} is ready at {url} ({length} tokens of context, {slots})
{more}
  curl {url}/v1/chat/completions -H 'Content-Type: application/json'{header} \\
    -d '{{"messages": [{{"role": "user", "content": "Hello!"}}], "stream": true}}'

  from openai import OpenAI
  client = OpenAI(base_url="{url}/v1", api_key="{key}")
  messages = [{{"role": "user", "content": "Hello!"}}]
  answer = client.chat.completions.create(model="{model.name}", messages=messages)
  print(answer.choices[0].message.content)

Documentation: {url}/docs   Stop: Ctrl-C
"""
        )

    def as_json(self) -> None:
        """Write one line of JSON to stdout."""
        first = self._sources[0]
        event = {
            "event": "ready",
            "url": self._url,
            "base_url": f"{self._url}/v1",
            "model": first.description.name,
            "models": [source.description.name for source in self._sources],
            "reference": first.version.reference,
            "max_model_len": first.description.max_model_len,
            "slots": self._slots,
            "pid": os.getpid(),
        }
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()
