"""What dotted names mean: tables of small repositories, each with the answer it must give."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.skills.repository.files import Files
from scaffold.skills.repository.python_index import PythonIndex

SIMPLE = {
    "pkg/__init__.py": "from .core import Engine as Motor, run\nfrom pkg.core import LIMIT\n",
    "pkg/core.py": """
LIMIT = 3
class Engine:
    size: int = 1
    def __init__(self, name, *, fast=False):
        self.name = name
    def start(self, delay=0): ...
def run(engine): ...
""",
}


def index_of(tmp_path: Path, sources: dict[str, str | bytes]) -> PythonIndex:
    for path, text in sources.items():
        place = tmp_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text if isinstance(text, bytes) else text.encode())
    return PythonIndex(Files(tmp_path, list(sources), has_git=False))


@pytest.mark.parametrize(
    ("dotted", "kind", "path"),
    [
        ("pkg", "module", "pkg/__init__.py"),
        ("pkg.core", "module", "pkg/core.py"),
        ("pkg.core.Engine", "class", "pkg/core.py"),
        ("pkg.Motor", "class", "pkg/core.py"),
        ("pkg.Motor.start", "function", "pkg/core.py"),
        ("pkg.Motor.size", "attribute", "pkg/core.py"),
        ("pkg.Motor.name", "attribute", "pkg/core.py"),
        ("pkg.run", "function", "pkg/core.py"),
        ("pkg.LIMIT", "constant", "pkg/core.py"),
        ("pkg.Engine", "missing", "pkg/__init__.py"),
        ("pkg.gone", "missing", "pkg/__init__.py"),
        ("pkg.core.gone", "missing", "pkg/core.py"),
        ("pkg.Motor.gone", "missing", "pkg/core.py"),
        ("numpy.array", "third_party", None),
        ("os.path.join", "function", None),
        ("not a name", "undecided", None),
    ],
)
def test_simple_names(tmp_path: Path, dotted: str, kind: str, path: str | None) -> None:
    found = index_of(tmp_path, {**SIMPLE}).find(dotted)
    assert (found.kind, found.path) == (kind, path)


@pytest.mark.parametrize(
    ("dotted", "text"),
    [
        ("pkg.run", "run(engine)"),
        ("pkg.Motor", "Engine(name, *, fast=False)"),
        ("pkg.Motor.start", "start(delay=0)"),
    ],
)
def test_signatures(tmp_path: Path, dotted: str, text: str) -> None:
    assert str(index_of(tmp_path, {**SIMPLE}).signature(dotted)) == text
