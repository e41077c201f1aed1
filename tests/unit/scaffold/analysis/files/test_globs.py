"""One dialect of patterns for every setting: that of a .gitignore."""

from __future__ import annotations

import pytest

from scaffold.analysis.files.globs import matches

CASES = {
    "a folder's own files, and all below": (
        "docs/*",
        ["docs/a.md", "docs/b/c.md"],
        ["a/docs/b.md"],
    ),
    "a name at any depth": ("*.md", ["a.md", "docs/a.md"], ["a.mdx"]),
    "anchored by a slash": ("docs/*.md", ["docs/a.md"], ["docs/b/a.md", "x/docs/a.md"]),
    "a folder and all below": ("build/", ["build/a", "x/build/b/c"], ["build"]),
    "across folders": ("docs/**/a.md", ["docs/a.md", "docs/b/c/a.md"], ["a.md"]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_pattern_fits_as_a_line_of_a_gitignore_does(name: str) -> None:
    pattern, fitting, others = CASES[name]
    assert [path for path in fitting if not matches(path, [pattern])] == []
    assert [path for path in others if matches(path, [pattern])] == []


def test_a_later_line_takes_out_again() -> None:
    assert matches("docs/a.md", ["docs/", "!docs/b.md"])
    assert not matches("docs/b.md", ["docs/*", "!docs/b.md"])
