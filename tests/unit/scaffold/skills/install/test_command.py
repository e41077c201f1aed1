"""What happens between the list and the writing, while others install too."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.analysis.repository import Repository
from scaffold.errors import ConflictError
from scaffold.skills.check.checking import check_repository
from scaffold.skills.check.report.human import to_text
from scaffold.skills.install.command import InstallOptions, install_skills, update_skills
from scaffold.skills.install.run import Options
from tests.unit.scaffold.skills.install.conftest import SKILL, write


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "target"
    folder.mkdir()
    return folder


def test_the_same_skill_twice_at_once(repository: Path, target: Path) -> None:
    """What another command did meanwhile is seen: it is planned again under the lock."""

    def install(options: Options) -> str:
        report = install_skills(str(repository), ["two"], target, InstallOptions(), options)
        return report.extra["skills"][0]["outcome"]

    inner: list[str] = []

    def meanwhile(line: str) -> None:
        if not inner:
            inner.append("begun")
            inner.append(install(Options(target)))

    assert install(Options(target, log=meanwhile)) == "unchanged"
    assert inner == ["begun", "installed"]


def test_what_nobody_agreed_to_is_not_written(repository: Path, target: Path) -> None:
    """Agreement is to what was listed: a smaller list meanwhile does not stretch it."""
    install_skills(str(repository), ["one"], target, InstallOptions(), Options(target))
    write(repository, {"skills/one/run.py": "print()"})
    lock = target / ".scaffold/skills-lock.toml"
    before = lock.read_text("utf-8")
    update_skills([], InstallOptions(), Options(target, agreed=True))

    def meanwhile(line: str) -> None:
        lock.write_text(before, "utf-8")  # as a merge might, while the command runs

    write(repository, {"skills/one/SKILL.md": SKILL.format(name="one") + "more\n"})
    with pytest.raises(ConflictError) as caught:
        update_skills([], InstallOptions(), Options(target, log=meanwhile))
    assert caught.value.code == "changed_meanwhile"
    assert "more" not in (target / ".agents/skills/one/SKILL.md").read_text("utf-8")


def test_the_own_skills_break_no_check_where_they_are_installed(target: Path) -> None:
    """They name files of this repository; a target has folders that are called the same."""
    folders = ("tests", "docs", "templates", "scaffold", "areal")
    write(target, {f"{folder}/a.py": "def test_a(): ...\n" for folder in folders})
    install_skills("builtin", [], target, InstallOptions(), Options(target, agreed=True))
    outcome = check_repository(Repository.at(target))
    assert outcome.judged
    assert not outcome.findings, to_text(outcome)
