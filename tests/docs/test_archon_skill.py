"""Is the skill that adds Archon models true? Its blocks run in a copy of this repository."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from scaffold.errors import declared_codes
from tests.docs.test_skills import SECTIONS, console_blocks, everything_said, run, table_under

ROOT = Path(__file__).parents[2]
SKILL = ROOT / ".agents" / "skills" / "add-archon-model"
TEXT = (SKILL / "SKILL.md").read_text(encoding="utf-8")


def copy_of_repository(folder: Path) -> Path:
    """Copies what git lists, as it stands."""
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(argv, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, listing.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    return folder


def test_the_sections_stand_in_their_order() -> None:
    assert tuple(re.findall(r"^## (.+)$", TEXT, flags=re.MULTILINE)) == SECTIONS


@pytest.mark.heavy
def test_who_follows_it_ends_in_a_proven_model(tmp_path: Path) -> None:
    target = copy_of_repository(tmp_path / "repository")
    blocks = list(console_blocks(TEXT))
    assert [command[1] for command, _ in blocks] == ["add-archon-model", "verify"]
    for command, promised in blocks:
        done = run(command, target)
        # The Python that verify names is that of whoever runs it, as the skill says.
        printed = [row for row in done.stdout.splitlines() if not row.startswith("python ")]
        assert is_told(promised, printed), done.stderr + done.stdout


def is_told(promised: list[str], printed: list[str]) -> bool:
    """Return whether rows are those of a block, in which "..." stands for any number of them."""
    text = "\n".join(re.escape(row) for row in promised)
    pattern = text.replace(re.escape("...") + "\n", "(?:.*\n)*")
    return re.fullmatch(pattern, "\n".join(printed)) is not None


def test_the_mistakes_are_those_that_somebody_is_told() -> None:
    # A message may be broken into several literals by the end of a line.
    sources = re.sub(r'"\s*\n\s*f?"', "", everything_said())
    phrases = [row[0] for row in table_under(TEXT, "Common mistakes")]
    assert len(phrases) > 5
    for phrase in phrases:
        for part in phrase.split("..."):
            assert part.strip() in sources, f"nothing ever says {phrase!r}"


def test_the_codes_are_those_of_errors() -> None:
    told = {
        word for row in table_under(TEXT, "Your part") for word in re.findall("`([^`]+)`", row[0])
    }
    codes = {word for word in told if re.fullmatch(r"[a-z]+_[a-z_]+", word)}
    assert codes
    assert codes <= set(declared_codes())


def test_the_findings_of_a_bisection_have_these_keys() -> None:
    """Compares the skill's table with the function that makes a finding."""
    text = (SKILL / "references" / "bisection.md").read_text(encoding="utf-8")
    table = next(part for part in text.split("\n\n") if part.startswith("| key |"))
    told = {
        word
        for row in table.splitlines()[2:]
        for word in re.findall("`([^`]+)`", row.split("|")[1])
    }
    source = (ROOT / "scaffold/runners/archon_probe/proof/bisect.py").read_text(encoding="utf-8")
    assert len(told) > 5
    for key in told:
        assert json.dumps(key) in source, f"no finding has a {key!r}"
