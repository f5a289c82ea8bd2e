"""A tensor and its bytes in a file."""

from __future__ import annotations

from dataclasses import dataclass

from mrs.export.checkpoints.checkpoint import TensorInfo


@dataclass(frozen=True, slots=True)
class PlacedTensor:
    """A tensor and its bytes in the file.

    Attributes:
        info: name, logical shape and type.
        start: its first byte, from the start of the file.
        rows: number of rows; see `mrs.export.checkpoints.checkpoint.Checkpoint.read_rows`.
        row_bytes: stored bytes of one row.
    """

    info: TensorInfo
    start: int
    rows: int
    row_bytes: int

    @property
    def stop(self) -> int:
        """The first byte after the tensor."""
        return self.start + self.rows * self.row_bytes

    def span(self, start: int, stop: int) -> tuple[int, int, int]:
        """Where rows ``start:stop`` are: first byte, number of rows, bytes per row.

        Raises:
            IndexError: the tensor has no such rows.
        """
        if not 0 <= start <= stop <= self.rows:
            raise IndexError(f"rows {start}:{stop} of {self.info.name}, which has {self.rows}")
        return self.start + start * self.row_bytes, stop - start, self.row_bytes
