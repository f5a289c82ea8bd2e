"""A small Hub on this machine: repositories, revisions, gates, and connections that break."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class FakeHub:
    """What the server holds, and what it was asked for.

    Attributes:
        repositories: files by name -> bytes, by ``org/name``.
        commits: the commit of each revision.
        gated: repositories that need the token ``hf_good``.
        large: endings of files that are kept as LFS objects, with a stated digest.
        lies: stated digests that replace the true ones, by file name.
        sizes: stated sizes that replace the true ones, by file name.
        breaks: after how many bytes the next GET of a file breaks off, by name.
        status: answers every request with this status, if set.
        knows_ranges: whether a part of a file may be asked for.
        requests: method and path of each request.
        ranges: the parts that were asked for.
    """

    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    commits: dict[str, str] = field(default_factory=lambda: {"main": COMMIT})
    gated: set[str] = field(default_factory=set)
    large: tuple[str, ...] = (".safetensors", ".gguf")
    lies: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    breaks: dict[str, int] = field(default_factory=dict)
    status: int | None = None
    knows_ranges: bool = True
    requests: list[tuple[str, str]] = field(default_factory=list)
    ranges: list[str] = field(default_factory=list)

    def fetched(self) -> list[str]:
        """Names of the files whose bytes were asked for."""
        return [
            path.partition("/resolve/")[2].partition("/")[2]
            for method, path in self.requests
            if method == "GET" and "/resolve/" in path
        ]

    def digest(self, name: str, data: bytes) -> str:
        """The digest that the server states."""
        return self.lies.get(name, hashlib.sha256(data).hexdigest())


@contextmanager
def serve(hub: FakeHub) -> Iterator[str]:
    """Serve on a free port of this machine; yields the address."""
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def log_message(self, *args: object) -> None:
        pass

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append((self.command, path))
        if self.hub.status is not None:
            return self._send(self.hub.status, b"{}")
        parts = path.strip("/").split("/")
        is_api = parts[:2] == ["api", "models"]
        repository = "/".join(parts[2:4] if is_api else parts[:2])
        rest = parts[4:] if is_api else parts[2:]
        if repository not in self.hub.repositories:
            return self._send(401, b"{}", {"X-Error-Code": "RepoNotFound"})
        if repository in self.hub.gated and self.headers["Authorization"] != "Bearer hf_good":
            return self._send(403, b"{}", {"X-Error-Code": "GatedRepo"})
        commit = self.hub.commits.get(rest[1], rest[1])
        if commit not in {COMMIT, *self.hub.commits.values()}:
            return self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        if is_api:
            return self._send(200, json.dumps(self._model(repository, commit)).encode())
        return self._file(repository, commit, "/".join(rest[2:]))

    def _model(self, repository: str, commit: str) -> dict[str, object]:
        siblings = []
        for name, data in self.hub.repositories[repository].items():
            size = self.hub.sizes.get(name, len(data))
            entry: dict[str, object] = {"rfilename": name, "size": size, "blobId": "0" * 40}
            if name.endswith(self.hub.large):
                sha256 = self.hub.digest(name, data)
                entry["lfs"] = {"sha256": sha256, "size": size, "pointerSize": 134}
            siblings.append(entry)
        return {"id": repository, "modelId": repository, "sha": commit, "siblings": siblings}

    def _file(self, repository: str, commit: str, name: str) -> None:
        data = self.hub.repositories[repository].get(name)
        if data is None:
            self._send(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit})
            return
        is_large = name.endswith(self.hub.large)
        etag = self.hub.digest(name, data) if is_large else hashlib.sha1(data).hexdigest()
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
        start = 0
        if (asked := self.headers["Range"]) and self.hub.knows_ranges:
            self.hub.ranges.append(asked)
            start = int(asked.removeprefix("bytes=").partition("-")[0])
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        rest = data[start:]
        at = self.hub.breaks.pop(name, None) if self.command == "GET" else None
        self._send(206 if start else 200, rest, headers, break_at=at)

    def _send(
        self,
        status: int,
        body: bytes,
        headers: dict[str, str] | None = None,
        break_at: int | None = None,
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(body if break_at is None else body[:break_at])
        if break_at is not None:
            self.close_connection = True
