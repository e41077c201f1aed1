"""Taking back, bringing up to date, mending, ejecting, leaving: nobody's edits are ever lost."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scaffold.cli.units import writer_of
from scaffold.errors import ScaffoldError
from scaffold.report import Report
from scaffold.templating.manifests import catalogue_for, load_kind
from scaffold.units.add import add_unit
from scaffold.units.context import Options
from scaffold.units.ledger import find_unit, read_units
from scaffold.units.maintain import eject_template, uninstall
from scaffold.units.remove import remove_unit
from scaffold.units.status import fix_registries, show_status
from scaffold.units.update import update_units

REWARD = "my_rl/reward/sums.py"
TEST = "tests/reward/test_sums.py"
TABLE = "my_rl/reward/__init__.py"


def tree(root: Path) -> dict[str, bytes]:
    paths = [p for p in sorted(root.rglob("*")) if p.is_file() and "state" not in p.parts]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


def folders(root: Path) -> set[str]:
    paths = [path for path in root.rglob("*") if path.is_dir() and "state" not in path.parts]
    return {path.relative_to(root).as_posix() for path in paths}


def add(root: Path, name: str = "sums", kind: str = "reward", **answers: Any) -> Report:
    styles = ("rl", "sft") if kind == "dataset" else ()
    return add_unit(load_kind(kind), name, styles, answers, Options(root))


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def states(root: Path) -> dict[str, list[str]]:
    rows = show_status(Options(root)).extra["units"]
    return {row["id"]: row["states"] for row in rows}


@pytest.mark.parametrize("kind", ["reward", "workflow", "dataset"])
def test_remove_gives_back_the_first_bytes(project: Path, kind: str) -> None:
    before, before_folders = tree(project), folders(project)
    add(project, kind=kind)
    report = remove_unit("sums", (), Options(project))
    assert {change.action for change in report.changes} == {"deleted", "edited", "record"}
    assert tree(project) == before
    assert folders(project) == before_folders


def test_units_are_removed_in_any_order(project: Path) -> None:
    before = tree(project)
    names = ["zeta", "alpha", "mid"]
    for name in names:
        add(project, name)
    for name in ("alpha", "zeta", "mid"):
        remove_unit(f"reward/{name}", (), Options(project))
    assert tree(project) == before


def test_an_edited_file_is_kept_and_said(project: Path) -> None:
    add(project)
    append(project / REWARD, "\nEXTRA = 1\n")
    mine = (project / REWARD).read_bytes()
    report = remove_unit("sums", (), Options(project))
    assert (project / REWARD).read_bytes() == mine
    assert not (project / TEST).exists()
    assert "sums" not in (project / TABLE).read_text()
    assert any(REWARD in text and "is kept" in text for text in report.warnings)
    assert [unit.id for unit in read_units(project)] == ["project/my_rl"]


@pytest.mark.parametrize("change", ["\n# a comment of mine\n", "\nEXTRA = 1\n"])
def test_discarded_edits_are_copied_first(project: Path, change: str) -> None:
    before = tree(project)
    add(project)
    append(project / REWARD, change)
    mine = (project / REWARD).read_bytes()
    report = remove_unit("sums", ["reward/sums"], Options(project))
    assert tree(project) == before
    saved = next(word for word in report.warnings[0].split() if "/backups/" in word)
    assert (Path(saved) / REWARD).read_bytes() == mine


def test_discard_has_to_name_the_unit(project: Path) -> None:
    add(project)
    with pytest.raises(ScaffoldError) as refusal:
        remove_unit("sums", ["reward/other"], Options(project))
    assert refusal.value.code == "usage"
    assert (project / REWARD).exists()


def test_a_formatter_makes_nothing_edited(project: Path) -> None:
    before = tree(project)
    add(project)
    text = (project / REWARD).read_bytes()
    layout = ["--isolated", "--line-length", "60", "--config", 'format.indent-style="tab"']
    argv = [sys.executable, "-m", "ruff", "format", "-q", *layout, project / REWARD]
    subprocess.run(argv, check=True)
    assert (project / REWARD).read_bytes() != text
    assert states(project)["reward/sums"] == ["untouched"]
    remove_unit("sums", (), Options(project))
    assert tree(project) == before


def test_a_line_that_says_something_else_stays(project: Path) -> None:
    add(project)
    text = (project / TABLE).read_text().replace("sums:sums_reward_fn", "mine:mine")
    (project / TABLE).write_text(text)
    report = remove_unit("sums", (), Options(project))
    assert (project / TABLE).read_text() == text
    assert any("'sums'" in text for text in report.warnings)


def test_a_project_is_not_removed_from_under_its_units(project: Path) -> None:
    add(project)
    with pytest.raises(ScaffoldError) as refusal:
        remove_unit("project/my_rl", (), Options(project))
    assert refusal.value.code == "unit_needed"


def test_a_file_that_two_units_made_goes_with_the_last(project: Path) -> None:
    before = tree(project)
    for kind in ("reward", "workflow"):
        eject_template(kind, Options(project))
        folder = project / f".scaffold/templates/{kind}"
        (folder / "notes.txt").write_text("notes of all\n")
        files = '[[files]]\nfrom = "notes.txt"\nto = "NOTES.txt"\n\n[style]'
        text = (folder / "kind.toml").read_text()
        assert text.count("[style]") == 1
        (folder / "kind.toml").write_text(text.replace("[style]", files))
    for kind in ("reward", "workflow"):
        own = catalogue_for(project).kind(kind)
        add_unit(own, f"my_{kind}s", (), {}, Options(project))
    report = remove_unit("reward/my_rewards", (), Options(project))
    assert not report.warnings
    assert (project / "NOTES.txt").exists()
    remove_unit("workflow/my_workflows", (), Options(project))
    shutil.rmtree(project / ".scaffold/templates")
    assert tree(project) == before


def test_a_broken_registry_stops_the_removal_before_anything_is_done(project: Path) -> None:
    add(project)
    append(project / TABLE, "<<<<<<< ours\n")
    before = tree(project)
    with pytest.raises(ScaffoldError) as refusal:
        remove_unit("sums", (), Options(project))
    assert refusal.value.code == "registry_syntax"
    assert "repair" in refusal.value.hint
    assert tree(project) == before


def test_where_a_registry_became_code_there_is_a_way_out(project: Path) -> None:
    add(project)
    (project / TABLE).write_text("REWARDS = {k: k for k in found()}\n")
    before = tree(project)
    with pytest.raises(ScaffoldError) as refusal:
        remove_unit("sums", (), Options(project))
    assert refusal.value.code == "registry_computed"
    assert tree(project) == before
    assert "remove 'sums' from REWARDS in my_rl/reward/__init__.py" in refusal.value.hint
    assert "delete .scaffold/made/reward/sums.toml" in refusal.value.hint
    (project / ".scaffold/made/reward/sums.toml").unlink()
    assert "reward/sums" not in states(project)


def test_dry_runs_write_nothing(project: Path) -> None:
    add(project)
    before = tree(project)
    options = Options(project, dry_run=True)
    assert "deleted" in [c.action for c in remove_unit("sums", (), options).changes]
    assert update_units(["sums"], ["take=last_line"], options, writer_of).changes
    assert eject_template("reward/exact", options).changes
    assert uninstall(options).changes
    assert tree(project) == before


def test_update_with_another_answer_renders_again(project: Path) -> None:
    add(project)
    report = update_units(["sums"], ["take=last_line"], Options(project), writer_of)
    assert (report.ok, report.next) == (True, ())
    assert find_unit(project, "sums").answers["take"] == "last_line"
    other = add(project, "fresh", take="last_line").changes
    fresh = next(c for c in other if c.path.endswith("reward/fresh.py"))
    assert (project / REWARD).read_text() == (
        (project / fresh.path).read_text().replace("fresh", "sums")
    )
    assert states(project)["reward/sums"] == ["untouched"]
    assert not update_units((), (), Options(project), writer_of).changes


def test_update_keeps_edits_and_takes_the_rest(project: Path) -> None:
    add(project)
    append(project / REWARD, "\n\nMINE = 1\n")
    report = update_units(["sums"], ["ignore_case=false"], Options(project), writer_of)
    assert {c.path: c.action for c in report.changes}[REWARD] == "merged"
    text = (project / REWARD).read_text()
    assert text.endswith("MINE = 1\n")
    assert states(project)["reward/sums"] == ["edited"]
    compile(text, REWARD, "exec")


def test_a_conflict_is_marked_reported_and_loses_nothing(project: Path) -> None:
    eject_template("reward/exact", Options(project))
    template = project / ".scaffold/templates/reward/exact"
    add(project)
    first = (project / REWARD).read_text().splitlines()[0]
    (project / REWARD).write_text((project / REWARD).read_text().replace(first, '"""Mine."""', 1))
    source = template / "reward.py.jinja"
    source.write_text(source.read_text().replace(first, '"""Theirs."""', 1))
    manifest = template / "template.toml"
    manifest.write_text(manifest.read_text().replace("version = 3", "version = 4"))
    assert "outdated" in states(project)["reward/sums"]

    report = update_units((), (), Options(project), writer_of)
    assert not report.ok
    text = (project / REWARD).read_text()
    assert text.index('"""Mine."""') < text.index(first) < text.index('"""Theirs."""')
    assert [(step.file, step.line) for step in report.next] == [(REWARD, 1)]
    assert "outdated" not in states(project)["reward/sums"]


@pytest.mark.parametrize("mine", [b"", b"MINE = 1\r\n"])
def test_update_with_windows_line_ends(project: Path, mine: bytes) -> None:
    add(project)
    data = (project / REWARD).read_bytes().replace(b"\n", b"\r\n") + mine
    (project / REWARD).write_bytes(data)
    report = update_units(["sums"], ["ignore_case=false"], Options(project), writer_of)
    assert report.ok
    after = (project / REWARD).read_bytes()
    assert after != data
    assert after.endswith(mine)
    assert after.count(b"\n") == after.count(b"\r\n")
    assert states(project)["reward/sums"] == (["edited"] if mine else ["untouched"])


def test_records_that_git_checked_out_with_windows_line_ends_stay(project: Path) -> None:
    add(project)
    for path in (project / ".scaffold/made").glob("*/*.toml"):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    before = tree(project)
    assert update_units([], [], Options(project), writer_of).changes == ()
    assert tree(project) == before


def test_update_without_its_base_is_refused(project: Path) -> None:
    add(project)
    (project / f".scaffold/made/reward/sums.base/{REWARD}.txt").unlink()
    with pytest.raises(ScaffoldError) as refusal:
        update_units(["sums"], ["take=last_line"], Options(project), writer_of)
    assert refusal.value.code == "base_missing"


@pytest.mark.parametrize(
    ("settings", "code"),
    [(["nonsense"], "usage"), (["tke=x"], "usage"), (["take=x"], "answer_invalid")],
)
def test_wrong_settings_are_refused(project: Path, settings: list[str], code: str) -> None:
    add(project)
    before = tree(project)
    with pytest.raises(ScaffoldError) as refusal:
        update_units(["sums"], settings, Options(project), writer_of)
    assert refusal.value.code == code
    assert tree(project) == before


def newer_template(root: Path) -> None:
    """Ejects the templates of rewards, registers them otherwise and adds a line to the source."""
    eject_template("reward", Options(root))
    eject_template("reward/exact", Options(root))
    folder = root / ".scaffold/templates/reward"
    for path, old, new in (
        (folder / "kind.toml", 'value = "{module}:', 'value = "{module}:newer_'),
        (folder / "exact/template.toml", "version = 3", "version = 4"),
    ):
        assert path.read_text().count(old) == 1
        path.write_text(path.read_text().replace(old, new))
    append(folder / "exact/reward.py.jinja", "\n\nNEWER = True\n")


def test_units_are_brought_up_to_date_together(project: Path) -> None:
    for name in ("sums", "more"):
        add(project, name)
    newer_template(project)
    report = update_units([], [], Options(project), writer_of)
    assert [c.path for c in report.changes].count(TABLE) == 1
    assert (project / TABLE).read_text().count(":newer_") == 2
    assert [row for row in states(project).values() if row != ["untouched"]] == []
    assert update_units([], [], Options(project), writer_of).changes == ()


@pytest.mark.parametrize(
    ("lost", "code"),
    [
        (f".scaffold/made/reward/sums.base/{REWARD}.txt", "base_missing"),
        (TABLE, "registry_missing"),
    ],
)
def test_an_update_that_one_unit_forbids_changes_none(project: Path, lost: str, code: str) -> None:
    for name in ("alpha", "sums"):
        add(project, name)
    newer_template(project)
    (project / lost).unlink()
    before = tree(project)
    with pytest.raises(ScaffoldError) as refusal:
        update_units([], [], Options(project), writer_of)
    assert refusal.value.code == code
    assert tree(project) == before


def test_a_merge_that_lost_lines_is_mended(project: Path) -> None:
    first = (project / TABLE).read_bytes()
    add(project, "sums")
    add(project, "more")
    after = (project / TABLE).read_bytes()
    (project / TABLE).write_bytes(first)
    assert states(project)["reward/sums"] == ["unregistered"]
    report = fix_registries(Options(project))
    assert (project / TABLE).read_bytes() == after
    assert sorted(row.key for row in report.registered) == ["more", "sums"]
    assert not fix_registries(Options(project)).changes


def test_an_ejected_template_comes_first(project: Path) -> None:
    eject_template("reward/exact", Options(project))
    source = project / ".scaffold/templates/reward/exact/reward.py.jinja"
    source.write_text(source.read_text() + "\nOURS = True\n")
    report = add(project)
    assert (project / REWARD).read_text().endswith("OURS = True\n")
    assert any("repository" in text for text in report.warnings)
    with pytest.raises(ScaffoldError):
        eject_template("reward/exact", Options(project))


def test_ejecting_a_kind_takes_what_its_styles_share(project: Path) -> None:
    eject_template("dataset", Options(project))
    names = {path.name for path in (project / ".scaffold/templates/dataset").iterdir()}
    assert "kind.toml" in names
    assert "rl" not in names
    add(project, kind="dataset")


def test_uninstall_leaves_the_code_and_nothing_else(project: Path) -> None:
    add(project)
    code = {k: v for k, v in tree(project).items() if not k.startswith(".scaffold/")}
    report = uninstall(Options(project))
    assert tree(project) == code
    assert not (project / ".scaffold").exists()
    assert report.next[0].file == "pyproject.toml"


def test_copies_of_edited_files_outlive_the_tool_and_are_named(project: Path) -> None:
    add(project)
    append(project / REWARD, "\nEXTRA = 1\n")
    remove_unit("sums", ["sums"], Options(project))
    report = uninstall(Options(project))
    copy = next(project.rglob(f"backups/*/{REWARD}"))
    assert "EXTRA = 1" in copy.read_text()
    assert any(text.startswith(str(copy.parents[3])) for text in report.warnings)


def test_branches_that_each_add_one_merge_without_conflict(project: Path) -> None:
    def git(*argv: str) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *who, *argv], cwd=project, check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    git("add", "-A")
    git("commit", "-qm", "first")
    for name in ("left", "right"):
        git("checkout", "-qb", name, "main")
        (add(project, name, kind="reward"), add(project, name, kind="workflow"))
        git("add", "-A")
        git("commit", "-qm", name)
    # The registries' lines meet; the records and the bases do not.
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    merge = ["git", *who, "merge", "-q", "left", "-X", "ours"]
    subprocess.run(merge, cwd=project, check=True, capture_output=True)
    fix_registries(Options(project))
    assert set(map(tuple, states(project).values())) == {("untouched",)}


def test_an_update_of_several_units_is_one_step(project: Path) -> None:
    add(project, "first")
    add(project, "second")
    eject_template("reward/exact", Options(project))
    folder = project / ".scaffold/templates/reward/exact"
    for name, was, now in (
        ("template.toml", "version = 3", "version = 4"),
        ("reward.py.jinja", "", "THEIRS = 1\n"),
    ):
        text = (folder / name).read_text()
        (folder / name).write_text(text.replace(was, now, 1) if was else text + now)
    base = project / ".scaffold/made/reward/second.base/my_rl/reward/second.py.txt"
    kept = base.read_bytes()
    base.unlink()
    before = tree(project)
    with pytest.raises(ScaffoldError) as refusal:
        update_units((), (), Options(project), writer_of)
    assert refusal.value.code == "base_missing"
    assert tree(project) == before

    base.write_bytes(kept)
    report = update_units((), (), Options(project), writer_of)
    updated = {change.path for change in report.changes if change.action == "updated"}
    assert updated == {"my_rl/reward/first.py", "my_rl/reward/second.py"}
    assert set(map(tuple, states(project).values())) == {("untouched",)}


def test_a_record_under_conflict_leaves_the_others_alone(project: Path) -> None:
    before = tree(project)
    add(project, "more")
    add(project, "sums")
    record = project / ".scaffold/made/reward/more.toml"
    record.write_text("<<<<<<< ours\n" + record.read_text())
    report = show_status(Options(project))
    assert not report.ok
    assert [row["id"] for row in report.extra["units"]] == ["project/my_rl", "reward/sums"]
    assert report.error is not None
    assert "more.toml" in report.error.message
    report = remove_unit("sums", (), Options(project))
    assert "more.toml" in report.warnings[0]
    assert "my_rl/reward/sums.py" not in tree(project)
    record.write_text(record.read_text().replace("<<<<<<< ours\n", ""))
    remove_unit("more", (), Options(project))
    assert tree(project) == before


def test_one_registry_that_cannot_be_mended_stops_no_other(project: Path) -> None:
    add(project, "sums")
    add(project, "sums", kind="workflow")
    other = project / "my_rl/workflow/__init__.py"
    mended = other.read_bytes()
    other.write_text(other.read_text().replace('"sums": "my_rl.workflow.sums:SumsWorkflow",', ""))
    (project / TABLE).write_text("REWARDS = make()\n")
    report = fix_registries(Options(project))
    assert not report.ok
    assert [row.key for row in report.registered] == ["sums"]
    assert b"SumsWorkflow" in other.read_bytes()
    assert len(other.read_bytes().splitlines()) >= len(mended.splitlines())
    assert report.error is not None
    assert "my_rl/reward" in report.error.message
    assert "by hand" in report.error.hint
