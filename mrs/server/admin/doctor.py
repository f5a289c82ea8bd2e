"""Is everything here that a server needs? Each check looks at one thing and changes nothing."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel

import mrs
from mrs.errors import MrsError
from mrs.model_repo.repository import ModelRepository
from mrs.model_repo.verification import verify
from mrs.model_repo.version import BrokenVersion
from mrs.server.admin.system_info import SystemInfo, hf_cache_path, system_info

_HUB = ("huggingface.co", 443)
_HUB_TIMEOUT = 3.0
_OLDEST_PYTHON = (3, 11)
_LITTLE_MEMORY = 1 << 30
_LITTLE_DISK = 10 << 30
_NO_DISK = 512 << 20
_TRUE = frozenset({"1", "true", "yes", "on"})


class CheckStatus(StrEnum):
    """What a check came to."""

    OK = "ok"
    WARN = "warn"
    ERROR = "error"


class Check(BaseModel):
    """One thing that was looked at."""

    name: str
    status: CheckStatus
    message: str
    suggestion: str | None = None


class Report(BaseModel):
    """The machine, and all that was looked at."""

    system: SystemInfo
    checks: list[Check]

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong; warnings do not count."""
        return all(check.status is not CheckStatus.ERROR for check in self.checks)


def diagnose(
    repository: ModelRepository | None,
    *,
    port: int | None = None,
    reach_hub: Callable[[], None] | None = None,
) -> Report:
    """Look at everything.

    Args:
        repository: whose versions are compared with their locks; None for none.
        port: of this machine, that a server is to listen on; None for none.
        reach_hub: raises OSError if the Hugging Face Hub cannot be reached.
    """
    system = system_info()
    checks = [
        check_python(),
        check_runtime(),
        check_processor(system),
        check_quota(system),
        check_memory(system),
        check_clock(time.time()),
        check_hub(reach_hub or _reach_hub),
        check_cache(hf_cache_path()),
    ]
    if repository is not None:
        checks += [check_disk(repository.root), *check_repository(repository)]
    if port is not None:
        checks.append(check_port(port))
    return Report(system=system, checks=checks)


def check_python(version: tuple[int, ...] = tuple(sys.version_info[:3])) -> Check:
    """Python is new enough."""
    shown = ".".join(map(str, version))
    if version < _OLDEST_PYTHON:
        return _error("python", f"Python {shown} is too old.", "Use Python 3.11 or newer.")
    return _ok("python", f"Python {shown}.")


def check_runtime() -> Check:
    """ONNX Runtime can be loaded and is new enough."""
    from mrs.runtime.session_pool import require_runtime

    try:
        version = require_runtime()
    except MrsError as error:
        return _error("onnxruntime", error.message, error.hint)
    return _ok("onnxruntime", f"ONNX Runtime {version}.")


def check_processor(system: SystemInfo) -> Check:
    """The processor has the instructions that make quantized models fast."""
    cpu = system.cpu
    if cpu.architecture not in ("x86_64", "AMD64"):
        return _ok("cpu_extensions", f"{cpu.brand} ({cpu.architecture}).")
    names = ("avx2", "fma", "avx512", "avx512_vnni", "amx")
    found = ", ".join(name for name in names if getattr(cpu, name)) or "no extensions"
    if not cpu.avx2:
        return _warn(
            "cpu_extensions",
            f"{cpu.brand} has no AVX2: models will be slow.",
            "Use a processor made after 2013, or give the virtual machine the host's model.",
        )
    return _ok("cpu_extensions", f"{cpu.brand}: {found}.")


def check_quota(system: SystemInfo) -> Check:
    """How many processors may be used."""
    usable, cores = system.cpu.usable_cores, system.cpu.logical_cores
    if usable < cores:
        return _ok("cpu_quota", f"{usable} of {cores} processors may be used.")
    return _ok("cpu_quota", f"All {cores} processors may be used.")


def check_memory(system: SystemInfo) -> Check:
    """There is memory for a model."""
    free = system.memory.available_bytes
    message = f"{free >> 20} MiB of {system.memory.total_bytes >> 20} MiB are free."
    if 0 < free < _LITTLE_MEMORY:
        return _warn("memory", message, "End other programs, or serve small models.")
    return _ok("memory", message)


def check_disk(folder: Path) -> Check:
    """There is room for exports."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    message = f"{free >> 20} MiB are free for {folder}."
    if free < _NO_DISK:
        return _error("disk_space", message, "Delete versions: mrs models remove.")
    if free < _LITTLE_DISK:
        return _warn("disk_space", message, "Large models may not fit.")
    return _ok("disk_space", message)


def check_repository(repository: ModelRepository) -> Iterable[Check]:
    """Every version is whole, by the sizes of its files."""
    try:
        entries = repository.entries()
    except MrsError as error:
        yield _error("repository", error.message, error.hint)
        return
    broken = 0
    for entry in entries:
        problem = _problem(entry.error) if isinstance(entry, BrokenVersion) else None
        if not isinstance(entry, BrokenVersion) and not verify(entry, full=False).ok:
            problem = "its files are not those of its lock"
        if problem is not None:
            broken += 1
            yield _error(
                "repository",
                f"{entry.reference} is damaged: {problem}.",
                f"Delete it and export it again: mrs models remove {entry.reference}.",
            )
    if not broken:
        yield _ok("repository", f"{len(entries)} versions in {repository.root}, all whole.")


def check_port(port: int) -> Check:
    """Nobody else listens there."""
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
    except OSError as error:
        return _warn(
            "port",
            f"Port {port} cannot be listened on: {error.strerror}.",
            "Choose another one: mrs serve --port.",
        )
    return _ok("port", f"Port {port} is free.")


def check_clock(now: float) -> Check:
    """The clock is not behind the day on which mrs was installed: certificates would fail."""
    installed = Path(mrs.__file__).stat().st_mtime
    if now < installed - 24 * 3600:
        return _error(
            "clock",
            "The clock is behind: mrs was installed in its future.",
            "Set the clock, for example with NTP.",
        )
    return _ok("clock", time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now)) + ".")


def check_hub(reach: Callable[[], None]) -> Check:
    """The Hub can be reached, unless nobody wants to."""
    if os.environ.get("HF_HUB_OFFLINE", "").strip().lower() in _TRUE:
        return _ok("hf_connectivity", "HF_HUB_OFFLINE is set: the Hub is not asked.")
    try:
        reach()
    except OSError:
        return _warn(
            "hf_connectivity",
            f"{_HUB[0]} cannot be reached: models can only come from files and packages.",
            "Check the network or the proxy, or set HF_HUB_OFFLINE=1.",
        )
    return _ok("hf_connectivity", f"{_HUB[0]} can be reached.")


def check_cache(folder: Path) -> Check:
    """What comes from the Hub can be kept."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        return _warn(
            "hf_cache_writable",
            f"{folder} cannot be written: {error.strerror}.",
            "Name another folder with HF_HOME.",
        )
    return _ok("hf_cache_writable", f"{folder} can be written.")


def _reach_hub() -> None:
    socket.create_connection(_HUB, timeout=_HUB_TIMEOUT).close()


def _problem(error: MrsError) -> str:
    return error.message.rstrip(".")


def _ok(name: str, message: str) -> Check:
    return Check(name=name, status=CheckStatus.OK, message=message)


def _warn(name: str, message: str, suggestion: str) -> Check:
    return Check(name=name, status=CheckStatus.WARN, message=message, suggestion=suggestion)


def _error(name: str, message: str, suggestion: str) -> Check:
    return Check(name=name, status=CheckStatus.ERROR, message=message, suggestion=suggestion)
