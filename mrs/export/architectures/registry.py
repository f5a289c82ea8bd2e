"""Which families can be exported."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mrs.errors import UnsupportedArchitectureError
from mrs.export.architectures.llama import llama_spec
from mrs.export.architectures.spec import DecoderSpec
from mrs.export.checkpoints.checkpoint import Checkpoint

SpecBuilder = Callable[[Checkpoint], DecoderSpec]

ARCHITECTURES: Mapping[str, SpecBuilder] = {"llama": llama_spec}


def decoder_spec(checkpoint: Checkpoint) -> DecoderSpec:
    """Describe the checkpoint's decoder.

    Raises:
        UnsupportedArchitectureError: the family is unknown; the message lists the known ones.
        CorruptCheckpointError: its metadata is missing or contradicts itself.
    """
    builder = ARCHITECTURES.get(checkpoint.architecture)
    if builder is None:
        raise UnsupportedArchitectureError(
            f"The architecture {checkpoint.architecture!r:.80} is not supported; "
            f"supported: {', '.join(sorted(ARCHITECTURES))}.",
            hint="Export a model of a supported family.",
        )
    return builder(checkpoint)
