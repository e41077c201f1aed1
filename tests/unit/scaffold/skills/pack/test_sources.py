from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scaffold.analysis.files.files import list_files
from scaffold.errors import ScaffoldError
from scaffold.skills.pack.sources import documents_of, find_pack, read_pack, read_what_can_be

SKILL = "---\nname: {name}\ndescription: >-\n  Does a\n  thing.\n---\n\nBody.\n"


@pytest.fixture(params=[True, False], ids=["git", "no git"])
def root(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    if request.param:
        subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    add(tmp_path, "one")
    return tmp_path


def add(root: Path, name: str, folder: str = ".agents/skills") -> Path:
    place = root / folder / name / "SKILL.md"
    place.parent.mkdir(parents=True)
    place.write_text(SKILL.format(name=name))
    return place


def test_skills_and_subagents_are_read(root: Path) -> None:
    (root / ".agents/skills/one/references").mkdir()
    (root / ".agents/skills/one/references/more.md").write_text("more\n")
    (root / ".agents/agents").mkdir()
    (root / ".agents/agents/judge.md").write_text(SKILL.format(name="judge"))
    (root / ".agents/agents/notes.txt").write_text("none\n")
    pack = read_pack(list_files(root))
    (skill,), (agent,) = pack.skills, pack.agents
    assert (skill.name, skill.description) == ("one", "Does a thing.")
    assert list(skill.others) == ["references/more.md"]
    assert (agent.name, agent.body) == ("judge", "\nBody.\n")
    assert pack.warnings == ()


def test_what_is_about_to_be_written_counts(root: Path) -> None:
    data = SKILL.format(name="one").encode() + b"New.\n"
    pack = read_pack(list_files(root), {".agents/skills/one/SKILL.md": data})
    assert pack.skills[0].data == data


def test_a_skill_in_a_deeper_folder_is_told_of(root: Path) -> None:
    add(root, "two", ".agents/skills/group")
    pack = read_pack(list_files(root))
    assert [each.name for each in pack.skills] == ["one"]
    (warning,) = pack.warnings
    assert warning.startswith(".agents/skills/group/two/SKILL.md is not found as a skill")


def test_what_is_passed_over_is_told_of(root: Path) -> None:
    for path in ("skills/two/skill.md", "skills/_shared/a.md", "agents/team/judge.md"):
        (root / ".agents" / path).parent.mkdir(parents=True)
        (root / ".agents" / path).write_text("text\n")
    assert read_pack(list_files(root)).warnings == (
        ".agents/skills/two has no SKILL.md and is ignored",
        ".agents/agents/team/judge.md is ignored: subagents must be directly in .agents/agents",
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"# Title\n", "SKILL.md has no front matter"),
        (b"---\nname: x\n", "the front matter is not closed"),
        (b"---\nname: [x\n---\n", "the YAML is broken"),
        (b"---\n- x\n---\n", "is not a mapping"),
        (b"---\nname: x\nname: y\n---\n", "'name' is there twice"),
        (b"\xff\xfe---\n", "is not UTF-8"),
        (b"---\nname: x\n---\n\0\n", "it has null bytes"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(root: Path, data: bytes, message: str) -> None:
    (root / ".agents/skills/one/SKILL.md").write_bytes(data)
    with pytest.raises(ScaffoldError, match=message) as caught:
        read_pack(list_files(root))
    assert caught.value.code == "skill_invalid"


def test_all_that_cannot_be_read_is_named(root: Path) -> None:
    for name in ("two", "three"):
        add(root, name).write_text("no front matter\n")
    with pytest.raises(ScaffoldError, match=r"three/SKILL\.md has no .*; .*two/SKILL\.md has no"):
        read_pack(list_files(root))


def test_a_skill_of_ten_megabytes_is_read(root: Path) -> None:
    with (root / ".agents/skills/one/SKILL.md").open("a") as file:
        file.write("line of text\n" * 800_000)
    assert len(read_pack(list_files(root)).skills[0].data) > 10_000_000


def test_a_linked_skill_counts_where_it_is_linked(root: Path) -> None:
    add(root, "two", "skills")
    (root / ".agents/skills/two").symlink_to("../../skills/two")
    pack = read_pack(list_files(root))
    assert [each.path for each in pack.skills] == [
        ".agents/skills/one/SKILL.md",
        ".agents/skills/two/SKILL.md",
    ]


@pytest.mark.parametrize(
    ("link", "target"),
    [("two", "/tmp"), ("two", "../../.."), ("one/out.md", "/etc/hostname")],
)
def test_a_link_out_of_the_repository_is_refused(root: Path, link: str, target: str) -> None:
    (root / ".agents/skills" / link).symlink_to(target)
    with pytest.raises(ScaffoldError, match="leads out of the repository") as caught:
        read_pack(list_files(root))
    assert caught.value.code == "outside_target"


def test_links_in_a_circle_end(root: Path) -> None:
    (root / ".agents/skills/two").symlink_to("three")
    (root / ".agents/skills/three").symlink_to("two")
    (root / ".agents/skills/four").symlink_to(".")
    assert [each.name for each in read_pack(list_files(root)).skills] == ["one"]


def test_a_linked_folder_inside_a_skill_is_refused(root: Path) -> None:
    (root / "shared").mkdir()
    (root / "shared/a.md").write_text("a\n")
    (root / ".agents/skills/one/references").symlink_to("../../../shared")
    if not (root / ".git").exists():
        pytest.skip("a walk leaves links to folders out")
    with pytest.raises(ScaffoldError, match="references is a link to a folder"):
        read_pack(list_files(root))


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="needs a user whom modes bind")
def test_an_unreadable_file_is_refused(root: Path) -> None:
    (root / ".agents/skills/one/SKILL.md").chmod(0)
    with pytest.raises(ScaffoldError, match="cannot be read: Permission denied"):
        read_pack(list_files(root))


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege")
@pytest.mark.parametrize("link", [".agents", ".agents/skills"])
def test_a_linked_folder_of_skills_is_read_where_it_leads(root: Path, link: str) -> None:
    (root / ".agents/agents").mkdir()
    (root / ".agents/agents/judge.md").write_text(SKILL.format(name="judge"))
    (root / link).rename(root / "pack")
    (root / link).symlink_to(root / "pack", target_is_directory=True)
    pack = read_pack(list_files(root))
    assert [(each.name, each.path) for each in pack.skills] == [
        ("one", ".agents/skills/one/SKILL.md")
    ]
    assert [each.path for each in pack.agents] == [".agents/agents/judge.md"]
    assert pack.warnings == ()
    assert ".agents/skills/one/SKILL.md" in documents_of(list_files(root))


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege")
@pytest.mark.parametrize("folder", [".agents/skills", ".agents/agents"])
def test_a_folder_that_leads_out_of_the_repository_is_refused(
    root: Path, folder: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shutil.rmtree(root / folder, ignore_errors=True)
    (root / folder).symlink_to(tmp_path_factory.mktemp("out"), target_is_directory=True)
    with pytest.raises(ScaffoldError, match=f"{folder} leads out of the repository"):
        read_pack(list_files(root))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names themselves")
@pytest.mark.parametrize("name", [b"bad\xff.md", b"a\nb.txt", "a\u2028b.md".encode(), b"\x1b[2J"])
def test_a_name_that_no_list_can_hold_is_told(root: Path, name: bytes) -> None:
    add(root, "two")
    Path(os.fsdecode(os.fsencode(root / ".agents/skills/two") + b"/" + name)).write_text("x\n")
    pack, (problem,) = read_what_can_be(list_files(root))
    assert [each.name for each in pack.skills] == ["one", "two"]
    assert problem.message.isprintable()
    assert "has characters in its name" in problem.message
    with pytest.raises(ScaffoldError, match="has characters in its name"):
        documents_of(list_files(root))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_a_pipe_is_told_and_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / ".agents/skills/one").mkdir(parents=True)
    os.mkfifo(tmp_path / ".agents/skills/one/SKILL.md")
    with pytest.raises(ScaffoldError, match=r"SKILL\.md cannot be read: it is a device, a pipe"):
        read_pack(list_files(tmp_path))


def test_a_description_that_is_no_text_is_none(root: Path) -> None:
    rows = ["a: &a [x]", *(f"k{n}: &k{n} [*{p}, *{p}]" for n, p in enumerate(["a", "k0", "k1"]))]
    head = "\n".join(["---", *rows, "description: *k2", "---", ""])
    (root / ".agents/skills/one/SKILL.md").write_text(head)
    assert read_pack(list_files(root)).skills[0].description == ""


@pytest.mark.parametrize("folder", [".agents", ".agents/skills", ".agents/skills/one"])
def test_a_folder_that_is_closed_is_told_and_not_taken_for_an_empty_one(
    root: Path, folder: str
) -> None:
    place = root / folder
    place.chmod(0)
    try:
        if os.access(place, os.R_OK):
            pytest.skip("modes bind nobody here")
        assert find_pack(root) == root
        with pytest.raises(ScaffoldError, match=r"\.agents.* cannot be read: Permission denied"):
            read_pack(list_files(root))
    finally:
        place.chmod(0o755)
