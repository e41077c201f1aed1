"""The skills that a source holds, and which of them is meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold import __version__
from scaffold.errors import ScaffoldError
from scaffold.skills.install.address import Source
from scaffold.skills.install.source import (
    Opened,
    find_skills,
    open_source,
    take_again,
    take_skills,
)
from scaffold.skills.install.source_tree import tree_of_folder
from tests.unit.scaffold.skills.install.conftest import SKILL, write


def opened(root: Path, *folders: str) -> Opened:
    write(root, {f"{each}/SKILL.md": SKILL.format(name=each.split("/")[-1]) for each in folders})
    return Opened(Source("folder", str(root)), tree_of_folder(root))


def found(source: Opened) -> list[str]:
    return [folder for places in find_skills(source).values() for folder in places]


def test_a_copy_for_a_client_is_no_second_skill(tmp_path: Path) -> None:
    source = opened(tmp_path, ".claude/skills/a", ".agents/skills/a", ".claude/skills/b")
    assert sorted(found(source)) == [".agents/skills/a", ".claude/skills/b"]


def test_skills_of_plugins_and_in_the_folder_itself(tmp_path: Path) -> None:
    source = opened(tmp_path, "a", "plugins/p/skills/b", "skills/c", "tests/fixtures/d")
    assert sorted(found(source)) == ["a", "plugins/p/skills/b", "skills/c"]


def test_in_odd_folders_alone(tmp_path: Path) -> None:
    assert found(opened(tmp_path, "some/where/d")) == ["some/where/d"]


def test_a_skill_in_a_skill_is_part_of_it(tmp_path: Path) -> None:
    assert found(opened(tmp_path, "skills/a", "skills/a/assets/b")) == ["skills/a"]


def test_a_source_that_is_a_skill(tmp_path: Path) -> None:
    write(tmp_path, {"SKILL.md": SKILL.format(name="whole"), "scripts/x.py": ""})
    source = opened(tmp_path, "skills/part")
    assert [skill.name for skill in take_skills(source, [])] == ["whole"]


def test_by_name_by_folder_and_by_front_matter(tmp_path: Path) -> None:
    source = opened(tmp_path, "skills/a", "tests/odd")
    write(tmp_path, {"skills/folder/SKILL.md": SKILL.format(name="named")})
    source = opened(tmp_path)
    assert [skill.path for skill in take_skills(source, ["a", "a"])] == ["skills/a"]
    assert [skill.path for skill in take_skills(source, ["tests/odd/"])] == ["tests/odd"]
    for word in ("folder", "named"):
        (skill,) = take_skills(source, [word])
        assert (skill.name, skill.path) == ("named", "skills/folder")


def refused(source: Opened, *wanted: str) -> ScaffoldError:
    with pytest.raises(ScaffoldError) as caught:
        take_skills(source, wanted)
    return caught.value


def test_skills_that_are_not_there(tmp_path: Path) -> None:
    assert refused(Opened(Source("folder"), tree_of_folder(tmp_path))).code == "skill_unknown"
    error = refused(opened(tmp_path, "skills/add-thing"), "add-thin")
    assert (error.code, "did you mean 'add-thing'" in error.message) == ("skill_unknown", True)
    assert refused(opened(tmp_path), "../add-thing").code == "skill_unknown"


def test_two_of_one_name(tmp_path: Path) -> None:
    source = opened(tmp_path, "p/skills/a", "q/skills/a", "p/skills/b")
    assert refused(source).code == "skill_ambiguous"
    assert [skill.path for skill in take_skills(source, ["q/skills/a"])] == ["q/skills/a"]


def test_broken_skills_stand_in_nobodys_way(tmp_path: Path) -> None:
    source = opened(tmp_path, "skills/a")
    write(tmp_path, {"skills/b/SKILL.md": "# no front matter", "skills/c/SKILL.md": b"\xff\0"})
    source = opened(tmp_path)
    assert [skill.name for skill in take_skills(source, ["a"])] == ["a"]
    assert refused(source).code == "skill_invalid"
    assert refused(source, "c").code == "skill_invalid"
    write(tmp_path, {"skills/d/SKILL.md": SKILL.format(name="../../evil")})
    assert refused(opened(tmp_path), "d").code == "skill_invalid"


def test_a_skill_is_found_again_where_it_moved(tmp_path: Path) -> None:
    source = opened(tmp_path, "skills/a")
    assert take_again(source, "skills/a", "a").path == "skills/a"
    assert take_again(source, "old/a", "a").path == "skills/a"
    with pytest.raises(ScaffoldError) as caught:
        take_again(source, "skills/b", "b")
    assert caught.value.code == "skill_unknown"


def test_the_pack_of_the_tool(tmp_path: Path) -> None:
    source = open_source(Source("builtin"), tmp_path)
    assert source.version == __version__
    assert "add-workflow" in {skill.name for skill in take_skills(source, [])}
