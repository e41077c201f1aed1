"""Is the page about installing skills true? Its tables and numbers are those of the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from scaffold.skills.install import hidden_text as hidden
from scaffold.skills.install import permissions, places
from scaffold.skills.install import source_tree as tree
from scaffold.skills.install.lock import LOCK

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "en" / "skills-install.md").read_text(encoding="utf-8")


def table(head: str) -> list[list[str]]:
    """Returns the rows of the table that begins with a word."""
    rows = re.search(rf"^\| {head} \|.*\n\|[-|]+\n((?:\|.*\n)+)", TEXT, re.MULTILINE)
    assert rows is not None
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[1].splitlines()]


def test_everything_that_is_listed_stands_there() -> None:
    assert [row[0] for row in table("listed")] == list(get_args(permissions.Kind))


def test_where_each_client_looks() -> None:
    told = {
        client: cells[1].strip("` ")
        for cells in table("client")
        for client in re.findall(r"--client (\w+)", cells[0])
    }
    assert told == places.CLIENTS


def test_the_numbers() -> None:
    assert f"more than {hidden.MAX_LOOSE} zero-width\ncharacters" in TEXT
    size = f"{tree.MAX_SKILL_BYTES / 2**20:.0f} MiB or {tree.MAX_SKILL_FILES} files"
    assert f"more than {size}" in TEXT
    assert f"`{LOCK}`" in TEXT


def test_the_row_of_the_page_on_trust() -> None:
    text = (ROOT / "docs" / "en" / "trust.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"^\| `scaffold skills install` .*$", text, re.MULTILINE)
    assert all(f"`{place}`" in row for place in (*places.ROOTS, LOCK))
