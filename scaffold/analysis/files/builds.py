"""Modules that are not in the sources: what a build makes and what git ignores."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cached_property

from scaffold.analysis.files.files import Files

_SCRIPTS = ("setup.py", "CMakeLists.txt", "meson.build", "Cargo.toml", "BUILD", "BUILD.bazel")
_SETTINGS = ("pyproject.toml", "setup.cfg", "MANIFEST.in")


class Builds:
    """Tells which modules may appear beside the sources.

    Args:
        files: The repository's files.
    """

    def __init__(self, files: Files) -> None:
        self._files = files

    def why_made(self, folder: str, name: str) -> str | None:
        """Says why a package may have a submodule that is not listed, or returns None."""
        path = f"{folder}/{name}" if folder else name
        if re.search(r"_pb2(_grpc)?\Z", name):
            return f"{path}.py is made from a .proto file"
        place = self._files.root / path
        if path in self._files.folders:
            return f"{path} is a folder, which can be imported even without Python in it"
        if place.with_name(f"{name}.py").exists() or place.exists():
            return f"{path} is there and is not listed"
        if any(_matches(pattern, f"{path}.py") for pattern in self._ignored):
            return f"git ignores {path}.py"
        if any(_matches(pattern, path) for pattern in self._ignored):
            return f"git ignores {path}"
        if re.search(rf"\b{re.escape(name)}\b", self._scripts):
            return f"a build script names {name}"
        if f"{name}.py" in self._settings or f'.{name}"' in self._settings:
            return f"the project's settings name {name}"
        return None

    @cached_property
    def _ignored(self) -> tuple[tuple[str, str], ...]:
        """The folder of each ``.gitignore`` and each pattern in it."""
        return tuple(
            (path.rpartition("/")[0], line.strip())
            for path in self._files.by_name.get(".gitignore", ())
            for line in (self._files.text(path) or "").splitlines()
            if line.strip() and not line.startswith(("#", "!"))
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


def _matches(rule: tuple[str, str], path: str) -> bool:
    """Tells whether a line of a ``.gitignore`` covers a path or a folder above it."""
    folder, pattern = rule
    if folder and not path.startswith(f"{folder}/"):
        return False
    parts = path[len(folder) :].strip("/").split("/")
    pattern = pattern.rstrip("/").removeprefix("**/")
    if "/" not in pattern:
        return any(fnmatchcase(part, pattern) for part in parts)
    anchored = pattern.lstrip("/").replace("**/", "*")
    heads = ("/".join(parts[: count + 1]) for count in range(len(parts)))
    return any(fnmatchcase(head, anchored) for head in heads)
