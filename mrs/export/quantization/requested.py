"""What ``--quant`` may be, without importing what carries it out."""

from __future__ import annotations

from mrs.errors import UsageError

_KNOWN = ("fp32", "q8")
_AUTOMATIC = "q8"

QUANTIZATIONS = (*_KNOWN, "auto")


def resolve_quantization(name: str) -> str:
    """The quantization that a ``--quant`` value stands for.

    Raises:
        UsageError: it is unknown.
    """
    chosen = _AUTOMATIC if name == "auto" else name
    if chosen not in _KNOWN:
        raise UsageError(
            f"The quantization {name!r:.40} is unknown; known are {', '.join(QUANTIZATIONS)}.",
            hint="Leave --quant out to let mrs choose.",
        )
    return chosen
