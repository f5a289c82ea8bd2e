"""Jobs beside the caller's thread."""

from __future__ import annotations

import threading

import pytest

from mrs.runtime.grammar.workers import Workers


def test_jobs_are_done_on_other_threads() -> None:
    workers = Workers("test", 1)
    assert workers.submit(threading.get_ident).result(10) != threading.get_ident()
    workers.close()


def test_what_a_job_raises_is_the_futures_and_the_next_is_done() -> None:
    class Panic(BaseException):
        pass

    def fails() -> None:
        raise Panic

    workers = Workers("test", 1)
    with pytest.raises(Panic):
        workers.submit(fails).result(10)
    assert workers.submit(lambda: 3).result(10) == 3
    workers.close()


def test_after_the_end_jobs_are_done_by_the_caller() -> None:
    workers = Workers("test", 2)
    workers.close()
    workers.close()
    assert workers.submit(threading.get_ident).result(0) == threading.get_ident()


def test_the_stacks_of_others_are_as_they_were() -> None:
    before = threading.stack_size()
    Workers("test", 1).close()
    assert threading.stack_size() == before
