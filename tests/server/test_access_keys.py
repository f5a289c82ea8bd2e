from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

import pytest

from mrs.errors import UsageError
from mrs.server import access_keys
from mrs.server.access_keys import KeyRing, access_key, read_keys


def test_a_key_is_found_among_several() -> None:
    ring = KeyRing([access_key("one"), access_key("two", admin=True)])
    assert ring.find(b"one") == access_key("one")
    assert ring.find(b"two") == access_key("two", admin=True)


@pytest.mark.parametrize("presented", [b"", b"on", b"onee", b"ONE", b"one\0", b"\xff"])
def test_no_other_is(presented: bytes) -> None:
    assert KeyRing([access_key("one")]).find(presented) is None


def test_a_digest_stands_for_its_key() -> None:
    digest = hashlib.sha256(b"one").hexdigest()
    assert access_key(f"sha256:{digest}") == access_key("one")


def test_every_key_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    in_constant_time = hmac.compare_digest

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return in_constant_time(one, other)

    monkeypatch.setattr(access_keys.hmac, "compare_digest", compare)
    ring = KeyRing([access_key("one"), access_key("two"), access_key("three")])
    ring.find(b"one")
    assert len(compared) == 3
    assert all(len(one) == len(other) == 32 for one, other in compared)


def test_the_text_of_a_key_is_not_kept() -> None:
    assert "secret" not in repr(access_key("secret"))
    assert "secret" not in access_key("secret").principal


def test_a_principal_is_stable_and_its_own() -> None:
    assert access_key("one").principal == access_key("one", admin=True).principal
    assert access_key("one").principal != access_key("two").principal
    assert access_key("one").digest.hex()[:16] not in access_key("one").principal


def test_a_key_that_is_given_as_both_is_one_of_administration() -> None:
    for keys in ([True, False], [False, True]):
        ring = KeyRing(access_key("one", admin=admin) for admin in keys)
        found = ring.find(b"one")
        assert found is not None
        assert found.admin


def test_a_file_holds_one_on_each_line(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# ours\none\n\n two  # of the team\n")
    assert read_keys(file, admin=True) == [
        access_key("one", admin=True),
        access_key("two", admin=True),
    ]


@pytest.mark.parametrize("content", [b"", b"# none\n", b"a b\n", b"\xff\n", "ü\n".encode()])
def test_a_file_without_keys_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "keys"
    file.write_bytes(content)
    with pytest.raises(UsageError):
        read_keys(file)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing"):
        read_keys(tmp_path / "nothing")
