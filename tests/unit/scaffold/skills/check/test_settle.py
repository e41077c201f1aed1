"""What the history, the neighbours and the page make of what is not there."""

from __future__ import annotations

from scaffold.skills.check.decide import TABLE, decide
from scaffold.skills.check.reference import REFUTED, Judged, Reference, Verdict
from tests.unit.scaffold.skills.check.conftest import Checked, told

HERE = {"pkg/__init__.py": "", "pkg/here.py": "def here():\n    return 1\n", "pkg/steps/one.py": ""}


def test_a_removed_path_is_an_error_and_one_that_never_was_a_warning(checked: Checked) -> None:
    page = "Read `pkg/here.py`, `pkg/gone.py` and `pkg/never.py`.\n"
    outcome = checked(page, HERE, {"pkg/gone.py": "x = 1\n"})
    assert told(outcome) == [("path-missing", "removed", 1), ("path-missing", "never here", 1)]
    assert [each.severity for each in outcome.findings] == ["error", "warning"]
    assert "removed it from pkg/gone.py" in outcome.findings[0].evidence


def test_what_became_a_submodule_is_not_judged(checked: Checked) -> None:
    page = "Read `pkg/here.py`. Run `recipe/dapo/run.sh`, `prepare_data.py` and `DapoTrainer`.\n"
    before = {
        "recipe/dapo/run.sh": "x\n",
        "recipe/dapo/prepare_data.py": "x = 1\n",
        "recipe/dapo/trainer.py": "class DapoTrainer:\n    pass\n",
    }
    outcome = checked(page, HERE, before, "recipe")
    assert told(outcome) == []
    assert "not listed here" in outcome.judged["AGENTS.md"][1].verdict.evidence


def test_a_renamed_path_is_moved_and_mended(checked: Checked) -> None:
    body = "".join(f"def step_{number}():\n    return {number}\n" for number in range(9))
    outcome = checked("Read `pkg/old.py`.\n", {**HERE, "pkg/new.py": body}, {"pkg/old.py": body})
    assert told(outcome) == [("path-missing", "moved", 1)]
    assert outcome.findings[0].fix is not None
    assert outcome.findings[0].fix[1:] == ("pkg/old.py", "pkg/new.py", True)


def test_what_the_text_says_is_gone_is_no_finding(checked: Checked) -> None:
    page = "`pkg/gone.py` was removed; there is no `pkg/never.py`. Read `pkg/here.py`.\n"
    assert told(checked(page, HERE, {"pkg/gone.py": "x = 1\n"})) == []


def test_what_was_never_here_needs_neighbours_that_are(checked: Checked) -> None:
    page = "Open `pkg/never.py`.\n\nOther words, elsewhere on the page: `pkg/here.py`.\n"
    outcome = checked(page, HERE)
    assert told(outcome) == []
    assert outcome.judged["AGENTS.md"][0].verdict.reason == "another namespace"


def test_a_page_of_another_place_is_not_compared_and_named(checked: Checked) -> None:
    page = "Here: `pkg/here.py`.\n\n" + "".join(f"- `pkg/app/{each}.py`\n" for each in "abcdefg")
    outcome = checked(page, HERE)
    assert told(outcome) == []
    assert outcome.uncompared == {"AGENTS.md": "1 of 8 references are of this repository"}


def test_a_class_that_was_removed_is_known_by_its_name(checked: Checked) -> None:
    page = "Steps are `OldRunner` objects of `pkg/here.py`.\n"
    outcome = checked(page, HERE, {"pkg/run.py": "class OldRunner:\n    pass\n"})
    assert told(outcome) == [("symbol-missing", "removed", 1)]


def test_a_word_that_a_file_holds_is_never_said_to_be_gone(checked: Checked) -> None:
    before = {"pkg/run.py": "class OldRunner:\n    pass\n"}
    settings = {"deploy/values.yaml": "kind: OldRunner\n"}
    assert told(checked("Use `OldRunner`, `pkg/here.py`.\n", {**HERE, **settings}, before)) == []


def test_the_old_name_beside_the_new_one_is_no_claim(checked: Checked) -> None:
    page = "It is `pkg/steps/one.py`, and not `pkg/Steps/one.py`; read `pkg/here.py`.\n"
    assert told(checked(page, HERE)) == []


def test_links_from_the_root_are_one_warning_and_notes(checked: Checked) -> None:
    guide = "See [one](pkg/steps/one.py) and [here](pkg/here.py).\n"
    outcome = checked("Read `pkg/here.py`.\n", {**HERE, "docs/AGENTS.md": guide})
    assert [(each.path, each.severity, each.reason) for each in outcome.findings] == [
        ("docs/AGENTS.md", "warning", "written from the root"),
        ("docs/AGENTS.md", "note", "written from the root"),
    ]
    assert [each.fix[2] for each in outcome.findings if each.fix] == [
        "../pkg/steps/one.py",
        "../pkg/here.py",
    ]


def test_every_class_that_refutes_has_a_row_and_no_other() -> None:
    assert set(TABLE) == REFUTED


def test_only_what_was_here_is_wrong_as_an_example_too() -> None:
    def decided(reason: str, near: str) -> bool:
        verdict = Verdict(reason, "", "path-missing", "it is not there")  # type: ignore[arg-type]
        row = Judged(Reference("path", "a.py", 1), verdict, near, near)  # type: ignore[arg-type]
        return decide(row, "AGENTS.md") is not None

    found = {
        (reason, near)
        for reason in TABLE
        for near in ("asserts", "makes", "denies", "elsewhere", "template")
        if decided(reason, near)
    }
    asserted = {(reason, "asserts") for reason in TABLE}
    examples = {(reason, "template") for reason in ("removed", "moved", "other spelling")}
    always = {
        ("written from the root", near) for near in ("makes", "denies", "elsewhere", "template")
    }
    assert found == asserted | examples | always
