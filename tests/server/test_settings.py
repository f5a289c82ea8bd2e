from __future__ import annotations

import pytest

from mrs.errors import UsageError
from mrs.server.settings import LOOPBACK_HOSTS, allowed_hosts, keep_alive_interval


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


def test_on_loopback_only_its_names_are_answered_for() -> None:
    assert allowed_hosts("127.0.0.1", "127.0.0.1") == LOOPBACK_HOSTS
    assert allowed_hosts("localhost", "::1") == LOOPBACK_HOSTS


def test_another_loopback_address_is_one_of_them() -> None:
    hosts = allowed_hosts("MyBox", "127.0.1.1")
    assert hosts == LOOPBACK_HOSTS | {"mybox", "127.0.1.1"}


def test_on_a_network_any_name_is_answered_for_unless_names_are_given() -> None:
    assert allowed_hosts("0.0.0.0", "0.0.0.0") is None
    assert allowed_hosts("::", "::", [" Models.Example "]) == (
        LOOPBACK_HOSTS | {"models.example", "[::]"}
    )


def test_more_names_can_be_given_on_loopback() -> None:
    assert allowed_hosts("127.0.0.1", "127.0.0.1", ["a.example"]) == LOOPBACK_HOSTS | {"a.example"}
