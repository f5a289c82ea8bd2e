"""Typed reads of checkpoint metadata, with errors that name the key."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mrs.errors import CorruptCheckpointError
from mrs.export.checkpoints.checkpoint import Checkpoint, MetadataValue

# Larger than any model in sight, small enough that products of two stay far from overflow.
_LARGEST_SIZE = 1 << 28
# No model is near these; float64 arithmetic on numbers between them cannot overflow.
_SMALLEST_NUMBER, _LARGEST_NUMBER = 1e-30, 1e30


class ArchitectureMetadata:
    """The metadata under ``<architecture>.``, read by type.

    Args:
        checkpoint: where the metadata is.
        defaults: what stands for a key that is absent.
    """

    def __init__(
        self, checkpoint: Checkpoint, defaults: Mapping[str, MetadataValue] = MappingProxyType({})
    ) -> None:
        self._prefix = checkpoint.architecture
        self._metadata = {
            **{f"{self._prefix}.{key}": value for key, value in defaults.items()},
            **checkpoint.metadata,
        }

    def size(self, key: str, default: int | None = None, *, largest: int = _LARGEST_SIZE) -> int:
        """A whole number from 1 to ``largest``.

        Raises:
            CorruptCheckpointError: it is missing without a default, or not such a number.
        """
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(key, value, "a whole number")
        if not 0 < value <= largest:
            raise self._wrong(key, value, f"between 1 and {largest}")
        return value

    def optional_size(self, key: str) -> int | None:
        """A positive integer, or None where the key is absent or 0."""
        value = self._metadata.get(f"{self._prefix}.{key}")
        return None if value in (None, 0) else self.size(key)

    def number(self, key: str, default: float | None = None) -> float:
        """A positive number, neither tiny nor huge.

        Raises:
            CorruptCheckpointError: it is missing without a default, or not such a number.
        """
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(key, value, "a number")
        if not _SMALLEST_NUMBER <= value <= _LARGEST_NUMBER:
            raise self._wrong(key, value, f"between {_SMALLEST_NUMBER} and {_LARGEST_NUMBER}")
        return float(value)

    def optional_number(self, key: str) -> float | None:
        """The same, or None where the key is absent or 0."""
        value = self._metadata.get(f"{self._prefix}.{key}")
        return None if value in (None, 0) else self.number(key)

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self._get(key, default)
        if not isinstance(value, bool):
            raise self._wrong(key, value, "true or false")
        return value

    def optional_flag(self, key: str) -> bool | None:
        """True, false, or None where the key is absent."""
        absent = self._metadata.get(f"{self._prefix}.{key}") is None
        return None if absent else self.flag(key, False)

    def flags(self, key: str, length: int) -> list[bool] | None:
        """One flag for each of ``length`` layers, or None where the key is absent.

        A number ``n`` stands for all layers but each ``n``-th, as in some GGUF files.
        """
        value = self._metadata.get(f"{self._prefix}.{key}")
        if value is None:
            return None
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return [(index + 1) % value != 0 for index in range(length)]
        if not isinstance(value, list) or len(value) < length:
            raise self._wrong(key, value, f"a list of {length} flags")
        flags = [bool(item) for item in value[:length] if isinstance(item, bool | int)]
        if len(flags) != length:
            raise self._wrong(key, value, f"a list of {length} flags")
        return flags

    def numbers(self, key: str) -> tuple[float, ...]:
        """Positive numbers.

        Raises:
            CorruptCheckpointError: it is missing, or not a list of such numbers.
        """
        value = self._get(key, None)
        if not isinstance(value, list):
            raise self._wrong(key, value, "a list of numbers")
        numbers = tuple(float(item) for item in value if isinstance(item, int | float))
        if len(numbers) != len(value) or not all(
            _SMALLEST_NUMBER <= number <= _LARGEST_NUMBER for number in numbers
        ):
            raise self._wrong(key, value, "a list of positive numbers")
        return numbers

    def text(self, key: str, default: str) -> str:
        """A string."""
        value = self._get(key, default)
        if not isinstance(value, str):
            raise self._wrong(key, value, "a string")
        return value

    def _get(self, key: str, default: MetadataValue | None) -> MetadataValue:
        value = self._metadata.get(f"{self._prefix}.{key}", default)
        if value is None:
            raise CorruptCheckpointError(
                f"The checkpoint lacks the metadata key {self._prefix}.{key}.",
                hint="Convert the model again with a current converter.",
            )
        return value

    def _wrong(self, key: str, value: MetadataValue, wanted: str) -> CorruptCheckpointError:
        return CorruptCheckpointError(
            f"The metadata key {self._prefix}.{key} is {value!r:.80}; it must be {wanted}.",
            hint="Convert the model again with a current converter.",
        )
