"""What `mrs serve` tells when it is ready."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mrs.server.model_source import RepositoryModel
    from mrs.server.served_model import ModelDescription


class Announcement:
    """How to use the server.

    Args:
        url: where it is.
        sources: its models, the default first.
        first: the default one as it was loaded.
        slots: answers that each generates at once.
        needs_key: clients must send a key.
    """

    def __init__(
        self,
        url: str,
        sources: Sequence[RepositoryModel],
        first: ModelDescription,
        slots: int,
        *,
        needs_key: bool,
    ) -> None:
        self._url = url
        self._sources = sources
        self._first = first
        self._slots = slots
        self._needs_key = needs_key

    def for_people(self) -> None:
        """Say it on stderr."""
        from mrs.cli.console import plural, printable, stderr_console

        first = self._sources[0].version.reference
        others = ", ".join(source.version.reference for source in self._sources[1:])
        more = f"\nLoaded when they are asked for: {printable(others)}\n" if others else ""
        if self._first.kind == "embedding":
            facts, example = f"texts of up to {self._first.max_model_len} tokens", self._vectors()
        elif self._first.kind == "reranker":
            facts, example = f"pairs of up to {self._first.max_model_len} tokens", self._ranking()
        else:
            slots = plural(self._slots, "slot")
            facts, example = f"{self._first.max_model_len} tokens of context, {slots}", self._chat()
        stderr_console().print(
            f"\n{printable(first)} is ready at {self._url} ({facts})\n{more}\n{example}\n"
            f"Documentation: {self._url}/docs   Stop: Ctrl-C\n"
        )

    def _chat(self) -> str:
        return f"""\
  curl {self._url}/v1/chat/completions -H 'Content-Type: application/json'{self._header} \\
    -d '{{"messages": [{{"role": "user", "content": "Hello!"}}], "stream": true}}'

  from openai import OpenAI
  client = OpenAI(base_url="{self._url}/v1", api_key="{self._key}")
  messages = [{{"role": "user", "content": "Hello!"}}]
  answer = client.chat.completions.create(model="{self._first.name}", messages=messages)
  print(answer.choices[0].message.content)
"""

    def _vectors(self) -> str:
        return f"""\
  curl {self._url}/v1/embeddings -H 'Content-Type: application/json'{self._header} \\
    -d '{{"input": ["a cat", "a dog"]}}'

  from openai import OpenAI
  client = OpenAI(base_url="{self._url}/v1", api_key="{self._key}")
  vectors = client.embeddings.create(model="{self._first.name}", input=["a cat", "a dog"])
  print(vectors.data[0].embedding)
"""

    def _ranking(self) -> str:
        return f"""\
  curl {self._url}/v1/rerank -H 'Content-Type: application/json'{self._header} \\
    -d '{{"query": "Which animal barks?", "documents": ["A cat.", "A dog."]}}'
"""

    @property
    def _header(self) -> str:
        return " -H 'Authorization: Bearer YOUR_KEY'" if self._needs_key else ""

    @property
    def _key(self) -> str:
        return "YOUR_KEY" if self._needs_key else "none"

    def as_json(self) -> None:
        """Write one line of JSON to stdout."""
        first = self._sources[0]
        event = {
            "event": "ready",
            "url": self._url,
            "base_url": f"{self._url}/v1",
            "model": self._first.name,
            "models": [source.description.name for source in self._sources],
            "reference": first.version.reference,
            "max_model_len": self._first.max_model_len,
            "slots": self._slots,
            "pid": os.getpid(),
        }
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()
