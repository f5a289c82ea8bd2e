from __future__ import annotations

import pytest

from mrs.errors import UsageError
from mrs.server.settings import keep_alive_interval


@pytest.mark.parametrize("environment", [{}, {"KEEP_ALIVE_INTERVAL": ""}])
def test_ten_seconds_unless_set(environment: dict[str, str]) -> None:
    assert keep_alive_interval(environment) == 10.0


def test_is_given_in_milliseconds() -> None:
    assert keep_alive_interval({"KEEP_ALIVE_INTERVAL": " 2500 "}) == 2.5


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "10s", "ten", "٣", "1" * 5000, "1e3"])
def test_anything_else_is_refused_by_name_and_value(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        keep_alive_interval({"KEEP_ALIVE_INTERVAL": text})
    assert "KEEP_ALIVE_INTERVAL" in caught.value.message
    assert text[:10] in caught.value.message
    assert len(caught.value.message) < 200
