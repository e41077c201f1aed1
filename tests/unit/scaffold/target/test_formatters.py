"""What formats a repository's files is found in its configuration, whatever that looks like."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scaffold.target.formatters import find_formatters, format_files
from scaffold.templating.manifests import load_kind
from scaffold.units.add import add_unit
from scaffold.units.context import Options

RUFF_SORT = "ruff check --select I --fix"


@pytest.mark.parametrize(
    ("text", "programs"),
    [
        ("", []),
        ("[tool.ruff]", ["ruff format"]),
        ("[tool.ruff]\nlint = 3", ["ruff format"]),
        ("[tool.ruff.lint]\nselect = ['E', 'I']", [RUFF_SORT, "ruff format"]),
        ("[tool.ruff]\nselect = ['I001']", [RUFF_SORT, "ruff format"]),
        ("[tool.ruff.lint]\nselect = 3", ["ruff format"]),
        ("[tool.ruff.lint]\nselect = [3]", ["ruff format"]),
        ("[tool.black]", ["black -q"]),
        ("[tool.isort]\n[tool.yapf]", ["isort -q", "yapf -i"]),
        ("tool = 3", []),
        ("[tool]\nruff = 3", ["ruff format"]),
        ("[tool.ruff", []),
    ],
)
def test_formatters_of_pyproject(tmp_path: Path, text: str, programs: list[str]) -> None:
    (tmp_path / "pyproject.toml").write_text(text + "\n")
    found = [" ".join(each.argv) for each in find_formatters(tmp_path)]
    assert len(found) == len(programs)
    assert all(argv.startswith(wanted) for argv, wanted in zip(found, programs, strict=True))


def test_a_failing_formatter_is_quoted_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\nline-length = 'long'\n")
    files, warnings = format_files(tmp_path, {"a.py": b"x  =  1\n"}, find_formatters(tmp_path))
    assert files == {"a.py": b"x  =  1\n"}
    assert len(warnings) == 1
    assert "line-length" in warnings[0]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_only_plain_files_are_read_to_learn_from(project: Path) -> None:
    os.mkfifo(project / "my_rl/reward/pipe.py")
    (project / "my_rl/reward/zeros.py").symlink_to("/dev/zero")
    (project / "my_rl/reward/circle.py").symlink_to("circle.py")
    report = add_unit(load_kind("reward"), "sums", ["exact"], {}, Options(project))
    assert report.changes
