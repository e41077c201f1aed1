"""What happened to dependencies, told from two texts of a manifest."""

from __future__ import annotations

import pytest

from scaffold.vcs.dependencies import dependency_changes

PYPROJECT = """
[build-system]
requires = ["hatchling>=1.25"]
[project]
dependencies = ["Click>=8.1", "git_python"]
[project.optional-dependencies]
bench = ["pytest ; python_version < '3.12'"]
"""

CASES = {
    "pyproject.toml": (
        PYPROJECT,
        PYPROJECT.replace(">=8.1", ">=9").replace('"git_python"', '"jinja2[x]==3.1"'),
        ["click: >=8.1 is >=9 now", "git-python removed", "jinja2 ==3.1 added"],
    ),
    "requirements/dev.txt": (
        "# tools\n-r base.txt\nruff==0.5  # lint\n",
        "-r base.txt\nruff==0.6\n",
        ["ruff: ==0.5 is ==0.6 now"],
    ),
    "setup.cfg": (
        "[options]\ninstall_requires =\n    six\n",
        "[options]\ninstall_requires =\n    six>=1\n[options.extras_require]\na = rich\n",
        ["rich added", "six: any is >=1 now"],
    ),
    "web/package.json": (
        '{"dependencies": {"left-pad": "1.0.0"}}',
        '{"devDependencies": {"left-pad": "^2"}}',
        ["left-pad: 1.0.0 is ^2 now"],
    ),
    "Cargo.toml": (
        '[dependencies]\nserde = "1"\n',
        '[dependencies]\nserde = { version = "1", features = ["derive"] }\n',
        ['serde: 1 is {"features": ["derive"], "version": "1"} now'],
    ),
    "go.mod": (
        "module example.org/a\n\nrequire (\n\texample.org/b v1.0.0\n)\n",
        "module example.org/a\n\nrequire example.org/c v2.0.0\n",
        ["example.org/b v1.0.0 removed", "example.org/c v2.0.0 added"],
    ),
}


@pytest.mark.parametrize("path", CASES)
def test_what_changed_is_told_by_name(path: str) -> None:
    old, new, expected = CASES[path]
    assert [str(each) for each in dependency_changes(path, old, new)] == expected


def test_a_manifest_that_comes_or_goes_brings_or_takes_all_of_its_own() -> None:
    come = dependency_changes("requirements.txt", None, "a\nb==1\n")
    gone = dependency_changes("requirements.txt", "a\nb==1\n", None)
    assert [str(each) for each in come] == ["a added", "b ==1 added"]
    assert [str(each) for each in gone] == ["a removed", "b ==1 removed"]


@pytest.mark.parametrize(
    "broken", ["[project", "[project]\ndependencies = 3\n", "[tool]\npoetry = 1"]
)
def test_of_a_broken_manifest_nothing_is_told(broken: str) -> None:
    assert list(dependency_changes("pyproject.toml", PYPROJECT, broken)) == []


def test_other_files_name_no_dependencies() -> None:
    assert list(dependency_changes("notes.txt", "a\n", "b\n")) == []
