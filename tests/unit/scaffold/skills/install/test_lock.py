"""The lock file: what is written is read again, and what others wrote into it is not believed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from scaffold.errors import LedgerError
from scaffold.skills.install.address import Source
from scaffold.skills.install.lock import (
    LOCK,
    LOCK_SCHEMA,
    LockedFile,
    LockedSkill,
    dump_lock,
    parse_lock,
    read_lock,
    source_text,
)
from scaffold.skills.install.permissions import Permission

FULL = LockedSkill(
    name="acme-one",
    source="https://example.org/a",
    kind="git",
    revision="v1",
    commit="0" * 40,
    version="",
    path="skills/one",
    prefix="acme-",
    grant_tools=True,
    roots=(".agents/skills", ".claude/skills"),
    allow_hidden=("SKILL.md",),
    permissions=(Permission("tools", "SKILL.md", 4, "allowed-tools: Bash \u26a0", "dropped"),),
    files=(
        LockedFile(".agents/skills/acme-one/SKILL.md", "a" * 64),
        LockedFile(".claude/skills/acme-one/run.sh", "b" * 64, True),
    ),
)


def text(skill: LockedSkill = FULL) -> str:
    return (dump_lock({skill.name: skill}) or b"").decode()


def test_what_is_written_is_read_again() -> None:
    plain = replace(FULL, name="b", files=(), permissions=(), kind="builtin", grant_tools=False)
    skills = {"acme-one": FULL, "b": plain}
    assert parse_lock(dump_lock(skills) or b"") == skills
    assert dump_lock(dict(reversed(skills.items()))) == dump_lock(skills)
    assert dump_lock({}) is None


def test_no_lock_file(tmp_path: Path) -> None:
    assert read_lock(tmp_path) == {}
    (tmp_path / ".scaffold").write_text("a file")
    assert read_lock(tmp_path) == {}


def test_a_newer_one_is_refused_with_the_way_out() -> None:
    newer = text().replace(f"schema = {LOCK_SCHEMA}", f"schema = {LOCK_SCHEMA + 1}\nmore = true")
    with pytest.raises(LedgerError) as caught:
        parse_lock(newer.encode())
    assert caught.value.code == "target_newer"
    # It is on no index, as docs/en/installation.md says.
    assert caught.value.hint == "install a newer checkout or wheel of areal-scaffold with pip"


PATH = ".agents/skills/acme-one/SKILL.md"
BROKEN: dict[str, tuple[str, str]] = {
    "no TOML": (f"schema = {LOCK_SCHEMA}", "schema = = 2"),
    "no schema": (f"schema = {LOCK_SCHEMA}", ""),
    "an unknown key": (f"schema = {LOCK_SCHEMA}", f"schema = {LOCK_SCHEMA}\nother = 2"),
    "an unknown key of a skill": ('kind = "git"', 'kind = "git"\nscript = "x"'),
    "another kind": ('kind = "git"', 'kind = "svn"'),
    "a name that leads out": ('name = "acme-one"', 'name = "../one"'),
    "a file of the repository": (PATH, "src/main.py"),
    "a file of another skill": (PATH, ".agents/skills/other/SKILL.md"),
    "a path that leads out": (PATH, ".agents/skills/acme-one/../../../x"),
    "an absolute path": (PATH, "/etc/passwd"),
    "git's own": (PATH, ".agents/skills/acme-one/.git/config"),
    "another folder": ('".agents/skills",', '"src",'),
    "a hash that is none": ("sha256", "sha1"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_and_hostile_lock_files(name: str, tmp_path: Path) -> None:
    was, now = BROKEN[name]
    assert was in text()
    (tmp_path / ".scaffold").mkdir()
    (tmp_path / LOCK).write_text(text().replace(was, now, 1), "utf-8")
    with pytest.raises(LedgerError) as caught:
        read_lock(tmp_path)
    assert caught.value.code == "skill_lock_invalid"
    assert LOCK in caught.value.message


def test_other_broken_lock_files(tmp_path: Path) -> None:
    twice = text() + text().partition(f"schema = {LOCK_SCHEMA}\n")[2]
    for data in (b"\xff", twice.encode()):
        with pytest.raises(LedgerError) as caught:
            parse_lock(data)
        assert caught.value.code == "skill_lock_invalid"
    (tmp_path / LOCK).mkdir(parents=True)
    with pytest.raises(LedgerError) as caught:
        read_lock(tmp_path)
    assert caught.value.code == "skill_lock_invalid"


@pytest.mark.parametrize(
    ("source", "revision"),
    [("ext::sh -c x", ""), ("http://example.org/a", ""), ("https://x:y@example.org/a", ""),
     ("https://example.org/a", "--upload-pack=x"), ("gone", "")],
)  # fmt: skip
def test_a_source_that_somebody_wrote_in_is_checked(
    source: str, revision: str, tmp_path: Path
) -> None:
    (skill,) = parse_lock(text(replace(FULL, source=source, revision=revision)).encode()).values()
    with pytest.raises(LedgerError) as caught:
        skill.origin(tmp_path)
    assert (caught.value.code, caught.value.exit_status) == ("source_invalid", 1)


def test_sources_there_and_back(tmp_path: Path) -> None:
    target, pack = tmp_path / "target", tmp_path / "pack"
    for folder in (target, pack):
        folder.mkdir()
    for source, written in (
        (Source("builtin"), "builtin"),
        (Source("folder", str(pack)), "../pack"),
        (Source("git", str(pack), "main"), "../pack"),
        (Source("git", "https://example.org/a", "v1"), "https://example.org/a"),
        (Source("git", "git@example.org:a", ""), "git@example.org:a"),
        (Source("git", "file:///srv/a", ""), "file:///srv/a"),
    ):
        assert source_text(source, target, user=False) == written
        skill = replace(FULL, source=written, kind=source.kind, revision=source.revision)
        assert skill.origin(target) == source
    assert source_text(Source("folder", str(pack)), target, user=True) == str(pack)
