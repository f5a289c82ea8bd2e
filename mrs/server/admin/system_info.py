"""What this machine is, and what runs on it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path

from pydantic import BaseModel, Field

from mrs import __version__
from mrs.cpu import usable_cpus
from mrs.memory import available_memory
from mrs.processor import CPUINFO, read_processor


class CpuInfo(BaseModel):
    """The processor, and what of it this process may use."""

    brand: str
    architecture: str
    logical_cores: int
    physical_cores: int
    usable_cores: int = Field(description="By affinity and quota of the control group.")
    avx: bool
    avx2: bool
    avx512: bool
    avx512_vnni: bool
    amx: bool
    fma: bool


class MemoryInfo(BaseModel):
    """Memory, in bytes; 0 where the system does not tell."""

    total_bytes: int
    available_bytes: int


class DeviceInfo(BaseModel):
    """What models run on."""

    kind: str
    name: str
    total_memory_bytes: int
    available_memory_bytes: int


class BuildInfo(BaseModel):
    """Versions."""

    version: str
    python: str
    onnxruntime: str | None = Field(description="None if it is not installed.")


class SystemInfo(BaseModel):
    """The machine."""

    os: str
    kernel: str
    cpu: CpuInfo
    memory: MemoryInfo
    devices: list[DeviceInfo]
    build: BuildInfo
    hf_cache_path: str


def system_info(cpuinfo: Path = CPUINFO) -> SystemInfo:
    """Look at this machine."""
    cpu = _cpu(cpuinfo)
    memory = MemoryInfo(total_bytes=_total_memory(), available_bytes=available_memory() or 0)
    return SystemInfo(
        os=platform.system(),
        kernel=platform.release(),
        cpu=cpu,
        memory=memory,
        devices=[
            DeviceInfo(
                kind="cpu",
                name=cpu.brand,
                total_memory_bytes=memory.total_bytes,
                available_memory_bytes=memory.available_bytes,
            )
        ],
        build=BuildInfo(
            version=__version__,
            python=platform.python_version(),
            onnxruntime=onnxruntime_version(),
        ),
        hf_cache_path=str(hf_cache_path()),
    )


def onnxruntime_version() -> str | None:
    """The installed version, without loading it; None if there is none."""
    for package in ("onnxruntime", "onnxruntime-gpu"):
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def hf_cache_path() -> Path:
    """Where the Hugging Face Hub's client keeps what it fetched."""
    if cache := os.environ.get("HF_HUB_CACHE"):
        return Path(cache).expanduser()
    home = os.environ.get("HF_HOME")
    if home:
        return Path(home).expanduser() / "hub"
    cache_home = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return Path(cache_home).expanduser() / "huggingface" / "hub"


def _cpu(cpuinfo: Path) -> CpuInfo:
    processor = read_processor(cpuinfo)
    flags = processor.flags
    return CpuInfo(
        brand=processor.name,
        architecture=platform.machine(),
        logical_cores=os.cpu_count() or 1,
        physical_cores=processor.cores,
        usable_cores=usable_cpus(),
        avx="avx" in flags,
        avx2="avx2" in flags,
        avx512="avx512f" in flags,
        avx512_vnni=processor.has_vnni,
        amx="amx_int8" in flags,
        fma="fma" in flags,
    )


def _total_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return 0
