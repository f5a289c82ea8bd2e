"""Small wheels, honest and otherwise."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def record_hash(data: bytes) -> str:
    """A hash as RECORD writes it."""
    digest = hashlib.sha256(data).digest()
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def write_wheel(
    folder: Path,
    name: str = "tiny_model",
    version: str = "1.0",
    members: Mapping[str, bytes] | None = None,
    *,
    record: Mapping[str, str] | None = None,
    infos: Mapping[str, zipfile.ZipInfo] | None = None,
    requires: Sequence[str] = (),
) -> Path:
    """Write a wheel that pip accepts.

    Args:
        folder: made if it does not exist.
        name: distribution name as in a wheel's file name.
        version: its version.
        members: data by path, besides the metadata.
        record: hashes that replace the true ones; an empty hash leaves the row out.
        infos: zip entries that replace the plain ones, by path.
        requires: what the metadata says that the package requires.
    """
    members = {"tiny_model/tiny.Q4_0.gguf": b"GGUF" * 100} if members is None else members
    info_folder = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
    metadata = {
        f"{info_folder}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        f"{needs}\nA description.\n",
        f"{info_folder}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\n"
        "Root-Is-Purelib: true\nTag: py3-none-any\n",
    }
    everything = {**members, **{path: text.encode() for path, text in metadata.items()}}
    hashes = {path: record_hash(data) for path, data in everything.items()} | dict(record or {})
    rows = [f'"{path}",{entry},' for path, entry in hashes.items() if entry]
    everything[f"{info_folder}/RECORD"] = "\n".join([*rows, f"{info_folder}/RECORD,,\n"]).encode()
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in everything.items():
            archive.writestr((infos or {}).get(path, zipfile.ZipInfo(path)), data)
    return wheel
