"""What a check from memory depends on."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import scaffold
from scaffold.analysis.files.files import Files
from scaffold.skills.check.memory import identity_of, tool_state
from scaffold.skills.check.settings import Settings

TOOL = Path(scaffold.__file__).parent


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    """A tool of two sources, one of them in a room of its own."""
    for path in ("tool/one.py", "tool/room/two.py", "tool/room/__pycache__/two.py", "tool/a.txt"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("# some\n")
    return tmp_path / "tool"


def test_the_state_of_a_tool_is_that_of_its_sources(tool: Path):
    before = tool_state(str(tool))
    assert [each.split()[0] for each in before] == [str(tool / "one.py"), str(tool / "room/two.py")]
    (tool / "a.txt").write_text("# other\n")
    assert tool_state(str(tool)) == before


def test_a_source_that_is_changed_added_or_removed_changes_the_state(tool: Path):
    states = [tool_state(str(tool))]
    two = tool / "room/two.py"
    os.utime(two, ns=(1, 1))
    states.append(tool_state(str(tool)))
    two.with_name("three.py").write_text("")
    states.append(tool_state(str(tool)))
    two.unlink()
    states.append(tool_state(str(tool)))
    assert len({tuple(each) for each in states}) == 4


def test_every_module_that_a_check_imports_has_a_say():
    code = (
        "import sys, scaffold.skills.check.command, scaffold.analysis.cli.programs\n"
        "print(*[each.__file__ for name, each in sys.modules.items() if name[:8] == 'scaffold'])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(TOOL.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    imported = set(ran.stdout.split())
    assert inspect.getfile(Files) in imported
    assert imported <= {each.rsplit(" ", 2)[0] for each in tool_state(str(TOOL))}


def test_the_identity_depends_on_the_settings_and_the_list_of_files(tmp_path: Path):
    files = [Files(tmp_path, paths, has_git=False) for paths in (["a.md"], ["a.md", "b.md"])]
    wishes = [Settings(), Settings(ignore=("path-missing",))]
    assert len({identity_of(each, wish) for each in files for wish in wishes}) == 4
    assert identity_of(files[0], wishes[0]) == identity_of(files[0], Settings())
