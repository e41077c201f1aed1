"""What formats a repository's files is found in its configuration, whatever that looks like."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scaffold.target.formatters import Formatter, find_formatters, format_files
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


def run_in(root: Path, *argv: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *argv], cwd=root, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_imports_of_the_repository_are_first_party(tmp_path: Path) -> None:
    """What the tool writes has to pass the repository's own lint, which sees the real tree."""
    (tmp_path / "pyproject.toml").write_text("[tool.ruff.lint]\nselect = ['I']\n")
    for package in ("src/ours", "ours_too", "lib"):
        (tmp_path / package).mkdir(parents=True)
        (tmp_path / package / "__init__.py").touch()
    (tmp_path / "ours_too/there.py").touch()
    text = b"import ours_too.there\nimport requests\nimport os\nfrom ours.rewards.sums import a\n"
    given = {"src/ours/rewards/sums.py": b"a = 1\n", "tests/new/test_sums.py": text}
    files, warnings = format_files(tmp_path, given, find_formatters(tmp_path))
    assert warnings == ()
    assert not (tmp_path / "tests").exists()
    for path, data in files.items():
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_bytes(data)
    assert b"import os\n\nimport requests\n\nimport ours_too.there\n" in data
    assert "All checks passed" in run_in(tmp_path, "ruff", "check", "--no-cache", ".")
    assert "already formatted" in run_in(tmp_path, "ruff", "format", "--no-cache", "--check", ".")


def test_what_the_repository_excludes_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\nextend-exclude = ['made']\n")
    text = {"made/a.py": b"x  =  1\n", "b.py": b"x  =  1\n"}
    argv = ("ruff", "format", "-q", "--no-cache", "--force-exclude")
    files, _ = format_files(tmp_path, text, [Formatter(argv, (), "")])
    assert files == {"made/a.py": b"x  =  1\n", "b.py": b"x = 1\n"}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_only_plain_files_are_read_to_learn_from(project: Path) -> None:
    os.mkfifo(project / "my_rl/reward/pipe.py")
    (project / "my_rl/reward/zeros.py").symlink_to("/dev/zero")
    (project / "my_rl/reward/circle.py").symlink_to("circle.py")
    report = add_unit(load_kind("reward"), "sums", ["exact"], {}, Options(project))
    assert report.changes


def test_another_split_of_the_same_words_is_another_command() -> None:
    assert Formatter(("sh", "a b"), (), "").text != Formatter(("sh", "a", "b"), (), "").text


def test_ruff_is_found_as_a_module_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where it lies on PYTHONPATH, or its environment has no folder of programs on PATH."""
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\n")
    files, warnings = format_files(tmp_path, {"a.py": b"x  =  1\n"}, find_formatters(tmp_path))
    assert (files, warnings) == ({"a.py": b"x = 1\n"}, ())


@pytest.mark.parametrize(
    "argv",
    [
        ("ruff", "check", "--output-file", "{victim}"),
        ("ruff", "check", "--output-file={victim}"),
        ("ruff", "check", "-qo", "{victim}"),
        ("ruff", "format", "{victim}"),
        ("ruff", "format", "alias.py"),
        ("ruff", "format", ".."),
        ("isort", "{victim}"),
    ],
)
def test_a_known_formatter_that_may_write_elsewhere_needs_trust(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    victim = tmp_path / "victim.py"
    victim.write_text("x  =  1\n")
    root = tmp_path / "repository"
    root.mkdir()
    (root / "alias.py").symlink_to(victim)
    configured = [[each.format(victim=victim) for each in argv]]
    files, (warning,) = format_files(
        root, {"a.py": b"y  =  1\n"}, find_formatters(root, configured)
    )
    assert "it may write to other files" in warning
    assert files == {"a.py": b"y  =  1\n"}
    assert victim.read_text() == "x  =  1\n"


@pytest.mark.parametrize(
    "argv",
    [
        ("ruff", "check", "--select", "I", "--fix", "--config", "pyproject.toml"),
        ("ruff", "format", "--line-length", "60"),
        ("black", "-q", "--config=./pyproject.toml"),
        ("yapf", "-i", "--style", ".style.yapf"),
        ("mdformat", "--wrap", "88"),
    ],
)
def test_a_known_formatter_may_read_what_it_likes(tmp_path: Path, argv: tuple[str, ...]) -> None:
    for name in ("pyproject.toml", ".style.yapf"):
        (tmp_path / name).write_text("")
    assert Formatter(argv, (), "").is_harmless(tmp_path)


def test_a_module_of_the_repository_is_no_formatter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a formatter is a module alone, as in a folder on PYTHONPATH, -m looks here first."""
    (tmp_path / "ruff.py").write_text("open('a.py', 'w').write('stolen')\n")
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    files, _ = format_files(
        tmp_path, {"a.py": b"x  =  1\n"}, [Formatter(("ruff", "format"), (), "")]
    )
    assert files == {"a.py": b"x = 1\n"}


def test_a_formatter_that_changes_what_it_wrote_is_run_until_it_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """isort 9 wants a second look at a single name that is imported from a long module."""
    tool = tmp_path / "bin" / "isort"
    tool.parent.mkdir()
    steps = "text.replace('0', '1') if '0' in text else text.replace('1', '2')"
    tool.write_text(
        f"#!{sys.executable}\nimport sys\ntext = open(sys.argv[-1]).read()\n"
        f"open(sys.argv[-1], 'w').write({steps})\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    root = tmp_path / "repository"
    root.mkdir()
    files, warnings = format_files(root, {"a.py": b"x = 0\n"}, [Formatter(("isort",), (), "")])
    assert (files, warnings) == ({"a.py": b"x = 2\n"}, ())


def test_a_formatter_finds_where_the_repository_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """black reads no pyproject.toml without a table of its own above which there is no ``.git``.

    It takes the versions of Python from there, and so where a `with` may have parentheses.
    """
    tool = tmp_path / "bin" / "black"
    tool.parent.mkdir()
    tool.write_text(
        f"#!{sys.executable}\n"
        "import pathlib, subprocess, sys\n"
        "place = pathlib.Path(sys.argv[-1]).resolve()\n"
        "above = [each for each in place.parents if (each / '.git').exists()]\n"
        "found = [(above[0] / 'pyproject.toml').exists()] if above else []\n"
        "git = ['git', 'rev-parse', '--is-inside-work-tree']\n"
        "found.append(subprocess.run(git, capture_output=True).returncode != 0)\n"
        "place.write_text(repr(found))\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    root = tmp_path / "repository"
    (root / ".git").mkdir(parents=True)
    (root / "pyproject.toml").write_text("[project]\nrequires-python = '>=3.9'\n")
    black = Formatter(("black",), (), "")
    files, warnings = format_files(root, {"lib/a.py": b""}, [black])
    # And yet nobody takes the folder that it runs in for a work tree.
    assert (files, warnings) == ({"lib/a.py": b"[True, True]"}, ())
