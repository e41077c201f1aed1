"""Is the skill that translates true? Its blocks run in a repository, and its page is written."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from scaffold.translation.finding import RULES
from scaffold.translation.plan import WORDS
from tests.docs.test_skills import (
    SECTIONS,
    console_blocks,
    everything_said,
    run,
    table_under,
)

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / ".agents/skills/translate-doc-zh/SKILL.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs/en/translation.md").read_text(encoding="utf-8")
SHOWN = r"^Below, this is `([^`]+)`:\n\n```markdown\n(.*?)^```$"
WRITTEN = SHOWN.replace("Below, this is", "Write the translation,")


def shown(pattern: str) -> list[tuple[str, str]]:
    """Returns the files that the skill shows, with their texts."""
    return re.findall(pattern, TEXT, flags=re.MULTILINE | re.DOTALL)


def bare(text: str) -> str:
    """Returns a text without its fenced code, which holds headings of its own."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Makes a repository with the page that the skill shows, and a glossary."""
    files = [*shown(SHOWN), ("doc/zh/glossary.toml", 'keep = ["reward"]\n')]
    for path, text in files:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    return tmp_path


def test_the_sections_stand_in_their_order() -> None:
    assert tuple(re.findall(r"^## (.+)$", bare(TEXT), flags=re.MULTILINE)) == SECTIONS


def test_who_follows_it_ends_with_both_pages_in_step(repository: Path) -> None:
    blocks = list(console_blocks(TEXT))
    said = [" ".join(command[2:3]) for command, _ in blocks]
    assert said == ["status", "plan", "check", "status", "check"]
    ((path, chinese),) = shown(WRITTEN)
    for number, (command, promised) in enumerate(blocks):
        if number == 2:
            (repository / path).write_text(chinese, encoding="utf-8")
        if number == 4:
            source = repository / "doc/en/guide.md"
            changed = source.read_text("utf-8").replace("2 minutes", "3 minutes")
            source.write_text(changed, encoding="utf-8")
        done = run(command, repository)
        assert done.stdout.splitlines() == promised, done.stderr
        assert done.returncode == (1 if number in (0, 4) else 0)
    again = run(["scaffold", "docs", "plan", path], repository).stdout
    assert "1 section to translate" in again
    assert "=== train" not in again


def test_the_mistakes_are_those_that_somebody_is_told() -> None:
    phrases = [row[0] for row in table_under(bare(TEXT), "Common mistakes")]
    assert len(phrases) > 5
    sources = everything_said()
    for phrase in phrases:
        rules = re.findall(r"rule `([^`]+)`", phrase)
        assert set(rules) <= set(RULES)
        for part in [] if rules else phrase.split("..."):
            assert part.strip() in sources, f"nothing ever says {phrase!r}"


def test_the_page_names_every_rule_and_every_state() -> None:
    rules = [word for row in table_under(PAGE, "What is compared") for word in row[0].split(", ")]
    assert sorted(rules) == sorted(f"`{rule}`" for rule in RULES)
    assert [row[0] for row in table_under(bare(PAGE), "The marker")] == [
        f"`{name}`" for name in WORDS
    ]
