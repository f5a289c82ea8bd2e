from __future__ import annotations

import gc

import pytest

from mrs.cli.collector import patient_collector


def test_the_collector_is_as_before_afterwards() -> None:
    before = gc.get_threshold()
    with pytest.raises(KeyError), patient_collector():
        assert gc.get_threshold()[0] > before[0]
        raise KeyError
    assert gc.get_threshold() == before
