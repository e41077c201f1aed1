"""A plan that is written: all manifests or none, whatever ended an earlier run."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.deps.plan import PlanOptions, plan
from scaffold.transaction import disk
from scaffold.transaction.state import has_journal
from tests.deps_places import write
from tests.faulty_disk import Death, FaultyDisk, die

NAMES = ["Dockerfile", "a/requirements.txt", "b/requirements.txt"]
AFTER = dict.fromkeys(NAMES, "RUN pip install toolbox==2.0\n") | dict.fromkeys(
    NAMES[1:], "toolbox==2.0\n"
)
BEFORE = {path: text.replace("2.0", "1.0") for path, text in AFTER.items()}
HOW = PlanOptions(("toolbox==2.0",), apply=True, resolve=False)


def texts(root: Path) -> dict[str, str]:
    """Returns every file of a tree but the tool's state."""
    files = (path for path in root.rglob("*") if path.is_file())
    named = {path.relative_to(root).as_posix(): path.read_text() for path in files}
    return {path: text for path, text in named.items() if not path.startswith(".scaffold/")}


def steps(folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Returns how many steps on the disk it takes to write the plan."""
    counting = FaultyDisk()
    with monkeypatch.context() as patch:
        patch.setattr(disk, "DISK", counting)
        plan(write(folder, BEFORE), HOW)
    assert texts(folder) == AFTER
    return len(counting.steps)


def test_a_run_settles_what_one_that_was_killed_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = steps(tmp_path / "whole", monkeypatch)
    assert count > 10
    settled: set[str] = set()
    for at in range(1, count + 1):
        root = write(tmp_path / str(at), BEFORE)
        with monkeypatch.context() as patch:
            patch.setattr(disk, "DISK", FaultyDisk(at, die, is_final=True))
            with pytest.raises(Death):
                plan(root, HOW)
        is_left = has_journal(root)
        preview = plan(root, PlanOptions(HOW.pins, resolve=False))
        assert has_journal(root) == is_left, "it writes nothing"
        assert bool(preview.warnings) == is_left
        report = plan(root, HOW)
        assert texts(root) == AFTER, at
        assert not has_journal(root)
        assert bool(report.warnings) == is_left
        settled |= {word for word in ("finished", "undone") if word in str(report.warnings)}
    assert settled == {"finished", "undone"}
