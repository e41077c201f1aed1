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
        [
            ("click", "changed", ">=8.1", ">=9"),
            ("git-python", "removed", "", ""),
            ("jinja2", "added", "", "==3.1"),
        ],
    ),
    "requirements/dev.txt": (
        "# tools\n-r base.txt\nruff==0.5  # lint\n",
        "-r base.txt\nruff==0.6\n",
        [("ruff", "changed", "==0.5", "==0.6")],
    ),
    "setup.cfg": (
        "[options]\ninstall_requires =\n    six\n",
        "[options]\ninstall_requires =\n    six>=1\n[options.extras_require]\na = rich\n",
        [("rich", "added", "", ""), ("six", "changed", "", ">=1")],
    ),
    "web/package.json": (
        '{"dependencies": {"left-pad": "1.0.0"}}',
        '{"devDependencies": {"left-pad": "^2"}}',
        [("left-pad", "changed", "1.0.0", "^2")],
    ),
    "Cargo.toml": (
        '[dependencies]\nserde = "1"\n',
        '[dependencies]\nserde = { version = "1", features = ["derive"] }\n',
        [("serde", "changed", "1", '{"features": ["derive"], "version": "1"}')],
    ),
    "go.mod": (
        "module example.org/a\n\nrequire (\n\texample.org/b v1.0.0\n)\n",
        "module example.org/a\n\nrequire example.org/c v2.0.0\n",
        [("example.org/b", "removed", "v1.0.0", ""), ("example.org/c", "added", "", "v2.0.0")],
    ),
}


@pytest.mark.parametrize("path", CASES)
def test_what_changed_is_told_by_name(path: str) -> None:
    old, new, expected = CASES[path]
    assert [each[1:] for each in dependency_changes(path, old, new)] == expected


def test_a_manifest_that_comes_or_goes_brings_or_takes_all_of_its_own() -> None:
    come = dependency_changes("requirements.txt", None, "a\nb==1\n")
    gone = dependency_changes("requirements.txt", "a\nb==1\n", None)
    assert [each[1:] for each in come] == [("a", "added", "", ""), ("b", "added", "", "==1")]
    assert [each[1:] for each in gone] == [("a", "removed", "", ""), ("b", "removed", "==1", "")]


@pytest.mark.parametrize(
    "broken", ["[project", "[project]\ndependencies = 3\n", "[tool]\npoetry = 1"]
)
def test_of_a_broken_manifest_nothing_is_told(broken: str) -> None:
    assert list(dependency_changes("pyproject.toml", PYPROJECT, broken)) == []


def test_other_files_name_no_dependencies() -> None:
    assert list(dependency_changes("notes.txt", "a\n", "b\n")) == []
