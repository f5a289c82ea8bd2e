"""The options that decide how weights are stored, checked before anything is downloaded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mrs.errors import UsageError
from mrs.export.checkpoints.checkpoint import Checkpoint
from mrs.export.quantization.requested import QuantizationMap, parse_quantization
from mrs.model_repo.digests import sha256_file


@dataclass(frozen=True)
class WeightOptions:
    """How weights are stored.

    Attributes:
        requested: the quantization of each tensor.
        imatrix: an importance matrix of llama.cpp.
        calibration_file: a text to measure the importance on.
    """

    requested: QuantizationMap
    imatrix: Path | None = None
    calibration_file: Path | None = None

    def recorded(self) -> dict[str, str]:
        """As the lock records them: files by their digest.

        Raises:
            UsageError: a file cannot be read.
        """
        found = self.requested.options()
        files = {"imatrix": self.imatrix, "calibration_file": self.calibration_file}
        return found | {key: _digest(key, path) for key, path in files.items() if path is not None}

    def check_patterns(self, checkpoint: Checkpoint) -> None:
        """Refuse a pattern that matches no matrix of the checkpoint.

        Raises:
            UsageError: naming it, and what comes near to it.
        """
        tensors = checkpoint.tensors.values()
        self.requested.check_used([info.name for info in tensors if len(info.shape) > 1])


def weight_options(
    quant: str,
    quant_map: Iterable[str] = (),
    imatrix: Path | None = None,
    calibration_file: Path | None = None,
) -> WeightOptions:
    """Check the options against one another.

    Raises:
        UsageError: a quantization is unknown, or importance is given twice or to no use.
    """
    requested = parse_quantization(quant, quant_map)
    if imatrix is not None and calibration_file is not None:
        raise UsageError(
            "--imatrix and --calibration-file both say which weights are important.",
            hint="Leave one of them out.",
            param="calibration_file",
        )
    if "q4" not in requested.used() and (imatrix or calibration_file):
        option = "--imatrix" if imatrix else "--calibration-file"
        raise UsageError(
            f"{option} guides the search for 4-bit weights; --quant {quant} has none.",
            hint="Add --quant q4.",
            param="imatrix" if imatrix else "calibration_file",
        )
    return WeightOptions(requested, imatrix, calibration_file)


def _digest(option: str, path: Path) -> str:
    try:
        # A link is followed, as everywhere on the command line.
        return f"sha256:{sha256_file(path.resolve())[1]}"
    except OSError as error:
        raise UsageError(
            f"Cannot read {path}: {error.strerror or error}.",
            hint=f"Check the path given to --{option.replace('_', '-')}.",
            param=option,
        ) from None
