"""Three components in a row without a commit, and verify on each: unfinished, then ok."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.heavy

Scaffold = Callable[..., Any]

REQUESTS = [
    ("add-reward", "sums", "--style", "exact"),
    ("add-dataset", "word_sums", "--type", "sft", "--type", "rl"),
    ("add-workflow", "second_try", "--style", "multi-turn"),
]
IDS = ["reward/sums", "dataset/word_sums", "workflow/second_try"]

# What an author writes: file, what is there, what takes its place.
WRITTEN = [
    (
        "{package}/reward/sums.py",
        '    lines = completion.strip().splitlines()\n    found = lines[-1] if lines else ""\n',
        '    found = completion.rpartition("=")[2]\n',
    ),
    (
        "{tests}/reward/test_sums.py",
        "CASES = [\n",
        'CASES = [\n    ("2 + 3 = 5", "5", 1.0),\n    ("2 + 3 = 6", "5", 0.0),\n',
    ),
    (
        "{package}/dataset/word_sums.py",
        'QUESTION = "question"\nANSWER = "answer"',
        'QUESTION = "problem"\nANSWER = "solution"',
    ),
    ("{tests}/dataset/test_word_sums.py", '"question": ', '"problem": '),
    ("{tests}/dataset/test_word_sums.py", '"answer": ', '"solution": '),
    (
        "{package}/workflow/second_try.py",
        'return "Your answer is wrong. Think again and answer once more."',
        'return f"{completion!r} is wrong. What is it really?"',
    ),
    ("{tests}/workflow/test_second_try.py", '("6", "wrong"),', '("6", "\'6\' is wrong"),'),
]
REWRITTEN = {
    "{tests}/reward/test_sums.py": [
        ('    ("2 + 3 makes 5, times 4.\\ntwenty", "twenty", 1.0),\n', ""),
        ('    ("twenty\\nor rather twenty-one", "twenty", 0.0),\n', ""),
        ('("TWENTY", "twenty", 1.0)', '("= TWENTY", "twenty", 1.0)'),
        ("1.0),\n]", '1.0),\n    ("nothing", "twenty", 0.0),\n]'),
    ]
}


def write_the_authors_part(root: Path, package: str, tests: str) -> None:
    edits = [*WRITTEN, *((f, a, b) for f, pairs in REWRITTEN.items() for a, b in pairs)]
    for file, was, now in edits:
        path = root / file.format(package=package, tests=tests)
        text = path.read_text(encoding="utf-8")
        assert was in text, f"{path} no longer holds {was!r}"
        path.write_text(text.replace(was, now), encoding="utf-8")


def add_all(scaffold: Scaffold, root: Path) -> list[str]:
    """Adds the three units and returns the files with places of the author."""
    places = []
    for request in REQUESTS:
        added = scaffold(root, *request, "--json")
        assert added.status == 0, added.text
        places += [step["file"] for step in added.report["unfinished"]]
    return places


# A workflow and a dataset take two processes with torch each; the walks through the skills verify
# one of either, unfinished and finished, in every run.
@pytest.mark.parametrize("verified", [IDS[:1], pytest.param(IDS, marks=pytest.mark.slow)])
def test_in_a_project(scaffold: Scaffold, tmp_path: Path, verified: list[str]) -> None:
    assert scaffold(tmp_path, "new", "my_rl").status == 0
    project = tmp_path / "my_rl"
    places = add_all(scaffold, project)
    assert len(places) == 6
    places = places[: 2 * len(verified)]

    before = scaffold(project, "verify", *verified, "--json")
    assert before.status == 1, before.text
    assert before.report["verdict"] == "unfinished"
    assert [step["file"] for step in before.report["unfinished"]] == places
    for unit in before.report["units"]:
        assert unit["verdict"] == "unfinished"
        assert [level["status"] for level in unit["levels"]] == ["passed"] * 3, unit
    assert "unfinished" in before.text

    write_the_authors_part(project, "my_rl", "tests")
    after = scaffold(project, "verify", *verified, "--json")
    assert after.status == 0, after.text
    assert after.report["verdict"] == "ok"
    assert after.report["unfinished"] == []
    assert [unit["id"] for unit in after.report["units"]] == verified


@pytest.mark.slow
def test_in_this_repository(scaffold: Scaffold, repository: Path) -> None:
    assert len(add_all(scaffold, repository)) == 6
    stub = scaffold(repository, "verify", "reward/sums", "--json", "--allow-stub")
    assert (stub.status, stub.report["verdict"]) == (0, "ok"), stub.text
    assert len(stub.report["unfinished"]) == 2

    write_the_authors_part(repository, "areal", "tests/unit")
    done = scaffold(repository, "verify", "--json")
    assert done.status == 0, done.text
    assert [unit["id"] for unit in done.report["units"]] == sorted(IDS)
    assert {unit["verdict"] for unit in done.report["units"]} == {"ok"}


def test_what_a_package_ships_can_be_verified_too(scaffold: Scaffold, repository: Path) -> None:
    done = scaffold(repository, "verify", "reward/arithmetic", "workflow/multi_turn", "--json")
    assert done.status == 0, done.text
    assert [unit["verdict"] for unit in done.report["units"]] == ["ok", "ok"]


@pytest.mark.parametrize("unit_id", ["reward/nothing", "nothing"])
def test_an_unknown_id_is_refused(scaffold: Scaffold, project: Path, unit_id: str) -> None:
    done = scaffold(project, "verify", unit_id, "--json")
    assert done.status == 1
    assert done.report["error"]["code"] == "unit_unknown"
