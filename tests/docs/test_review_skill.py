"""Is the skill around reviews followed to its end, word by word?

The repository that it tells of is made here, with fixed names and dates, so that the names of
commits are the promised ones. A line of dots in the skill stands for lines that it leaves out.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_commit_skills import FIXED
from tests.docs.test_skills import (
    FOLDER,
    SECTIONS,
    console_blocks,
    everything_said,
    given_files,
    table_under,
)
from tests.integration.scaffold.git_places import ENV, commit, git, make_repository

SKILL = FOLDER / "review-pr" / "SKILL.md"
TEXT = SKILL.read_text(encoding="utf-8")
PRICE = '''"""Prices."""


def price(net: float, digits: int = 2) -> float:
    """Returns the price with tax."""
    return round(1.19 * net, digits)
'''
CART = '''"""Carts."""

from shop import price


def total(rows: list[float]) -> float:
    """Returns what a cart costs."""
    return sum(price(row, digits=2) for row in rows)
'''
AGENT = """---
name: code-reviewer
description: Reviews a change for faults that tests do not find.
---

You find what is wrong with a change before its users do.
"""


def make_shop(folder: Path) -> Path:
    """Makes the repository that the skill tells of, on the branch that is reviewed."""
    make_repository(folder)
    files = {
        "shop/__init__.py": "from shop.price import price as price\n",
        "shop/price.py": PRICE,
        "shop/cart.py": CART,
        "tests/test_price.py": "from shop import price\n\n\ndef test_price():\n"
        "    assert price(100) == 119\n",
        ".claude/agents/code-reviewer.md": AGENT,
    }
    commit(folder, "feat: sell things", files, **FIXED)
    git(folder, "branch", "-M", "main")
    git(folder, "switch", "-q", "-c", "whole-prices")
    whole = PRICE.replace(", digits: int = 2", "").replace("net, digits", "net")
    commit(folder, "feat(price): give whole prices", {"shop/price.py": whole}, **FIXED)
    return folder


def test_the_sections_stand_in_their_order() -> None:
    text = re.sub(r"^```.*?^```$", "", TEXT, flags=re.MULTILINE | re.DOTALL)
    assert tuple(re.findall(r"^## (.+)$", text, flags=re.MULTILINE)) == SECTIONS


@pytest.mark.heavy
def test_who_follows_the_skill_has_reviewed(tmp_path: Path) -> None:
    folder = make_shop(tmp_path / "shop")
    for path, content in given_files(TEXT):
        (folder / path).write_text(content, encoding="utf-8")
    commands: list[list[str]] = []
    for command, promised in console_blocks(TEXT):
        argv = [sys.executable, "-m", *command] if command[0] == "scaffold" else command
        done = subprocess.run(
            argv, cwd=folder, env={**ENV, **FIXED}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert is_shown(promised, done.stdout.splitlines()), done.stdout
        commands.append(command)
    assert [each[:2] for each in commands].count(["scaffold", "review"]) >= 2
    assert git(folder, "status", "--porcelain") == ""


def is_shown(promised: list[str], printed: list[str]) -> bool:
    """Return whether the promised lines were printed in a row, but for those of the dots."""
    parts: list[list[str]] = [[]]
    for line in promised:
        if line == "...":
            parts.append([])
        else:
            parts[-1].append(line)
    at = 0
    for number, part in enumerate(parts):
        places = [at] if number == 0 else range(at, len(printed) - len(part) + 1)
        found = next((p for p in places if printed[p : p + len(part)] == part), None)
        if found is None:
            return False
        at = found + len(part)
    return at == len(printed) or promised[-1] == "..."


def test_dots_stand_for_lines_and_nothing_else_may_be_missing() -> None:
    printed = ["a", "b", "c", "d"]
    assert is_shown(["a", "...", "c", "d"], printed)
    assert is_shown(["a", "b", "..."], printed)
    assert not is_shown(["a", "c", "..."], printed)
    assert not is_shown(["a", "...", "c"], printed)


def test_the_mistakes_are_those_that_somebody_is_told() -> None:
    phrases = [row[0] for row in table_under(TEXT, "Common mistakes")]
    assert len(phrases) > 5
    sources = everything_said()
    for phrase in phrases:
        for part in phrase.split("..."):
            assert part.strip() in sources, f"nothing ever says {phrase!r}"
