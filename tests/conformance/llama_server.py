"""A pytest plugin that gives llama.cpp's server tests `mrs serve` where they start llama-server.

It maps llama-server's options to those of mrs and keeps a server for the tests that ask for the
same options. How to use it: docs/conformance.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from requests.structures import CaseInsensitiveDict

MODEL = os.environ["MRS_CONFORMANCE_MODEL"]
EMBEDDER = os.environ["MRS_CONFORMANCE_EMBEDDER"]
REPO = os.environ["MRS_MODEL_REPO"]

_MRS = [sys.executable, "-m", "mrs"]
_WITHOUT_V1 = ("/chat/completions", "/responses")  # llama-server answers at both paths
_KEPT = 4


@dataclass
class _Server:
    process: subprocess.Popen[str]
    port: int


_servers: dict[tuple[str, ...], _Server] = {}


def pytest_configure() -> None:
    """Put our start, stop and URLs into the suite's `utils`, which lies in its folder."""
    sys.path.insert(0, str(Path.cwd()))
    import utils  # type: ignore[import-not-found]

    process: Any = utils.ServerProcess
    make_url = process.make_url
    process.start = _start
    process.stop = lambda self: utils.server_instances.discard(self)
    process.make_url = lambda self, path, host=None: make_url(self, _versioned(path), host)
    make_request = process.make_request

    def request(*arguments: Any, **named: Any) -> Any:
        reply = make_request(*arguments, **named)
        reply.headers = CaseInsensitiveDict(reply.headers)  # as HTTP's names of headers are
        return reply

    process.make_request = request
    if "MRS_CONFORMANCE_ANY_WORDS" in os.environ:
        utils.match_regex = lambda regex, text: True
    utils.ServerPreset.load_all = staticmethod(lambda: None)


@pytest.fixture(scope="session", autouse=True)
def _end_servers() -> Iterator[None]:
    yield
    while _servers:
        _end(next(iter(_servers)))


def _versioned(path: str) -> str:
    return f"/v1{path}" if path.startswith(_WITHOUT_V1) else path


def _start(server: Any, timeout_seconds: int = 0) -> None:
    """Start `mrs serve` with the options of a `ServerProcess`, or take the one that runs."""
    options = tuple(_options(server))
    running = _servers.get(options)
    if running is None or running.process.poll() is not None:
        while len(_servers) >= _KEPT:
            _end(next(iter(_servers)))
        running = _servers[options] = _serve(options)
    server.server_port = running.port
    server.process = running.process


def _options(server: Any) -> Iterator[str]:
    """Those of `mrs serve` that mean what the test set on its server."""
    name = server.model_alias or "llama-test-model"
    model = _exported(server)
    yield from (model, "--repo", REPO, "--accept-any-model", "--alias", f"{name}={model}")
    if server.n_slots:
        yield from ("--max-seqs", str(server.n_slots))
    if server.n_ctx and not server.server_embeddings:
        yield from ("--max-model-len", str(server.n_ctx // (server.n_slots or 1)))
    if server.api_key:
        yield from ("--api-key", server.api_key, "--public-health")
    for origin in _origins(server):
        yield from ("--cors-origin", origin)


def _origins(server: Any) -> list[str]:
    """llama-server lets any page in, unless it has tools: then those of this machine."""
    if server.cors_origins is None and not server.server_tools:
        return ["*"]
    return ["http://localhost", "http://localhost:8080", "http://127.0.0.1"]


def _exported(server: Any) -> str:
    """The name of the model with the chat template of the test; it is exported at first use."""
    if server.server_embeddings:
        return _export(EMBEDDER, "conformance-embedder")
    template = server.chat_template_file or server.chat_template
    if template is None:
        return _export(MODEL, "conformance")
    stem = Path(template).stem.lower()
    name = "conformance-" + "".join(c if c.isalnum() else "-" for c in stem)[:60].strip("-")
    return _export(MODEL, name, "--chat-template", template)


def _export(source: str, name: str, *options: str) -> str:
    if not Path(REPO, name).exists():
        command = [*_MRS, "export", source, "--repo", REPO, "--name", name, "--parity", "never"]
        subprocess.run([*command, *options], check=True, stdout=subprocess.DEVNULL)
    return name


def _serve(options: tuple[str, ...]) -> _Server:
    command = [*_MRS, "serve", *options, "--port", "0", "--json"]
    environment = {**os.environ, "MRS_RESPONSES_DB": ":memory:"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"mrs serve {' '.join(options)} ended with {process.wait()}")
    return _Server(process, int(json.loads(line)["url"].rpartition(":")[2]))


def _end(options: tuple[str, ...]) -> None:
    server = _servers.pop(options)
    server.process.terminate()
    server.process.wait(60)
