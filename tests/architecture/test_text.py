"""Is the tracked text fit for strangers? No path of a machine, no registry, no bare silence."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@cache
def tracked_files() -> list[Path]:
    """Returns the text files that git knows."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listing.returncode:
        pytest.skip("not a git checkout, so nothing is tracked")
    names = listing.stdout.decode().split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def lines_that_match(
    pattern: str, suffixes: tuple[str, ...] = (), excused: str | None = None
) -> list[str]:
    """Returns ``path:line: text`` for every tracked line that a pattern finds; this file apart.

    Args:
        pattern: What to find in a line.
        suffixes: Of the files to read; all of them where empty.
        excused: A line is left out where the line above it matches this.
    """
    found = []
    for path in tracked_files():
        if path == Path(__file__) or (suffixes and path.suffix not in suffixes):
            continue
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(lines, 1):
            above = lines[number - 2] if number > 1 else ""
            if re.search(pattern, line) and not (excused and re.search(excused, above)):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}")
    return found


def test_no_path_of_a_machine():
    # A home folder, a drive or a checkout of somebody's; `/home/user` in an example is nobody's.
    home = (
        r"(?<![\w.])/(root|home/(?!user\b|you\b)\w+|Users/(?!you\b)\w+|work|mnt/\w+|data\d*/\w+)/"
    )
    found = lines_that_match(home + r"|\b[A-Z]:\\Users\\")
    # What public pages claim is kept as they write it.
    assert [each for each in found if not each.startswith("benchmarks/skills/judged/")] == []


def test_no_registry_address():
    # The option alone, as a reader of command lines knows it, names no host.
    named = (
        r"(extra-)?index-url[ =]+http(?!s://example\.org)|--find-links[ =]|registry\s*=\s*[\"']http"
    )
    assert lines_that_match(named) == []


def test_no_key_or_token():
    secrets = r"\b(hf_[A-Za-z0-9]{30,}|sk-[A-Za-z0-9]{32,}|ghp_[A-Za-z0-9]{36}|AKIA[0-9A-Z]{16})\b"
    assert lines_that_match(secrets) == []


def test_a_silenced_check_gives_its_reason():
    # A mark for the linter or the type checker needs words behind or above it, which say why. The
    # tests are not type-checked: there a mark is a note for editors.
    codes = r"[A-Z]+\d+(,\s*[A-Z]+\d+)*"
    bare = (
        rf"#\s*(noqa(:\s*{codes})?|(type|pyright):\s*ignore(\[[\w, -]+\])?|pragma:\s*no cover)\s*$"
    )
    found = lines_that_match(bare, (".py",), excused=r"^\s*#")
    assert [line for line in found if not line.startswith("tests/")] == []


def test_no_unfinished_marks():
    found = lines_that_match(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b", (".py", ".md", ".toml"))
    # The pages of rules show texts of others, with their marks.
    assert [line for line in found if not line.startswith("docs/en/rules/")] == []


def test_the_licences_are_one_text():
    assert (ROOT / "LICENSE").read_bytes() == (ROOT / "areal" / "LICENSE").read_bytes()


@pytest.mark.parametrize(
    ("suffixes", "tic"),
    [
        # A class is a noun, a function an order; "Is", "Says" and "Tells" are neither.
        ((".py",), r'^\s*[rR]?"""(Is|Are|Says|Tells|Holds|Returns|Yields|Checks|Writes) '),
        # A file has, shows or sets something and is somewhere; only people say, tell and stand.
        ((".py", ".md", ".jinja"), r"(?<![\"'])\b([Ss]ays|[Tt]ells|[Ss]tands)\b(?![\"'])"),
        # The field fixes what is wrong.
        ((".py",), r"\b[Mm]end(s|ed)?\b"),
        ((".md",), r"\b(nobody|no one) (knows|can know|can tell)\b|\bharms? no other\b"),
    ],
)
def test_plain_words(suffixes: tuple[str, ...], tic: str) -> None:
    own = (
        "areal/",
        "scaffold/",
        "docs/en/",
        "templates/",
        "README.md",
        "AGENTS.md",
        "CONTRIBUTING.md",
        ".agents/",
    )
    # Of what is generated the source is read; a model's file is what the generator wrote.
    others = ("docs/en/rules/", "docs/en/archon-coverage.md", "areal/experimental/models/archon/")
    others += ("scaffold/archon/codegen/tests.py",)  # whose text is that of the generated tests
    found = lines_that_match(tic, suffixes)
    assert [line for line in found if line.startswith(own) and not line.startswith(others)] == []
