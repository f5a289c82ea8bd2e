"""What this machine's processor is and can do, as Linux tells it."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
_VNNI = frozenset({"avx512_vnni", "avx_vnni"})


@dataclass(frozen=True)
class Processor:
    """One of the machine's processors; all are taken to be alike.

    Attributes:
        name: what it calls itself; its architecture where the system does not tell.
        flags: the features that it lists.
        cores: of the machine; a core may run several threads.
    """

    name: str
    flags: frozenset[str]
    cores: int

    @property
    def has_vnni(self) -> bool:
        """Whether it adds up four products of 8-bit integers in one instruction."""
        return bool(_VNNI & self.flags)

    @property
    def byte_products_overflow(self) -> bool:
        """Whether sums of two products of 8-bit integers are cut off at 16 bits.

        So they are on x86 without VNNI, where ``vpmaddubsw`` makes them.
        """
        return "avx2" in self.flags and not self.has_vnni

    @property
    def session_entries(self) -> dict[str, str]:
        """What sessions of ONNX Runtime must be told to compute exactly on it, by key."""
        # Kernels without sums of two, at the price of speed.
        return {"session.x64quantprecision": "1"} if self.byte_products_overflow else {}


def read_processor(cpuinfo: Path = CPUINFO) -> Processor:
    """The processor; without flags where the system does not tell.

    Args:
        cpuinfo: in the form of ``/proc/cpuinfo``.
    """
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    blocks = [_facts(block) for block in text.strip().split("\n\n")]
    flags = blocks[0].get("flags", blocks[0].get("Features", ""))
    return Processor(
        name=blocks[0].get("model name") or platform.processor() or platform.machine(),
        flags=frozenset(flags.split()),
        cores=_cores(blocks) or os.cpu_count() or 1,
    )


def _facts(block: str) -> dict[str, str]:
    lines = (line.partition(":") for line in block.splitlines())
    return {name.strip(): value.strip() for name, _, value in lines}


def _cores(blocks: list[dict[str, str]]) -> int:
    """Threads of one core share ``physical id`` and ``core id``; 0 where these are not told."""
    cores = {(block.get("physical id"), block.get("core id")) for block in blocks}
    return len(cores) if all(None not in core for core in cores) else 0
