"""How figures are measured and rounded."""

from __future__ import annotations

import numpy as np

# Logits of one step: few enough that a large vocabulary does not cost a large buffer.
LOGITS_BYTES = 48 << 20
_LONGEST_CHUNK = 128


def chunk_length(vocabulary: int) -> int:
    """Tokens of a step whose logits stay within the bound."""
    return int(np.clip(LOGITS_BYTES // (4 * vocabulary), 1, _LONGEST_CHUNK))


def significant(value: float, digits: int = 3) -> float:
    """``value`` rounded to so many significant digits."""
    return float(f"{value:.{digits}g}")
