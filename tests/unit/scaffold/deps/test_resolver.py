"""What resolvers answer, in their own words."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.deps.groups import Group
from scaffold.deps.resolver import resolve_with_lock, resolve_with_pip
from tests.deps_places import make_wheel, use_index


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of wheels that pip finds."""
    use_index(monkeypatch, tmp_path / "index", tmp_path / "cache")
    return tmp_path / "index"


def test_pip_says_who_wants_what_with_extras_too(index: Path) -> None:
    make_wheel(index, "click", "7.1.2", {"click.py": ""})
    make_wheel(index, "click", "8.1.0", {"click.py": ""})
    make_wheel(index, "black", "24.1.0", {"black.py": ""}, requires=["click>=8.0.0,!=8.0.1"])
    answer = resolve_with_pip(Group("all", ("black[d]==24.1.0", "click<8"), {}), None)
    assert not answer.ok
    assert {
        "The user requested click<8",
        "black[d] 24.1.0 depends on click!=8.0.1 and >=8.0.0",
    } <= {*answer.said}


def test_pip_says_that_a_release_is_nowhere(index: Path) -> None:
    make_wheel(index, "click", "7.1.2", {"click.py": ""})
    answer = resolve_with_pip(Group("all", ("click==9",), {}), None)
    assert "ERROR: No matching distribution found for click==9" in answer.said


# What uv 0.13.9 prints of such requirements.
UV = """
error: No solution found when resolving dependencies
  cause: Because black==24.* depends on click>=8.0.0,<9 and your project depends on click<8, we
         can conclude that nothing goes.
"""


def test_the_resolver_of_a_project_is_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "uv"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{UV}END\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    answer = resolve_with_lock("uv", {"pyproject.toml": ""}, ["click"], "pyproject.toml")
    assert answer is not None
    assert (answer.ok, answer.said) == (False, tuple(row.strip() for row in UV.split("\n")[1:4]))
