"""Lines are broken where ruff breaks them; ruff itself is the reference."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from scaffold.archon.codegen.layout import WIDTH, break_lines

STATEMENTS = Path(__file__).with_name("long_lines.txt").read_text()


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_lines_break_where_ruff_breaks_them(depth: int) -> None:
    opened = "".join(f"{'    ' * each}if 1:\n" for each in range(depth))
    source = opened + textwrap.indent(STATEMENTS, "    " * depth)
    ruff = [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length", str(WIDTH), "-"]
    done = subprocess.run(ruff, input=source, capture_output=True, text=True, check=True)
    ours = [line for line in break_lines(source).splitlines() if line]
    assert ours == [line for line in done.stdout.splitlines() if line]


def test_text_and_comments_stay_as_they_are() -> None:
    source = f'"""{"word " * 30}\nsecond\n"""\n# {"word " * 30}\n'
    assert break_lines(source) == source
