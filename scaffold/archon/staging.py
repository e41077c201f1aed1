"""Written files as a package that can be imported, while nothing of the target has changed."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from scaffold.archon.codegen.names import ARCHON
from scaffold.archon.shared_parts import THEIRS, imported
from scaffold.errors import TargetError

if TYPE_CHECKING:
    from scaffold.templating.render import RenderedFile


def stage_files(files: Iterable[RenderedFile], inside: str, folder: Path) -> Path | None:
    """Write the files of a model where a probe finds them, and its test beside them.

    Args:
        files: The files as they are to be in the target.
        inside: The model's folder in the target.
        folder: An empty folder.

    Returns:
        The staged test; None without one.
    """
    test = None
    parent = PurePosixPath(inside).parent
    for file in files:
        path = PurePosixPath(file.path)
        # The test lies elsewhere in the target, and beside the package here.
        if path.is_relative_to(parent):
            place = folder / "package" / path.relative_to(parent)
        else:
            place = folder / "tests" / path.name
            test = place if file.role == "test" else test
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.data)
    return test


def check_bases(root: Path, parts: str) -> None:
    """Refuse a checkout that lacks what written models extend or call, before anything is measured.

    Args:
        root: The target's folder.
        parts: Dotted name of the package of shared parts; nothing is checked where it is our own.

    Raises:
        TargetError: A module, or a name in one, is not there.
    """
    if parts == ARCHON:
        return
    missing = [
        f"{module}.{name}"
        for module, names in THEIRS.items()
        for name in names
        if not _has(root, module, name)
    ]
    if missing:
        raise TargetError(
            f"{root} lacks what Archon models of AReaL extend or call: {_some(missing)}",
            code="target_lacks",
            hint="update the checkout to a release whose archon package has these names",
        )


def check_shared_parts(root: Path, package: str, texts: Mapping[str, bytes]) -> None:
    """Refuse a target that lacks what the written files import from it.

    Args:
        root: The target's folder.
        package: Its top-level package.
        texts: The written files, by their paths.

    Raises:
        TargetError: A module, or a name in one, is not there.
    """
    python = (text for path, text in texts.items() if path.endswith(".py"))
    found = set(itertools.chain.from_iterable(map(imported, python)))
    # Modules that are about to be written need not be there.
    parts = (PurePosixPath(path).with_suffix("").parts for path in texts)
    own = {".".join(each).removesuffix(".__init__") for each in parts}
    missing = [
        f"{name}.{member}" if member else name
        for name, member in sorted(found)
        if name.partition(".")[0] == package and name not in own and not _has(root, name, member)
    ]
    if missing:
        raise TargetError(
            f"{root} lacks the shared parts that Archon models import: {_some(missing)}",
            code="target_lacks",
            hint="copy areal/experimental/models/archon of this release into the repository first",
        )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _has(root: Path, module: str, member: str) -> bool:
    base = root / module.replace(".", "/")
    file = next((f for f in (base.with_suffix(".py"), base / "__init__.py") if f.is_file()), None)
    if file is None:
        return False
    # A package may hand out its names lazily, so the text has to say the name somewhere, no more.
    text = file.read_text(encoding="utf-8", errors="replace")
    return (
        not member
        or member in text
        or (base / f"{member}.py").is_file()
        or (base / member).is_dir()
    )
