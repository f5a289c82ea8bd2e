"""GGUF models that are split over several files: ``x-00001-of-00003.gguf`` and so on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from mrs.errors import CheckpointError, CorruptCheckpointError, SourceNotFoundError
from mrs.export.checkpoints.gguf_header import GgufHeader

MAX_PARTS = 1000

_PART = re.compile(r"(.+)-([0-9]{5})(-of-)([0-9]{5})(\.gguf)", re.IGNORECASE)


def part_names(file_name: str) -> list[str]:
    """The names of all parts of the model that a file belongs to; its own if it is no part.

    Raises:
        CheckpointError: there would be too many parts.
    """
    match = _PART.fullmatch(file_name)
    if match is None:
        return [file_name]
    stem, number, of, count, suffix = match.groups()
    if not 1 <= int(number) <= int(count):
        return [file_name]
    if int(count) > MAX_PARTS:
        raise CheckpointError(
            f"{file_name} is one of {int(count)} parts, more than {MAX_PARTS}.",
            hint="Merge the parts with `llama-gguf-split --merge`.",
        )
    return [f"{stem}-{part:05}{of}{count}{suffix}" for part in range(1, int(count) + 1)]


def find_parts(path: Path) -> list[Path]:
    """All parts of a model, of which ``path`` is one, in order.

    Raises:
        SourceNotFoundError: some are missing.
        CheckpointError: there would be too many.
    """
    paths = [path.with_name(name) for name in part_names(path.name)]
    missing = [part.name for part in paths if part != path and not part.is_file()]
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise SourceNotFoundError(
            f"{path.name} is one of {len(paths)} parts of a model, and not all of them are in "
            f"{path.parent}: {', '.join(missing[:3])}{more}.",
            hint="Download all parts into one folder.",
        )
    return paths


def check_split(headers: Sequence[GgufHeader], names: Sequence[str]) -> None:
    """Check that files are the parts of one model, in order.

    Args:
        headers: the header of each file.
        names: what errors call the files.

    Raises:
        CheckpointError: there are other parts than these.
        CorruptCheckpointError: the parts are of different models or in another order.
    """
    for number, (header, name) in enumerate(zip(headers, names, strict=True)):
        count = _metadata_int(header, "split.count", 1)
        if count != len(headers):
            raise CheckpointError(
                f"{name} is one of {count} parts of a split model, and its name tells of "
                f"{len(headers)}.",
                hint="Give the parts their names again: model-00001-of-"
                f"{max(0, min(count, 99_999)):05}.gguf and so on.",
            )
        stated = _metadata_int(header, "split.no", 0)
        if stated != number:
            raise _mixed(f"{name} says that it is part {stated + 1}, not {number + 1}")
    if len(headers) == 1:
        return
    stated = _metadata_int(headers[0], "split.tensors.count", -1)
    present = sum(len(header.tensors) for header in headers)
    if stated != present:
        raise _mixed(f"{names[0]} tells of {stated} tensors, and the parts hold {present}")


def _metadata_int(header: GgufHeader, key: str, default: int) -> int:
    value = header.metadata.get(key, default)
    if type(value) is not int:
        raise _mixed(f"{key} is {str(value)[:80]!r}, not a number")
    return value


def _mixed(problem: str) -> CorruptCheckpointError:
    return CorruptCheckpointError(
        f"The parts of the model do not fit together: {problem}.",
        hint="Download all parts again, from one place.",
    )
