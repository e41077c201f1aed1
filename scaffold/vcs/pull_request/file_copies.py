"""Files kept aside under second names, so that they can be put back byte for byte."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path


class FileCopies:
    """Copies of files: bytes, mode and time, untouched by git's filters.

    Git never writes into a file; it removes it and makes a new one. So a second link keeps the
    old one, and costs nothing.

    Args:
        root: The top folder of the work tree.
        folder: Where the second names go, best on the same file system.
        paths: Files below the root; those that are not there are left out.
    """

    def __init__(self, root: Path, folder: Path, paths: list[str]) -> None:
        self._root = root
        self._files: dict[str, Path] = {}
        self._folders: dict[Path, int] = {}
        for number, path in enumerate(paths):
            self._keep(path, folder / str(number))

    def _keep(self, path: str, kept: Path) -> None:
        place = self._root / path
        if not os.path.lexists(place):
            return
        # Folders too: git removes those that become empty, and with them their modes.
        for folder in place.parents:
            if folder == self._root or folder in self._folders:
                break
            self._folders[folder] = folder.stat().st_mode
        if place.is_dir() and not place.is_symlink():  # a submodule
            self._folders[place] = place.stat().st_mode
            return
        try:
            os.link(place, kept, follow_symlinks=False)
        except (OSError, NotImplementedError):  # another file system, or one without links
            shutil.copy2(place, kept, follow_symlinks=False)
        self._files[path] = kept

    def put_back(self) -> None:
        """Restore every file whose place now holds something else, or nothing.

        Raises:
            OSError: One cannot be written.
        """
        # Outer folders first, as the inner ones are made in them.
        for folder, mode in sorted(self._folders.items(), key=lambda each: len(each[0].parts)):
            if not folder.is_dir() or folder.is_symlink():
                with suppress(FileNotFoundError):
                    folder.unlink()
                folder.mkdir()
                # mkdir() applies the umask, chmod() does not.
                folder.chmod(stat.S_IMODE(mode))
        for path, kept in self._files.items():
            place = self._root / path
            if place.is_dir() and not place.is_symlink():
                place.rmdir()
            kept.replace(place)
