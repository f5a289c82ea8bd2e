from __future__ import annotations

from mrs.server.settings import LOOPBACK_HOSTS, allowed_hosts


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
