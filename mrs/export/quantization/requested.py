"""What ``--quant`` and ``--quant-map`` may be, without importing what carries it out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase

from mrs.errors import UsageError

QUANTIZATIONS = ("auto", "keep", "fp32", "q8", "q4", "w8a8")


@dataclass(frozen=True)
class QuantizationMap:
    """The quantization of each tensor.

    Attributes:
        default: of a tensor that no pattern matches.
        patterns: pairs of a shell pattern over canonical tensor names (``blk.*.ffn_down.weight``)
            and the quantization of what it matches; of several that match, the last wins.
    """

    default: str
    patterns: tuple[tuple[str, str], ...] = ()

    def of(self, name: str) -> str:
        """The quantization of the tensor ``name``."""
        for pattern, quantization in reversed(self.patterns):
            if fnmatchcase(name, pattern):
                return quantization
        return self.default

    def names(self, name: str) -> bool:
        """Whether a pattern decides for the tensor ``name``."""
        return any(fnmatchcase(name, pattern) for pattern, _ in self.patterns)

    def used(self) -> set[str]:
        """Every quantization that a tensor may have."""
        return {self.default, *(quantization for _, quantization in self.patterns)}

    def options(self) -> dict[str, str]:
        """As the lock records it; `recorded_map` reads the patterns again."""
        found = {"quant": self.default}
        if self.patterns:
            found["quant_map"] = ",".join("=".join(pair) for pair in self.patterns)
        return found

    def check_used(self, matrices: Collection[str]) -> None:
        """Refuse a pattern that matches none of the checkpoint's matrices.

        Raises:
            UsageError: naming the pattern and what comes near to it.
        """
        for pattern, _ in self.patterns:
            if not any(fnmatchcase(name, pattern) for name in matrices):
                near = get_close_matches(pattern, sorted(matrices), n=3, cutoff=0)
                raise UsageError(
                    f"--quant-map {pattern!r:.80} matches no matrix of the model; the nearest are "
                    f"{', '.join(near)}.",
                    hint="Patterns are those of a shell, over the whole name: '*.ffn_down.weight'.",
                    param="quant_map",
                )


def parse_quantization(quant: str, entries: Iterable[str] = ()) -> QuantizationMap:
    """The quantization of each tensor, from ``--quant`` and every ``--quant-map``.

    Args:
        quant: one of `QUANTIZATIONS`.
        entries: ``PATTERN=QUANTIZATION``.

    Raises:
        UsageError: a quantization is unknown, or an entry has no such form.
    """
    return QuantizationMap(_known(quant), tuple(_parse_entry(entry) for entry in entries))


def _parse_entry(entry: str) -> tuple[str, str]:
    pattern, equals, quantization = entry.rpartition("=")
    if not pattern or not equals or "," in entry:
        raise UsageError(
            f"--quant-map {entry!r:.80} is no PATTERN=QUANTIZATION.",
            hint="Such as --quant-map '*.ffn_down.weight=q8'.",
            param="quant_map",
        )
    return pattern, _known(quantization)


def recorded_map(options: Mapping[str, str]) -> tuple[str, ...]:
    """The ``--quant-map`` entries that a lock's options record."""
    recorded = options.get("quant_map", "")
    return tuple(recorded.split(",")) if recorded else ()


def _known(name: str) -> str:
    if name not in QUANTIZATIONS:
        raise UsageError(
            f"The quantization {name!r:.40} is unknown; known are {', '.join(QUANTIZATIONS)}.",
            hint="Leave --quant out to let mrs choose.",
        )
    return name
