"""Whether modules can be imported: by the target's interpreter, in a copy of the repository."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from scaffold.errors import TargetError
from scaffold.target.target import Target
from scaffold.units.init.draft import import_roots
from scaffold.verify.interpreter import find_interpreter
from scaffold.verify.process import run_limited

TIMEOUT_S = 120.0
MAX_BYTES = 1_000_000
"""Larger files are no part of what is imported."""

Importer = Callable[[Sequence[str], Mapping[str, bytes]], "dict[str, str]"]
"""Module names and changed files in, module to the error of its import out; "" where it works."""

# One module after the other in one process: what the first brings in, the next need not load again.
_SCRIPT = """
import importlib, json, sys
names, out = json.loads(sys.argv[1]), sys.argv[2]
found = {}
for name in names:
    try:
        importlib.import_module(name)
        found[name] = ""
    except BaseException as error:
        found[name] = f"{type(error).__name__}: {error}"
    with open(out, "w") as file:
        json.dump(found, file)
"""


def importer_for(target: Target, asked: str | None, paths: Iterable[str]) -> tuple[Importer, str]:
    """Return what imports modules of a repository in a copy of it, and with which interpreter.

    Args:
        target: The repository.
        asked: The interpreter that a person named, or None.
        paths: Its files.

    Raises:
        TargetError: No interpreter can be run.
    """
    interpreter = find_interpreter(target, asked)
    listed = sorted(paths)

    def run(modules: Sequence[str], changed: Mapping[str, bytes]) -> dict[str, str]:
        with tempfile.TemporaryDirectory(prefix="scaffold-import-") as name:
            folder = Path(name) / "copy"
            _copy(target.root, folder, listed)
            for path, data in changed.items():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(data)
            out = Path(name) / "found.json"
            argv = [*interpreter.argv, "-c", _SCRIPT, json.dumps(list(modules)), str(out)]
            # A new unit may be a package of its own, with a root of its own.
            roots = import_roots([*listed, *changed])
            _describe_packages(folder, roots, Path(name) / "metadata")
            places = os.pathsep.join(
                [*(str(folder / root) for root in roots), str(Path(name) / "metadata")]
            )
            done = run_limited(argv, folder, TIMEOUT_S, {"PYTHONPATH": places})
            found: dict[str, str] = json.loads(out.read_text()) if out.exists() else {}
            return {each: found.get(each, done.describe()) for each in modules}

    return run, interpreter.describe()


def _describe_packages(folder: Path, roots: Iterable[str], place: Path) -> None:
    """Write what an installation would say of the copy's packages, which look up their version."""
    for root in roots:
        try:
            project = tomllib.loads((folder / root / "pyproject.toml").read_text("utf-8"))[
                "project"
            ]
            name = str(project["name"])
        except (OSError, KeyError, TypeError, ValueError):
            continue
        info = place / f"{re.sub(r'[^A-Za-z0-9.]+', '_', name)}-0.dist-info"
        info.mkdir(parents=True, exist_ok=True)
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {project.get('version', '0')}\n"
        (info / "METADATA").write_text(text, "utf-8")


def _copy(root: Path, folder: Path, paths: Iterable[str]) -> None:
    folder.mkdir()
    for path in paths:
        place = root / path
        try:
            if place.is_symlink() or not place.is_file() or place.stat().st_size > MAX_BYTES:
                continue
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(place, folder / path)
        except OSError as error:
            raise TargetError(f"{place} cannot be read: {error}", code="target_invalid") from error
