"""Relative paths that a lock or manifest names: they must stay inside their folder."""

from __future__ import annotations

from pathlib import PurePosixPath


def is_contained(path: str) -> bool:
    """Whether ``path`` is a plain relative POSIX path that cannot leave its folder.

    Refused: absolute paths, ``..``, empty and ``.`` parts, backslashes, drive colons, control
    characters, and text that is not valid Unicode. The check is of the text alone; that no part
    is a symbolic link is checked where the file is opened.
    """
    if not path or path != str(PurePosixPath(path)) or path.startswith("/"):
        return False
    if any(character in "\\:" or not character.isprintable() for character in path):
        return False
    return all(part not in {"", ".", ".."} for part in path.split("/"))
