"""The same input gives the same bytes: elsewhere, on another day, from other shards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from mrs.export.parity.proof import ParityMode
from mrs.export.pipeline import ExportRequest, export_model
from mrs.export.progress import SilentProgress
from mrs.model_repo.lock_file import artifact_digest
from mrs.model_repo.repository import ModelRepository
from mrs.model_repo.version import ModelVersion
from tests.export.gguf_files import write_llama
from tests.export.safetensors_files import write_shards
from tests.reference.families import CASES
from tests.reference.tiny_model import Reference

ROOT = Path(__file__).parents[2]
PROGRAM = """
import os, sys
os.umask(int(sys.argv[3], 8))
from mrs.cli.app import invoke
sys.exit(invoke(["export", sys.argv[1], "--repo", sys.argv[2], "--json"]))
"""

Weights = dict[str, NDArray[np.float32]]


def artifact(version: Path) -> dict[str, bytes]:
    """All files of a version."""
    files = (path for path in version.rglob("*") if path.is_file())
    return {path.relative_to(version).as_posix(): path.read_bytes() for path in files}


def export(source: Path, root: Path, quant: str = "q8") -> ModelVersion:
    request = ExportRequest(str(source), name="tiny", quant=quant, parity=ParityMode.AUTO)
    return export_model(request, ModelRepository(root), SilentProgress()).version


def export_in_a_process(
    source: Path, root: Path, *, home: Path, zone: str, umask: str, seed: str
) -> Path:
    """Export with another home, working folder, time zone, umask and order of hashes."""
    home.mkdir(parents=True)
    changed = {"HOME": str(home), "TZ": zone, "PYTHONHASHSEED": seed, "LC_ALL": "C"}
    command = [sys.executable, "-c", PROGRAM, str(source), str(root), umask]
    result = subprocess.run(
        command,
        cwd=home,
        env={**os.environ, **changed, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(json.loads(result.stdout)["path"])


def test_elsewhere_and_under_another_user(tmp_path: Path) -> None:
    one = write_llama(tmp_path / "Tiny.Q8_0.gguf", dtype="Q8_0")
    two = tmp_path / "a folder" / "ünder" / "another" / one.name
    two.parent.mkdir(parents=True)
    two.write_bytes(one.read_bytes())
    first = export_in_a_process(
        one, tmp_path / "r", home=tmp_path / "h1", zone="UTC", umask="022", seed="0"
    )
    second = export_in_a_process(
        two,
        tmp_path / "other" / "repository",
        home=tmp_path / "h2",
        zone="Pacific/Kiritimati",
        umask="077",
        seed="4242",
    )
    assert artifact(first) == artifact(second)
    assert "mrs.lock" in artifact(first)


def test_on_another_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_llama(tmp_path / "tiny.gguf", dtype="Q8_0")
    today = export(source, tmp_path / "today")
    now, day = time.time(), 86_400
    os.utime(source, (now - 1000 * day, now - 1000 * day))
    monkeypatch.setattr(time, "time", lambda: now + 400 * day)
    monkeypatch.setattr(time, "time_ns", lambda: int((now + 400 * day) * 1e9))
    later = export(source, tmp_path / "later")
    assert artifact(today.path) == artifact(later.path)
    assert artifact_digest(today.lock) == artifact_digest(later.lock)


# --- shards ---------------------------------------------------------------------------------------

LLAMA = next(case for case in CASES if case.model_type == "llama")


def shards(weights: Weights, sizes: Sequence[int], *, backwards: bool = False) -> list[Weights]:
    """The tensors in files of so many each."""
    names = iter(sorted(weights, reverse=backwards))
    return [{name: weights[name] for name in islice(names, size)} for size in sizes]


def write_model(folder: Path, parts: list[Weights]) -> Path:
    reference = Reference.load(LLAMA)
    write_shards(folder, parts)
    (folder / "config.json").write_text(json.dumps(reference.config))
    tokens = {chr(33 + number): number for number in range(90)}
    tokenizer = Tokenizer(BPE(tokens, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.mark.parametrize("quant", ["q8", "fp32"])
def test_from_other_shards(tmp_path: Path, quant: str) -> None:
    weights = LLAMA.weights(Reference.load(LLAMA).shapes)
    count = len(weights)
    layouts = {
        "one": shards(weights, [count]),
        "backwards": shards(weights, [count], backwards=True),
        "three": shards(weights, [5, 1, count - 6]),
        "swapped": shards(weights, [count - 6, 1, 5], backwards=True),
    }
    versions = {
        name: export(write_model(tmp_path / name / "model", parts), tmp_path / name / "r", quant)
        for name, parts in layouts.items()
    }
    expected = artifact(versions["one"].path)
    for name, version in versions.items():
        found = artifact(version.path)
        # The lock tells the shards apart, as it must: they are other files.
        assert (found.pop("mrs.lock") == expected["mrs.lock"]) == (name == "one")
        assert found == {key: data for key, data in expected.items() if key != "mrs.lock"}, name
        assert version.lock.files == versions["one"].lock.files
        assert version.lock.quantization == versions["one"].lock.quantization
        assert version.lock.parity == versions["one"].lock.parity
