from __future__ import annotations

import os
from pathlib import Path

from mrs.server.responses.server_lease import ServerLease


def test_a_server_lives_until_it_ends(tmp_path: Path) -> None:
    one, other = ServerLease(tmp_path), ServerLease(tmp_path)
    assert one.lives(one.name)
    assert one.lives(other.name)
    other.release()
    assert not one.lives(other.name)
    assert not one.lives("nobody")


def test_signs_of_the_dead_are_swept_and_others_stay(tmp_path: Path) -> None:
    alive = ServerLease(tmp_path)
    dead, young = tmp_path / "dead.lock", tmp_path / "young.lock"
    for path in (dead, young):
        path.touch()
    for path in (dead, tmp_path / f"{alive.name}.lock"):
        os.utime(path, (0, 0))
    ServerLease(tmp_path).sweep()
    assert not dead.exists()
    assert young.exists()
    assert (tmp_path / f"{alive.name}.lock").exists()
    assert ServerLease(tmp_path).lives(alive.name)


def test_who_shares_nothing_leaves_no_sign(tmp_path: Path) -> None:
    alone = ServerLease(None)
    alone.sweep()
    assert alone.lives(alone.name)
    assert not alone.lives("other")
    alone.release()
