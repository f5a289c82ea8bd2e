"""One model of a server: its place between loaded and not, and who uses it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mrs.errors import MrsError
from mrs.server.model_catalog import ModelState, ModelStatus, ModelUnavailableError
from mrs.server.model_source import ModelSource, OpenModel


class Resident:
    """The state of one model; what changes it is `mrs.server.resident_models`.

    Args:
        source: where it is loaded from.

    Attributes:
        opened: the loaded model, or None.
        loading: the load that goes on, or None.
        unloading: the unload that goes on, or None; who uses the model may finish meanwhile.
        failure: what the last load failed of, if it did.
        users: leases of it.
        last_used: monotonic seconds of the last lease's end.
        idle: set while there is no lease.
    """

    def __init__(self, source: ModelSource) -> None:
        self.source = source
        self.opened: OpenModel | None = None
        self.loading: asyncio.Future[None] | None = None
        self.unloading: asyncio.Future[None] | None = None
        self.failure: MrsError | None = None
        self.users = 0
        self.last_used = time.monotonic()
        self.idle = asyncio.Event()
        self.idle.set()
        self._waiting = 0
        self._failed_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def name(self) -> str:
        """What clients call it."""
        return self.source.description.name

    @property
    def in_use(self) -> bool:
        """Whether somebody has it, or waits for it."""
        return self.users > 0 or self._waiting > 0

    @property
    def state(self) -> ModelState:
        """As clients see it."""
        if self.loading is not None:
            status = ModelStatus.RELOADING
        elif self.opened is not None:
            status = ModelStatus.LOADED
        elif self.failure is not None:
            status = ModelStatus.INTERNAL_ERROR
        else:
            status = ModelStatus.UNLOADED
        error = None
        if status is ModelStatus.INTERNAL_ERROR and self.failure is not None:
            error = ModelUnavailableError(self.name, self.failure).message
        # A loaded one knows better: its length may have been cut to the memory.
        known = self.source.description if self.opened is None else self.opened.model.description
        return ModelState(known, status, error)

    def open(self) -> None:
        """Load it; blocks, on any thread."""
        self.opened = self.source.load()

    @contextmanager
    def wanted(self) -> Iterator[None]:
        """Keep it from being chosen to make room while somebody waits for it."""
        self._waiting += 1
        self._stop_timer()
        try:
            yield
        finally:
            self._waiting -= 1

    def take(self) -> None:
        """Begin a lease."""
        self.users += 1
        self.idle.clear()

    def give_back(self) -> None:
        """End a lease."""
        self.users -= 1
        self.last_used = time.monotonic()
        if not self.users:
            self.idle.set()

    def loading_failed(self, reason: MrsError) -> None:
        """Take note of why a load failed."""
        self.failure = reason
        self._failed_at = time.monotonic()

    def loading_ended(self, loading: asyncio.Future[None]) -> None:
        """Take note of the end of a load, whoever still waits for it."""
        self.loading = None
        if not loading.cancelled():
            loading.exception()

    def unloading_ended(self, unloading: asyncio.Future[None]) -> None:
        """Take note of the end of an unload."""
        self.unloading = None
        if not unloading.cancelled():
            unloading.exception()

    def require_no_recent_failure(self, interval: float) -> None:
        """Refuse another try less than ``interval`` seconds after one that failed.

        Raises:
            ModelUnavailableError: it is too early.
        """
        if self.failure is not None and time.monotonic() - self._failed_at < interval:
            raise ModelUnavailableError(self.name, self.failure, retry_after=int(interval))

    def start_timer(self, delay: float, action: Callable[[Resident], None]) -> None:
        """Have ``action`` called after ``delay`` seconds in which nobody wants the model."""
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(delay, action, self)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
