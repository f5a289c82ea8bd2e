"""How a model's authors sample, from the ``general.sampling.*`` keys of GGUF metadata."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from mrs.errors import CorruptCheckpointError
from mrs.export.checkpoints.checkpoint import MetadataValue

_PREFIX = "general.sampling."
# llama.cpp's name -> that of generation_config.json.
_NAMES = {
    "temp": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "penalty_repeat": "repetition_penalty",
}


def gguf_sampling(metadata: Mapping[str, MetadataValue]) -> dict[str, int | float]:
    """What the metadata says, under the names of ``generation_config.json``.

    Raises:
        CorruptCheckpointError: a value is no finite number.
    """
    defaults: dict[str, int | float] = {}
    for key, name in _NAMES.items():
        value = metadata.get(_PREFIX + key)
        if value is not None:
            number = _number(_PREFIX + key, value)
            defaults[name] = int(number) if name == "top_k" else number
    if defaults.get("temperature", 0.0) < 0:  # As llama.cpp has it: greedy.
        defaults["temperature"] = 0.0
    return defaults


def _number(key: str, value: MetadataValue) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise CorruptCheckpointError(f"{key} is no finite number.")
    # It was written as 0.6 and stored as 0.6000000238.
    return float(str(np.float32(value)))
