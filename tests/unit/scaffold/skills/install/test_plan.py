"""What becomes of each file: of the source, of the lock file and of the person's hand."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaffold.skills.install.permissions import Permission
from scaffold.skills.install.plan import (
    FilePlan,
    Found,
    file_states,
    find,
    grown,
    is_intact,
    locked_files,
    plan_files,
)
from scaffold.skills.install.source_tree import SkillFile
from scaffold.transaction.apply import apply_changes

PATH = ".agents/skills/one/SKILL.md"

# As it was installed, as it stands, as it is to be (None: nothing), and what becomes of it.
CASES: dict[str, tuple[str | None, str | None, str | None, str]] = {
    "new": (None, None, "b", "created"),
    "new and there already": (None, "b", "b", ""),
    "new where a person has another": (None, "x", "b", "conflict"),
    "as it was": ("a", "a", "a", ""),
    "renewed": ("a", "a", "b", "updated"),
    "taken away": ("a", "a", None, "deleted"),
    "gone already": ("a", None, None, ""),
    "edited and unchanged": ("a", "x", "a", "kept"),
    "edited and renewed": ("a", "x", "b", "conflict"),
    "edited to what it is to be": ("a", "b", "b", ""),
    "edited and taken away": ("a", "x", None, "conflict"),
    "deleted and unchanged": ("a", None, "a", "kept"),
    "deleted and renewed": ("a", None, "b", "conflict"),
}
GIVEN_UP = {
    "new where a person has another": "replaced",
    "edited and unchanged": "replaced",
    "edited and renewed": "replaced",
    "edited and taken away": "deleted",
    "deleted and unchanged": "created",
    "deleted and renewed": "created",
}


def files(text: str | None) -> dict[str, SkillFile]:
    return {} if text is None else {PATH: SkillFile(text.encode(), False)}


def outcome(plan: FilePlan) -> str:
    if plan.conflicts or plan.kept:
        assert plan.changes == ()
        return "conflict" if plan.conflicts else "kept"
    return plan.changes[0].action if plan.changes else ""


def put(root: Path, text: str | None) -> None:
    if text is not None:
        (root / PATH).parent.mkdir(parents=True)
        (root / PATH).write_text(text)


@pytest.mark.parametrize("name", CASES)
def test_what_becomes_of_a_file(name: str, tmp_path: Path) -> None:
    was, now, want, expected = CASES[name]
    put(tmp_path, now)
    old = locked_files(files(was))
    plan = plan_files(tmp_path, old, files(want))
    assert (outcome(plan), plan.lost) == (expected, ())
    given_up = plan_files(tmp_path, old, files(want), [PATH])
    assert outcome(given_up) == GIVEN_UP.get(name, expected)
    is_lost = name in GIVEN_UP and now is not None
    assert given_up.lost == ((PATH,) if is_lost else ())
    for change in given_up.changes:
        assert change.before == (None if now is None else now.encode())
        assert change.after == (None if want is None else want.encode())


texts = st.none() | st.sampled_from(["a", "b", "x"])


@settings(max_examples=60, deadline=None)
@given(was=texts, now=texts, want=texts, gives_up=st.booleans())
def test_a_plan_never_takes_what_a_person_wrote(
    tmp_path_factory: pytest.TempPathFactory,
    was: str | None,
    now: str | None,
    want: str | None,
    gives_up: bool,
) -> None:
    root = tmp_path_factory.mktemp("target")
    put(root, now)
    plan = plan_files(root, locked_files(files(was)), files(want), [PATH] if gives_up else [])
    apply_changes(root, plan.changes, "test")
    left = (root / PATH).read_text() if (root / PATH).exists() else None
    if plan.changes:
        assert left == want
        assert gives_up or now == was
    else:
        assert left == now


@pytest.mark.skipif(sys.platform == "win32", reason="no run bits")
def test_a_run_bit_is_part_of_a_file(tmp_path: Path) -> None:
    put(tmp_path, "a")
    old = locked_files(files("a"))
    (tmp_path / PATH).chmod(0o755)
    assert find(tmp_path, PATH) == Found(b"a", True)
    assert not is_intact(find(tmp_path, PATH), old[0])
    assert plan_files(tmp_path, old, files("b")).conflicts == (PATH,)
    plan = plan_files(tmp_path, locked_files({PATH: SkillFile(b"a", True)}), files("a"))
    ((change,), executable) = plan.changes, False
    assert (change.action, change.before, change.after) == ("updated", b"a", b"a")
    assert change.executable is executable


def test_growth() -> None:
    script = Permission("script", "a.py", 1, "a file *.py")
    moved = Permission("script", "a.py", 9, "a file *.py")
    tools = Permission("tools", "SKILL.md", 4, "allowed-tools: Bash", "dropped")
    kept = Permission("tools", "SKILL.md", 4, "allowed-tools: Bash")
    assert grown([], [script, tools]) == [script]
    assert grown([script], [moved]) == []
    assert grown([tools], [kept]) == [kept], "what was dropped was never had"
    assert grown([kept], []) == []


def test_states_without_a_skill(tmp_path: Path) -> None:
    from tests.unit.scaffold.skills.install.test_lock import FULL

    assert {state for _, state in file_states(tmp_path, FULL)} == {"missing"}


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes, and links need a privilege")
@pytest.mark.parametrize("what", ["link", "folder", "pipe"])
def test_what_is_no_plain_file_is_nobodys_to_replace(tmp_path: Path, what: str) -> None:
    place = tmp_path / PATH
    place.parent.mkdir(parents=True)
    if what == "link":
        (tmp_path / "mine").write_text("a")  # as it was written, and still a person's
        place.symlink_to(tmp_path / "mine")
    elif what == "folder":
        place.mkdir()
    else:
        os.mkfifo(place)
    old = locked_files(files("a"))
    for want in ("b", None):
        plan = plan_files(tmp_path, old, files(want), [PATH])
        assert (plan.blocked, plan.changes, plan.conflicts) == ((PATH,), (), ())
    assert plan_files(tmp_path, old, files("a")).kept == (PATH,)


def test_line_ends_as_git_checks_them_out_are_no_edit(tmp_path: Path) -> None:
    (tmp_path / PATH).parent.mkdir(parents=True)
    (tmp_path / PATH).write_bytes(b"one\r\ntwo\r\n")
    old = locked_files({PATH: SkillFile(b"one\ntwo\n", False)})
    assert is_intact(find(tmp_path, PATH), old[0])
    assert plan_files(tmp_path, old, {PATH: SkillFile(b"one\ntwo\n", False)}) == FilePlan(())
    (change,) = plan_files(tmp_path, old, {PATH: SkillFile(b"one\nthree\n", False)}).changes
    assert change.after == b"one\nthree\n"


def test_line_ends_of_a_program_are_an_edit(tmp_path: Path) -> None:
    (tmp_path / PATH).parent.mkdir(parents=True)
    (tmp_path / PATH).write_bytes(b"\0\r\n")
    assert not is_intact(find(tmp_path, PATH), locked_files({PATH: SkillFile(b"\0\n", False)})[0])
