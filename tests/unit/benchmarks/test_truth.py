"""How findings on public repositories are counted against what people read."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from benchmarks.settings import QUICK
from benchmarks.skills import truth
from benchmarks.skills.truth import Claim, Judged, Score, Told, add, of_half, read_judged
from scaffold.findings import Finding

ROWS = [
    Claim("AGENTS.md", 3, "pkg/gone.py", "right", "path-missing"),
    Claim("AGENTS.md", 5, "pkg/here.py", "wrong", "path-missing"),
    Claim("AGENTS.md", 9, "the loop runs twice", "missed-candidate"),
    Claim("AGENTS.md", 20, "three steps", "missed-candidate"),
]


def finding(line: int, claim: str, severity: str = "error") -> Finding:
    return Finding("AGENTS.md", line, 1, "path-missing", claim, "", severity=severity)  # type: ignore[arg-type]


def scored(*findings: Finding) -> tuple[dict[str, Score], Score]:
    rules: dict[str, Score] = defaultdict(Score)
    errors = Score()
    add(ROWS, findings, rules, errors)
    return rules, errors


def test_a_finding_has_the_judgement_of_its_claim_whatever_its_line() -> None:
    rules, errors = scored(finding(4, "pkg/gone.py"), finding(5, "pkg/here.py"), finding(7, "new"))
    counts = Counter({"right": 1, "wrong": 1, "unread": 1})
    assert rules["path-missing"].judgements == counts
    assert errors.judgements == counts


def test_warnings_do_not_count_among_errors() -> None:
    rules, errors = scored(finding(5, "pkg/here.py", "warning"))
    assert rules["path-missing"].judgements == Counter({"wrong": 1})
    assert errors.found == 0


def test_a_claim_that_a_reader_wrote_down_is_hit_by_a_finding_beside_it() -> None:
    rules, _ = scored(finding(10, "the loop"))
    assert (rules["(read)"].hit, rules["(read)"].known) == (1, 2)
    assert (rules["path-missing"].hit, rules["path-missing"].known) == (0, 1)


def test_the_halves_are_kept_apart() -> None:
    judged = {
        "a+one": Judged("a/one", "1", "tune", ROWS),
        "a+two": Judged("a/two", "2", "report", ROWS),
    }
    told = {"a+one": Told([finding(3, "pkg/gone.py")], 4000), "a+two": Told([], 10)}
    tune = {each.key: each for each in of_half("tune", judged, told)}
    assert tune["truth.tune.right"].ours == 100
    assert tune["truth.tune.wrong"].ours == 0
    assert tune["truth.tune.recall"].ours == pytest.approx(100 / 3)
    report = {each.key: each for each in of_half("report", judged, told)}
    assert report["truth.report.right"].ours is None
    assert report["truth.report.recall"].ours == 0


def test_what_files_cannot_decide_is_left_out_of_the_second_recall() -> None:
    rows = [
        Claim("AGENTS.md", 5, "a name", "missed-candidate"),
        Claim("AGENTS.md", 9, "a purpose", "missed-candidate", is_decidable=False),
        Claim("AGENTS.md", 30, "a habit", "missed-candidate", is_decidable=False),
    ]
    judged = {"a": Judged("a/a", "1", "tune", rows)}
    found = {
        each.key: each.ours
        for each in of_half("tune", judged, {"a": Told([finding(9, "told")], 1)})
    }
    assert found["truth.tune.recall"] == pytest.approx(100 / 3)
    assert found["truth.tune.decidable"] == pytest.approx(50)  # that one was decided after all


def test_rows_of_a_reader_are_beside_those_of_findings(tmp_path: Path) -> None:
    head = {"repository": "a/one", "commit": "1", "half": "tune"}
    rows = [each._asdict() for each in ROWS]
    (tmp_path / "a+one.jsonl").write_text("\n".join(map(json.dumps, [head, *rows[:2]])))
    (tmp_path / "a+one.read.jsonl").write_text("\n".join(map(json.dumps, rows[2:])))
    assert read_judged(tmp_path) == {"a+one": Judged("a/one", "1", "tune", ROWS)}
    (tmp_path / "a+one.jsonl").write_text('{"path": "AGENTS.md"}\n')
    with pytest.raises(ValueError, match=r"a\+one\.jsonl:1"):
        read_judged(tmp_path)


def test_clones_that_are_not_there_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(truth.VARIABLE, str(tmp_path))
    (result,) = truth.run(QUICK)
    assert result.ours == len(read_judged(truth.FOLDER))
    assert "sqlfluff+sqlfluff (no clone)" in result.note


def test_what_was_judged_is_whole() -> None:
    for name, each in read_judged(truth.FOLDER).items():
        assert each.repository.replace("/", "+") == name
        assert len(each.commit) == 40
        assert each.half in ("tune", "report")
        assert all(row.evidence for row in each.rows if row.rule)
