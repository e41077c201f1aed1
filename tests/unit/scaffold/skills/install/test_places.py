"""Where skills go, and whose names they may not take."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scaffold.errors import ConflictError, TargetError
from scaffold.skills.install.places import check_free, distinct, find_target, roots_for
from tests.unit.scaffold.skills.install.conftest import write


def test_the_nearest_repository_upwards(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b" / "c"
    inner.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    assert find_target(inner, None, user=False) == tmp_path
    (tmp_path / "a/b/.claude/skills").mkdir(parents=True)
    assert find_target(inner, None, user=False) == tmp_path / "a/b"
    assert find_target(inner, "..", user=False) == tmp_path / "a/b"
    with pytest.raises(TargetError) as caught:
        find_target(inner, "gone", user=False)
    assert caught.value.code == "target_missing"


def test_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    assert find_target(Path("/"), None, user=True) == tmp_path.resolve()
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path / "gone"))
    with pytest.raises(TargetError) as caught:
        find_target(Path("/"), None, user=True)
    assert caught.value.code == "target_missing"


def test_the_folders_of_clients(tmp_path: Path) -> None:
    assert roots_for([]) == (".agents/skills", ".claude/skills")
    assert roots_for(["opencode"]) == roots_for(["codex"]) == (".agents/skills",)
    assert roots_for(["claude", "codex"]) == roots_for([])
    assert distinct(tmp_path, roots_for([])) == roots_for([])


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_a_folder_that_is_a_link_to_the_other(tmp_path: Path) -> None:
    (tmp_path / ".claude").symlink_to(".agents")
    assert distinct(tmp_path, roots_for([])) == (".agents/skills",)


@pytest.mark.parametrize(
    "path",
    [".agents/skills/one/x", ".claude/skills/ONE/x", ".opencode/skill/one/x",
     ".codex/skills/one/x", ".claude/commands/one.md", ".opencode/commands/One.md"],
)  # fmt: skip
def test_names_that_are_taken(tmp_path: Path, path: str) -> None:
    write(tmp_path, {path: "x", ".agents/skills/other/SKILL.md": "x", ".claude/skills": "a file"}
          if not path.startswith(".claude/skills") else {path: "x"})  # fmt: skip
    with pytest.raises(ConflictError, match="exists already") as caught:
        check_free(tmp_path, "one", (), "there")
    assert caught.value.code == "skill_exists"
    check_free(tmp_path, "two", (), "there")
    check_free(tmp_path, "one", [path.rsplit("/", path.count("/") - 1)[0]], "there")
