"""What resolvers answer, in their own words."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.deps.resolver import Group, Resolution, resolve_with_lock, resolve_with_pip
from tests.deps_places import make_sdist, make_wheel, use_index


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


SOURCE_ALONE = {
    "asked for": (["only==1.5", "click"], True, ["only"]),
    "taken in by another": (["app==1.0", "click"], True, ["only"]),
    "in any release": (["only", "click"], True, ["only"]),
    "beside a conflict of others": (["only==1.5", "app==1.0", "click<8"], False, ["only"]),
    "in no such release": (["only==9"], False, []),
    "not as another wants it": (["only<1.5", "app==1.0"], False, ["only"]),
    "not the newest": (["only", "old==1.0"], True, ["only"]),
}


@pytest.mark.heavy
@pytest.mark.parametrize("name", SOURCE_ALONE)
def test_a_release_without_a_wheel_is_no_conflict(index: Path, name: str) -> None:
    lines, is_ok, unknown = SOURCE_ALONE[name]
    make_sdist(index, "only", "1.4", {"only.py": ""})
    make_sdist(index, "only", "1.5", {"only.py": ""})
    make_wheel(index, "app", "1.0", {"app.py": ""}, requires=["only>=1.5", "click>=8"])
    make_wheel(index, "old", "1.0", {"old.py": ""}, requires=["only<1.5"])
    make_wheel(index, "click", "7.1.2", {"click.py": ""})
    make_wheel(index, "click", "8.1.0", {"click.py": ""})
    answer = resolve_with_pip(Group("all", tuple(lines), {}), None)
    assert answer.ok == is_ok
    assert answer.left_out == tuple(f"what {each} needs" for each in unknown)


# What uv 0.13.9 prints of such requirements.
UV = """
error: No solution found when resolving dependencies
  cause: Because black==24.* depends on click>=8.0.0,<9 and your project depends on click<8, we
         can conclude that nothing goes.
"""


# What it prints where it finds no wheel.
UNBUILT = """
error: No solution found when resolving dependencies
  cause: Because only==1.5 has no usable wheels, nothing goes.

hint: Wheels are required for `only` because building from source is disabled for all packages
"""


def answer_of(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Resolution | None:
    program = folder / "uv"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{text}END\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return resolve_with_lock("uv", {"pyproject.toml": ""}, ["click"], "pyproject.toml")


def test_the_resolver_of_a_project_is_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = answer_of(UV, tmp_path, monkeypatch)
    assert answer is not None
    assert (answer.ok, answer.said) == (False, tuple(row.strip() for row in UV.split("\n")[1:4]))


def test_what_a_resolver_would_build_is_asked_of_pip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert answer_of(UNBUILT, tmp_path, monkeypatch) is None
