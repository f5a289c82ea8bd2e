from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from huggingface_hub import constants

from mrs.errors import DownloadError, MrsError, StorageError
from mrs.export.progress import Advance, Progress, SilentProgress
from mrs.export.sources import hub_transfer
from mrs.export.sources.hub import resolve_hub
from mrs.export.sources.hub_reference import HubReference
from mrs.export.sources.hub_transfer import LargeFile
from tests.export.sources.fake_hub import COMMIT, FakeHub
from tests.export.sources.recording import RecordingProgress

DATA = bytes(range(256)) * 40_000
SHA256 = hashlib.sha256(DATA).hexdigest()
ONE = HubReference("org/one")


@pytest.fixture(autouse=True)
def large(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    """A Hub with a large file."""
    monkeypatch.setattr(hub_transfer, "_LARGE", 1 << 20)
    monkeypatch.setattr(hub_transfer, "_CHUNK", 1 << 16)
    monkeypatch.setattr(hub_transfer, "_pause", lambda: None)
    hub.repositories["org/one"] = {"m.gguf": DATA}
    return hub


class Stopping(SilentProgress):
    """Stops the process, as it were, after some bytes."""

    def __init__(self, after: int) -> None:
        self.left = after

    @contextmanager
    def phase(
        self, label: str, *, total: int | None = None, unit: str = "items"
    ) -> Iterator[Advance]:
        def advance(amount: int) -> None:
            self.left -= amount
            if label.startswith("Download") and self.left < 0:
                raise KeyboardInterrupt

        yield advance


def resolve(progress: Progress | None = None) -> bytes:
    return resolve_hub(ONE, progress or SilentProgress()).path.read_bytes()


def stop(after: int = 4_000_000) -> None:
    with pytest.raises(KeyboardInterrupt):
        resolve(Stopping(after))


def refusal() -> MrsError:
    with pytest.raises(MrsError) as caught:
        resolve()
    return caught.value


def blobs() -> list[Path]:
    return sorted(Path(constants.HF_HUB_CACHE).glob("models--org--one/blobs/*"))


def test_a_large_file_is_where_huggingface_hub_keeps_it(hub: FakeHub) -> None:
    assert resolve() == DATA
    assert [path.name for path in blobs()] == [SHA256]
    assert hub.fetched() == ["m.gguf"]


def test_an_interrupted_download_goes_on_where_it_stopped(hub: FakeHub) -> None:
    stop()
    (partial,) = blobs()
    have = partial.stat().st_size
    assert 0 < have < len(DATA)
    progress = RecordingProgress()
    assert resolve(progress) == DATA
    assert hub.ranges == [f"bytes={have}-"]
    (download,) = [phase for phase in progress.phases if phase.label == "Download m.gguf"]
    assert (download.total, download.done) == (len(DATA), len(DATA))
    assert [path.name for path in blobs()] == [SHA256]


def test_connections_may_break_again_and_again(hub: FakeHub) -> None:
    breaks = iter([3_000_000, 10, 2_000_000])

    class Breaking(dict[str, int]):
        def pop(self, key: str, default: object = None) -> int | None:  # type: ignore[override]
            return next(breaks, None)

    hub.breaks = Breaking()
    assert resolve() == DATA
    assert hub.ranges == ["bytes=3000000-", "bytes=3000010-", "bytes=5000010-"]


def test_a_connection_that_gives_nothing_is_given_up(hub: FakeHub) -> None:
    class Dead(dict[str, int]):
        def pop(self, key: str, default: object = None) -> int | None:  # type: ignore[override]
            return 0

    hub.breaks = Dead()
    error = refusal()
    assert isinstance(error, DownloadError)
    assert "could not be reached" in str(error)
    assert len(hub.fetched()) == 6


def test_a_file_that_is_shorter_than_stated_is_given_up(hub: FakeHub) -> None:
    """The list says more than the server gives, and no connection breaks."""
    hub.sizes["m.gguf"] = len(DATA) + 10
    assert isinstance(refusal(), DownloadError)


def test_a_server_that_knows_no_ranges_is_asked_for_the_whole(hub: FakeHub) -> None:
    stop()
    hub.knows_ranges = False
    progress = RecordingProgress()
    assert resolve(progress) == DATA
    (download,) = [phase for phase in progress.phases if phase.label == "Download m.gguf"]
    assert download.done == len(DATA)


@pytest.mark.parametrize("damage", ["other bytes", "too long"])
def test_a_damaged_part_is_deleted(hub: FakeHub, damage: str) -> None:
    stop()
    (partial,) = blobs()
    size = partial.stat().st_size if damage == "other bytes" else len(DATA) + 5
    partial.write_bytes(b"x" * size)
    error = refusal()
    assert isinstance(error, DownloadError)
    assert "try again" in error.hint
    assert resolve() == DATA


def test_a_disk_without_room_is_a_storage_error(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Usage:
        free = 1000

    monkeypatch.setattr(hub_transfer.shutil, "disk_usage", lambda path: Usage)
    error = refusal()
    assert isinstance(error, StorageError)
    assert f"takes {len(DATA)} bytes, and the disk has 1000 left" in str(error)
    assert hub.fetched() == []


def test_two_processes_fetch_it_once(hub: FakeHub) -> None:
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(resolve())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == [DATA, DATA]
    assert hub.fetched() == ["m.gguf"]


@pytest.mark.parametrize(
    ("size", "sha256", "is_large"),
    [
        (1 << 20, SHA256, True),
        ((1 << 20) - 1, SHA256, False),
        (50_000_000_001, SHA256, False),
        (1 << 20, "", False),
        (1 << 20, "../" * 21 + "x", False),
    ],
)
def test_what_is_large(size: int, sha256: str, is_large: bool) -> None:
    assert LargeFile(ONE, COMMIT, "m.gguf", size, sha256).is_large is is_large
