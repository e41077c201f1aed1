"""Modules that are not in the sources: what a build makes and what git ignores."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

from scaffold.analysis.files.files import Files
from scaffold.analysis.files.globs import matches

_SCRIPTS = ("setup.py", "CMakeLists.txt", "meson.build", "Cargo.toml", "BUILD", "BUILD.bazel")
_SETTINGS = ("pyproject.toml", "setup.cfg", "MANIFEST.in")


class Builds:
    """The modules that a build may put beside the sources.

    Args:
        files: The repository's files.
    """

    def __init__(self, files: Files) -> None:
        self._files = files

    def why_made(self, folder: str, name: str) -> str | None:
        """Return why a package may have a submodule that is not listed, or None."""
        path = f"{folder}/{name}" if folder else name
        if re.search(r"_pb2(_grpc)?\Z", name):
            return f"{path}.py is made from a .proto file"
        if path in self._files.folders:
            return f"{path} is a folder, which can be imported even without Python in it"
        # A build or a person has put it there.
        if any(self._files.is_unlisted(each) for each in (f"{path}.py", path)):
            return f"{path} is there and is not listed"
        if self._is_ignored(f"{path}.py"):
            return f"git ignores {path}.py"
        if self._is_ignored(f"{path}/__init__.py"):
            return f"git ignores {path}"
        # Build scripts list extensions in too many ways to read them; a mention is enough to doubt.
        if re.search(rf"\b{re.escape(name)}\b", self._scripts):
            return f"a build script names {name}"
        if f"{name}.py" in self._settings or f'.{name}"' in self._settings:
            return f"the project's settings name {name}"
        return None

    def _is_ignored(self, path: str) -> bool:
        return any(
            path.startswith(folder) and matches(path[len(folder) :], lines)
            for folder, lines in self._ignores
        )

    @cached_property
    def _ignores(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The folder of each ``.gitignore``, with its slash, and the lines in it."""
        paths = self._files.by_name.get(".gitignore", ())
        texts = ((path, self._files.text(path) or "") for path in paths)
        return tuple(
            (path.removesuffix(".gitignore"), tuple(text.splitlines())) for path, text in texts
        )

    @cached_property
    def _scripts(self) -> str:
        return "\n".join(self._texts(_SCRIPTS))

    @cached_property
    def _settings(self) -> str:
        return "\n".join(self._texts(_SETTINGS))

    def _texts(self, names: tuple[str, ...]) -> Iterator[str]:
        for name in names:
            for path in self._files.by_name.get(name, ()):
                yield self._files.text(path) or ""
