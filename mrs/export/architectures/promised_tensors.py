"""Tensors that a checkpoint must have because its family or its configuration says so.

Most parts of a decoder cannot be left out unnoticed: their tensors are asked for. A bias or a norm
of queries that got lost would be another model without an error, so these are looked for here.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from mrs.errors import CorruptCheckpointError
from mrs.export.architectures.family import Family
from mrs.export.architectures.metadata import ArchitectureMetadata
from mrs.export.checkpoints.checkpoint import Checkpoint

_NEVER_BIASED = ("token_embd", "position_embd")


def check_promised_tensors(
    family: Family, checkpoint: Checkpoint, metadata: ArchitectureMetadata, layers: int
) -> None:
    """Look for the tensors that nothing else would miss.

    Raises:
        CorruptCheckpointError: one is missing, or is there although the configuration denies it.
    """
    tensors = checkpoint.tensors
    for name in tensors:
        if name.endswith(".weight") and _is_biased(name, family):
            bias = f"{name.removesuffix('weight')}bias"
            if bias not in tensors:
                raise _missing(bias, f"in the family {family.name} it is always there")
    stated = family.huggingface.stated if family.huggingface is not None else {}
    for key, parts in stated.items():
        wanted = metadata.optional_flag(f"stated.{key}")
        if wanted is None:
            continue
        for name in (name for part in parts for name in _everywhere(part, layers)):
            if wanted and name not in tensors:
                raise _missing(name, f"{key} says that it is there")
            if not wanted and name in tensors:
                raise CorruptCheckpointError(
                    f"The checkpoint has the tensor {name!r}, but {key} says that it has not.",
                    hint="Correct config.json, or download the model again.",
                )


def _everywhere(part: str, layers: int) -> Iterator[str]:
    """A tensor of each block, or the one of the output head."""
    if part.startswith("output."):
        yield part
    else:
        yield from (f"blk.{layer}.{part}" for layer in range(layers))


def _is_biased(name: str, family: Family) -> bool:
    stem = name.removesuffix(".weight").rsplit(".", 1)[-1]
    return stem not in _NEVER_BIASED and any(
        fnmatchcase(stem, pattern) for pattern in family.biased
    )


def _missing(name: str, reason: str) -> CorruptCheckpointError:
    return CorruptCheckpointError(
        f"The checkpoint lacks the tensor {name!r}; {reason}.",
        hint="Download the model again, or convert it with a current converter.",
    )
