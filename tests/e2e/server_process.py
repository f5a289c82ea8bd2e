"""A real `mrs serve` process for end-to-end tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from openai import OpenAI


@dataclass
class ServerProcess:
    """A server that listens; ``stop`` ends it and returns its exit code."""

    process: subprocess.Popen[str]
    url: str
    clients: list[OpenAI] = field(default_factory=list)
    terminated: bool = False

    @classmethod
    def start(cls, model: Path, log: Path, *options: str) -> ServerProcess:
        """Start and wait for the line that says it is ready."""
        command = [sys.executable, "-m", "mrs", "serve", str(model), "--json"]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        environment.setdefault("MRS_RESPONSES_DB", ":memory:")
        with log.open("w") as errors:
            process = subprocess.Popen(
                [*command, "--port", "0", *options],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment,
            )
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise AssertionError(f"the server ended at once: {log.read_text()}")
        return cls(process, json.loads(line)["url"])

    def client(self) -> OpenAI:
        """The real openai client, without retries that would hide an error."""
        client = OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0, timeout=120)
        self.clients.append(client)
        return client

    def health(self) -> dict[str, object]:
        """What /health says."""
        return httpx.get(f"{self.url}/health", timeout=30).json()  # type: ignore[no-any-return]

    def terminate(self) -> None:
        """Send SIGTERM; a second one would end the server at once."""
        self.terminated = True
        self.process.send_signal(signal.SIGTERM)

    def stop(self) -> int:
        """End the server and return its exit code."""
        for client in self.clients:
            client.close()
        if self.process.poll() is None and not self.terminated:
            self.terminate()
        try:
            return self.process.wait(60)
        finally:
            self.process.kill()
            self.process.wait()
            if self.process.stdout is not None:
                self.process.stdout.close()
