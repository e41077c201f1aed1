"""Project files: programs, extras, groups; Makefiles and their like; descriptions of programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scaffold.analysis.cli.cli_json import read_cli
from scaffold.analysis.files.files import list_files
from scaffold.analysis.project.projects import Project
from scaffold.analysis.project.tasks import just_tasks, make_tasks, npm_tasks
from scaffold.analysis.repository import Repository
from scaffold.config import FieldError


def repository(root: Path, files: dict[str, str]) -> Repository:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return Repository(list_files(root))


def project(root: Path, name: str, text: str) -> Project:
    (found,) = repository(root, {name: text}).programs.projects.all
    return found


def test_setup_cfg_is_read(tmp_path: Path) -> None:
    text = (
        "[metadata]\nname = tidy\n[options.entry_points]\nconsole_scripts =\n    tidy = a.b:main\n"
        "[options.extras_require]\ndev = ruff\n"
    )
    found = project(tmp_path, "setup.cfg", text)
    assert (found.name, found.scripts, found.extras) == ("tidy", {"tidy": "a.b:main"}, {"dev"})


def test_setup_py_is_read_and_not_run(tmp_path: Path) -> None:
    text = (
        "from setuptools import setup\nraise SystemExit\n"
        "setup(name='tidy', extras_require=EXTRAS,\n"
        "    entry_points={'console_scripts': ['tidy = a.b:main']})\n"
    )
    found = project(tmp_path, "setup.py", text)
    assert (found.name, found.scripts) == ("tidy", {"tidy": "a.b:main"})
    assert found.extras is None, "they are computed"


def test_poetry_is_read(tmp_path: Path) -> None:
    text = (
        "[tool.poetry]\nname = 'tidy'\n[tool.poetry.scripts]\ntidy = 'a:main'\n"
        "[tool.poetry.extras]\nfast_sort = ['numpy']\n[tool.poetry.group.docs.dependencies]\n"
    )
    found = project(tmp_path, "pyproject.toml", text)
    assert (found.scripts, found.extras) == ({"tidy": "a:main"}, {"fast-sort"})
    assert found.groups == {"docs"}


@pytest.mark.parametrize(
    "text", ["[project", "[[project]]", "project = 1", "", "[project]\nname=1"]
)
def test_a_broken_project_file_declares_nothing(text: str, tmp_path: Path) -> None:
    found = project(tmp_path, "pyproject.toml", text)
    assert (found.name, found.scripts) == ("", {})


def test_a_makefile_has_targets_patterns_and_unknowns(tmp_path: Path) -> None:
    text = (
        "X := a:b\nall: one two\none two: dep ; echo\n\techo three: four\ndoc-%: x\n.PHONY: far\n"
        "a \\\n  b: c\nurl = http://x\n"
    )
    files = repository(tmp_path, {"Makefile": text, "inc.mk": "include x.mk\n$(T): y\n"}).files
    found = make_tasks("Makefile", files)
    assert found is not None
    for name in ("all", "one", "two", "far", "a", "b", "doc-html"):
        assert found.has(name), name
    assert not any(found.has(name) for name in ("three", "X", "url", "dep", "doc-"))
    assert not found.why_open
    other = make_tasks("inc.mk", files)
    assert other is not None
    assert other.why_open


def test_other_lists_of_tasks(tmp_path: Path) -> None:
    texts = {
        "package.json": '{"scripts": {"a:b": "x"}}',
        "justfile": "set a := ['sh']\nx := 'a'\nalias r := run\n@run arg='1' *m: d\n  echo y:\n",
        "web/package.json": "[1]",
    }
    files = repository(tmp_path, texts).files
    npm, just = npm_tasks("package.json", files), just_tasks("justfile", files)
    assert npm is not None
    assert npm.names == {"a:b"}
    assert just is not None
    assert just.names == {"run", "r"}
    assert npm_tasks("web/package.json", files) is None


def test_a_described_program_is_known(tmp_path: Path) -> None:
    described = {
        "schema": 1,
        "programs": [
            {
                "name": "tidy",
                "open": True,
                "commands": [
                    {"name": "sort", "options": [{"names": ["--how"], "choices": ["up", "down"]}]}
                ],
            }
        ],
    }
    files = {
        "pyproject.toml": "[tool.scaffold.skills]\ncli = ['cli.json', 'gone.json']\n",
        "cli.json": json.dumps(described),
    }
    program = repository(tmp_path, files).programs.console("tidy")
    assert program is not None
    assert program.command is not None
    assert program.command.is_open
    sort = program.command.find(("sort",))
    assert sort is not None
    how = sort.option("--how")
    assert how is not None
    assert (how.num_values, how.choices) == (1, ("up", "down"))


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"schema": 2, "programs": []}', '{"schema": 1, "programs": [{"help": "x"}]}'],
)
def test_a_broken_description_is_refused(text: str) -> None:
    with pytest.raises(FieldError, match="cli"):
        read_cli(text, "cli.json")
