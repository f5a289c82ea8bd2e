"""Threads for llguidance: with stacks that it cannot overflow, and beside the model's steps."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from mrs.runtime.grammar.limits import WORKER_STACK_BYTES

Result = TypeVar("Result")
_Job = tuple["Future[Any]", Callable[[], Any]]
_starting = threading.Lock()


class Workers:
    """A few daemon threads that take jobs in order.

    Args:
        name: of the threads.
        count: how many.
    """

    def __init__(self, name: str, count: int) -> None:
        self._open = True
        self._closing = threading.Lock()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-{index}", daemon=True)
            for index in range(count)
        ]
        # The size is one setting of the process: nobody else may start a thread of ours with it.
        with _starting:
            before = threading.stack_size(WORKER_STACK_BYTES)
            try:
                for thread in self._threads:
                    thread.start()
            finally:
                threading.stack_size(before)

    def submit(self, job: Callable[[], Result]) -> Future[Result]:
        """Have a job done; its result, or what it raised, is the future's.

        After `close` it is done at once, on the caller's thread.
        """
        future: Future[Result] = Future()
        with self._closing:
            if is_open := self._open:
                self._jobs.put((future, job))
        if not is_open:
            _do(future, job)
        return future

    def close(self) -> None:
        """End the threads after the jobs that are waiting. Idempotent."""
        with self._closing:
            if self._open:
                self._open = False
                for _ in self._threads:
                    self._jobs.put(None)

    def _work(self) -> None:
        while (taken := self._jobs.get()) is not None:
            _do(*taken)
            del taken  # Else it would be held until the next job comes.


def _do(future: Future[Any], job: Callable[[], Any]) -> None:
    try:
        future.set_result(job())
    except BaseException as error:  # a panic of the library is no Exception
        future.set_exception(error)
