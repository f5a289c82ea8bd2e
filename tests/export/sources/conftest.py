from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from tests.export.sources.fake_hub import FakeHub, serve


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package cache of the test's own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("MRS_CACHE_DIR", str(folder))
    return folder


@pytest.fixture(autouse=True)
def links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels, which is all that pip sees: no index, no configuration, no network."""
    for name in os.environ:
        if name.startswith("PIP_"):
            monkeypatch.delenv(name)
    folder = tmp_path / "links"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """A Hub of the test's own, with an empty cache and no token."""
    hub = FakeHub()
    with serve(hub) as address:
        use_hub(monkeypatch, address, tmp_path / "hub")
        yield hub


def use_hub(monkeypatch: pytest.MonkeyPatch, address: str, home: Path) -> None:
    """Have huggingface_hub use another server and another cache."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    template = address + "/{repo_id}/resolve/{revision}/{filename}"
    settings = {
        "ENDPOINT": address,
        "HUGGINGFACE_CO_URL_TEMPLATE": template,
        "HF_HUB_CACHE": str(home / "cache"),
        "HF_TOKEN_PATH": str(home / "token"),
        "HF_STORED_TOKENS_PATH": str(home / "tokens"),
        "HF_HUB_OFFLINE": False,
        "HF_HUB_DISABLE_XET": True,
    }
    for name, value in settings.items():
        monkeypatch.setattr(constants, name, value)
