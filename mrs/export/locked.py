"""Exports that are held to a version: the same input must give the same artifact again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mrs.errors import LockedError
from mrs.model_repo.lock import ExportInputs, ModelLock, SourceRecord
from mrs.model_repo.version import ModelVersion


@dataclass(frozen=True)
class Difference:
    """One thing that is not as the lock says.

    Attributes:
        what: the thing, such as ``option quant`` or ``file cpu/model.onnx``.
        locked: its value in the lock; None if it is not there.
        now: its value now; None if it is gone.
    """

    what: str
    locked: str | None
    now: str | None


def require_same_inputs(version: ModelVersion, now: ExportInputs) -> None:
    """Refuse to go on if the inputs of an export are not those of a version.

    Raises:
        LockedError: listing every difference of source, options and tools.
    """
    _require_none(version, [*input_differences(version.lock.inputs, now)])


def require_same_artifact(version: ModelVersion, now: ModelLock) -> None:
    """Refuse an export that gave another artifact than a version, from the same input.

    Raises:
        LockedError: listing every difference of model, tensors and files.
    """
    _require_none(version, [*artifact_differences(version.lock, now)])


def input_differences(locked: ExportInputs, now: ExportInputs) -> Iterator[Difference]:
    """What went in: the source and its files, the options, and the tools."""
    yield from _mapping_differences(
        "source", _source_facts(locked.source), _source_facts(now.source)
    )
    yield from _mapping_differences("option", locked.options, now.options)
    yield from _mapping_differences("tool", locked.tools, now.tools)


def artifact_differences(locked: ModelLock, now: ModelLock) -> Iterator[Difference]:
    """What came out: facts of the model, how tensors are stored, and files.

    Not what was measured: parity, and the scales of the 8-bit KV cache.
    """
    yield from _mapping_differences("model", _fields(locked.model), _fields(now.model))
    tensors = [
        {name: f"{record.source_type} as {record.stored_as}" for name, record in quantized.items()}
        for quantized in (locked.quantization, now.quantization)
    ]
    yield from _mapping_differences("tensor", *tensors)
    files = [{file.path: file.sha256 for file in lock.identifying_files} for lock in (locked, now)]
    yield from _mapping_differences("file", *files)


def _require_none(version: ModelVersion, differences: list[Difference]) -> None:
    if not differences:
        return
    count = len(differences)
    raise LockedError(
        f"The export would not be {version.reference}: "
        f"{count} {'thing differs' if count == 1 else 'things differ'}, {differences[0].what} "
        f"first.",
        differences=[vars(difference) for difference in differences],
        hint="Restore what was changed, or export without --locked to make a new version.",
    )


def _source_facts(source: SourceRecord) -> dict[str, str]:
    files = {f"file {file.path}": file.sha256 for file in source.files}
    return {"kind": source.kind, "identifier": source.identifier} | files


def _fields(model: Any) -> dict[str, str]:
    return {name: str(value) for name, value in model.model_dump(mode="json").items()}


def _mapping_differences(
    kind: str, locked: Mapping[str, str], now: Mapping[str, str]
) -> Iterator[Difference]:
    for key in sorted(locked.keys() | now.keys()):
        if locked.get(key) != now.get(key):
            yield Difference(f"{kind} {key}", locked.get(key), now.get(key))
