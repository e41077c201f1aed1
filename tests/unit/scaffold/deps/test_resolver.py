"""What resolvers answer, in their own words."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.deps.groups import Group
from scaffold.deps.resolver import resolve_with_pip
from tests.deps_places import make_wheel, use_index


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of wheels that pip finds."""
    use_index(monkeypatch, tmp_path / "index", tmp_path / "cache")
    return tmp_path / "index"


def test_what_pip_finds_is_named_as_indexes_compare_names(index: Path) -> None:
    make_wheel(index, "ruamel.yaml", "0.18", {"ruamel_yaml.py": ""})
    answer = resolve_with_pip(Group("all", ("Ruamel_YAML",), {}), None)
    assert answer.versions == {"ruamel-yaml": "0.18"}
