"""Is the skill upgrade-deps true? It is followed word by word, on distributions made here."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deps_places import NEW, OLD, make_wheel, use_index, write
from tests.docs.test_skills import SECTIONS, console_blocks, given_files

ROOT = Path(__file__).parents[2]
SKILL = ROOT / ".agents" / "skills" / "upgrade-deps" / "SKILL.md"

MANIFESTS = {
    "pyproject.toml": '[project]\nname = "report"\nversion = "1"\n'
    'dependencies = ["toolbox>=1,<2", "plugin>=1,<3"]\n',
    "requirements.txt": "toolbox==1.0\nplugin==1.0\n",
}
REPAIR = [
    ("width(path)", 'width(path, fill=" ")'),
    ("load(path)", 'load(path, encoding="utf-8")'),
    ("timeout=5", "time_out=5"),
    (".size)", ".size())"),
]
"""What the author of the sample does about the rows of the audit."""


def test_the_sections_stand_in_their_order() -> None:
    rows = [row[3:] for row in SKILL.read_text("utf-8").splitlines() if row.startswith("## ")]
    assert tuple(rows) == SECTIONS


@pytest.mark.heavy
def test_who_follows_the_skill_ends_with_nothing_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "index"
    use_index(monkeypatch, index, tmp_path / "cache")
    make_wheel(index, "toolbox", "1.0", OLD)
    make_wheel(index, "toolbox", "2.0", NEW)
    make_wheel(index, "plugin", "1.0", {"plugin.py": ""}, requires=["toolbox<2"])
    make_wheel(index, "plugin", "2.0", {"plugin.py": ""}, requires=["toolbox>=2"])
    text = SKILL.read_text(encoding="utf-8")
    ((path, content),) = given_files(text)
    tree = write(tmp_path / "tree", {**MANIFESTS, path: content.encode()})
    seen: list[str] = []
    for command, promised in console_blocks(text):
        asked = shlex.join(command)
        if asked in seen:
            source = (tree / path).read_text()
            for old, new in REPAIR:
                source = source.replace(old, new)
            (tree / path).write_text(source)
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=tree, capture_output=True, text=True
        )
        assert done.stdout.splitlines() == promised, done.stderr
        is_red = any(row.startswith(("breaks ", "conflict ")) for row in promised)
        assert done.returncode == int(is_red)
        seen.append(asked)
    assert len(seen) == len(set(seen)) + 1, "the audit is run again after the repair"
    last = subprocess.run(
        [sys.executable, "-m", "scaffold", "deps", "plan", "toolbox==2.0", "--no-resolve"],
        cwd=tree,
        capture_output=True,
        text=True,
    )
    assert "+++" not in last.stdout, "there is nothing left to edit"
