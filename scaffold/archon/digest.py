"""What the proof of a model depends on, as one hash."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROBES = HERE.parent / "runners" / "archon_probe"
SHARED = Path("areal/experimental/models/archon")


def shared_digest(root: Path) -> str:
    """Return a hash over the probes, the writing and the parts that models of a target share.

    It depends on what the files hold alone: a file that moves invalidates no result.

    Args:
        root: The target's folder. Folders of models are left out: they are what is proven.
    """
    found = hashlib.sha256()
    for data in sorted(path.read_bytes() for path in _files(root)):
        found.update(hashlib.sha256(data).digest())
    return found.hexdigest()


def _files(root: Path) -> Iterator[Path]:
    yield from sorted(PROBES.rglob("*.py"))
    yield from sorted((HERE / "codegen").rglob("*.py"))
    yield HERE / "render.py"
    yield HERE / "coverage_page.py"  # whose rows are what is kept
    archon = root / SHARED
    for path in sorted(archon.rglob("*.py")):
        inside = path.relative_to(archon)
        # A folder with a spec is a model, any other a part that models share.
        is_model = len(inside.parts) > 1 and (archon / inside.parts[0] / "spec.py").is_file()
        if not is_model and path.name != "__init__.py":
            yield path
