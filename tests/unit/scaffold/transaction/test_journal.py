"""The journal: what is not one is refused, and what is left over can be told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scaffold.errors import ApplyError
from scaffold.transaction import disk
from scaffold.transaction.apply import apply_changes, session, settle
from scaffold.transaction.change import Change
from scaffold.transaction.digest import digest
from scaffold.transaction.journal import (
    Journal,
    JournalStep,
    describe_leftover,
    read_journal,
    write_journal,
)
from scaffold.transaction.state import PHASES, has_journal, journal_path, locked, state_folders
from tests.faulty_disk import Death, FaultyDisk, die

CHANGES = (
    Change("a.py", "created", None, b"a\n"),
    Change("b/c.py", "created", None, b"c\n"),
)
VALID: dict[str, Any] = {
    "schema": 1,
    "command": "add-reward x",
    "token": "0123abcd",
    "folders": ["b"],
    "pruned": [],
    "steps": [{"path": "b/c.py", "before": None, "after": digest(b"c\n")}],
}
WRONG: list[dict[str, Any]] = [
    {"schema": "one"},
    {"token": "../../etc"},
    {"token": None},
    {"folders": ["/etc"]},
    {"folders": [".."]},
    {"pruned": ["a/../../b"]},
    {"pruned": [""]},
    {"steps": [1]},
    {"steps": [{"path": "a.py"}]},
    {"steps": [{"path": "/etc/passwd", "before": None, "after": None}]},
    {"steps": [{"path": "../a.py", "before": None, "after": None}]},
    {"steps": [{"path": "a.py", "before": 1, "after": None}]},
    {"steps": [{"path": "a.py", "before": "", "after": None}]},
]


def put_journal(root: Path, text: str, phase: str = "ready") -> Path:
    path = state_folders(root)[0] / f"journal-{phase}.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def interrupt_at(root: Path, at: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "DISK", FaultyDisk(at, die, is_final=True))
        with pytest.raises(Death):
            apply_changes(root, CHANGES, "add-reward x")


def test_a_journal_reads_back(tmp_path: Path):
    steps = (JournalStep("b/ü.py", None, digest(b"")), JournalStep("d.py", digest(b"d"), None))
    journal = Journal("add x", "0123abcd", ("b",), ("e/f", "e"), steps)
    write_journal(tmp_path, journal)
    assert read_journal(tmp_path, "staging") == journal
    assert [path.name for path in tmp_path.iterdir()] == ["journal-staging.json"]
    assert journal.stage(0) == "b/.scaffold-0123abcd-0.new"
    assert journal.backup(1) == ".scaffold-0123abcd-1.old"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"schema": 1}', *(json.dumps({**VALID, **x}) for x in WRONG)]
)
@pytest.mark.parametrize("phase", PHASES)
def test_what_is_no_journal_stops_every_run(tmp_path: Path, text: str, phase: str):
    path = put_journal(tmp_path, text, phase)
    for attempt in (
        lambda: apply_changes(tmp_path, CHANGES, "test"),
        lambda: settle(tmp_path, "recover"),
        lambda: settle(tmp_path, "recover", keep_edited=True),
        lambda: describe_leftover(tmp_path),
    ):
        with pytest.raises(ApplyError) as refusal:
            attempt()
        assert refusal.value.code == "journal_unfinished"
        assert str(path) in refusal.value.message
        assert path.read_text() == text
    assert not (tmp_path / "a.py").exists()


def test_a_newer_journal_asks_for_an_upgrade(tmp_path: Path):
    put_journal(tmp_path, json.dumps({"schema": 2}))
    with pytest.raises(ApplyError) as refusal:
        settle(tmp_path, "recover")
    assert refusal.value.code == "target_newer"


def test_a_leftover_is_described_and_not_touched(tmp_path: Path):
    assert describe_leftover(tmp_path) is None
    phases: list[str] = []
    for at in range(1, 30):
        root = tmp_path / str(at)
        root.mkdir()
        try:
            interrupt_at(root, at)
        except pytest.fail.Exception:  # it took fewer steps
            break
        left = describe_leftover(root)
        if left is not None:
            phases.append(left.phase)
            assert (left.command, left.files) == ("add-reward x", ("a.py", "b/c.py"))
            assert left.journal == journal_path(root / ".scaffold" / "state", left.phase)
            assert not left.is_running
            assert describe_leftover(root) == left
        assert has_journal(root) == (left is not None)
    assert list(dict.fromkeys(phases)) == ["staging", "ready", "done"]


def test_a_run_that_goes_on_is_told_from_one_that_was_interrupted(tmp_path: Path):
    interrupt_at(tmp_path, 10)
    with locked(tmp_path, "other"):
        left = describe_leftover(tmp_path)
        assert left is not None
        assert left.is_running
    with session(tmp_path, "other"):
        assert describe_leftover(tmp_path) is None
