"""A stand-in for pip and a package index."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mrs.errors import DownloadError
from mrs.export.progress import Progress
from mrs.export.sources import package_download, package_index
from mrs.export.sources.package_requirement import PackageRequirement


@dataclass
class Index:
    """Hands out wheels of a folder and counts how often."""

    folder: Path
    newest: str = "1.0"
    reachable: bool = True
    downloads: list[str] = field(default_factory=list)

    def newest_version(self, name: str, scratch: Path, progress: Progress) -> str:
        if not self.reachable:
            raise DownloadError("The index is away.", hint="Wait.")
        return self.newest

    def download_wheel(
        self, requirement: PackageRequirement, scratch: Path, progress: Progress
    ) -> Path:
        if not self.reachable:
            raise DownloadError("The index is away.", hint="Wait.")
        self.downloads.append(str(requirement))
        name = requirement.name.replace("-", "_")
        wheel = next(self.folder.glob(f"{name}-{requirement.version}*.whl"))
        (scratch / "wheel").mkdir()
        return Path(shutil.copy(wheel, scratch / "wheel" / wheel.name))

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Take the place of pip."""
        monkeypatch.setattr(package_download, "download_wheel", self.download_wheel)
        monkeypatch.setattr(package_index, "newest_version", self.newest_version)
