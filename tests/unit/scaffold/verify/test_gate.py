"""What verify looks at beside the unit: style, types, its registry's tests, rendered pages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scaffold.errors import ScaffoldError
from scaffold.skills.pack.sync import sync_skills
from scaffold.target.target import find_target
from scaffold.templating.manifests import load_kind
from scaffold.units.add import add_unit
from scaffold.units.context import Options
from scaffold.units.ledger import Todo, Unit, base_path, find_unit
from scaffold.units.todos import open_todos
from scaffold.verify import checkers
from scaffold.verify.checkers import check_files
from scaffold.verify.interpreter import Interpreter
from scaffold.verify.levels import Bench, Limits, own_completions, run_tests
from scaffold.verify.registry_tests import registry_tests
from scaffold.verify.rendered import renew

PYTHON = Interpreter((sys.executable,), "test", "3.11.0", frozenset({"pytest", "ruff"}))


@pytest.fixture
def unit(project: Path) -> Unit:
    options = Options(project, with_format=False)
    add_unit(load_kind("reward"), "sums", ["exact"], {"take": "last_line"}, options)
    return find_unit(project, "reward/sums")


def test_style_is_that_of_the_repository_and_of_the_unit_alone(project: Path, unit: Unit):
    target = find_target(project)
    (project / "my_rl/reward/others.py").write_text("import os\n")
    assert not check_files(target, unit, PYTHON)
    source = project / "my_rl/reward/sums.py"
    source.write_text(source.read_text() + "\n\n\n\ndef f( ):\n    return undefined_name\n")
    messages = [row.message for row in check_files(target, unit, PYTHON)]
    assert len(messages) == 2, messages
    assert "F821" in messages[0]
    assert messages[1] == "not formatted; run ruff format " + " ".join(
        file.path for file in unit.files
    )


def test_a_rule_that_the_files_beside_a_unit_break_does_not_make_it_fail(project: Path, unit: Unit):
    target = find_target(project)
    source, other = project / "my_rl/reward/sums.py", project / "my_rl/reward/others.py"
    source.write_text(source.read_text() + "\n\nX = undefined_name\n")
    other.write_text("Y = other_undefined_name\n")
    (check,) = check_files(target, unit, PYTHON)
    assert (check.status, "F821" in check.message) == ("warning", True)
    source.write_text(source.read_text() + "Z  = f''\n")
    found = [
        (row.status, row.message.partition(" ")[0]) for row in check_files(target, unit, PYTHON)
    ]
    assert [status for status, _ in found] == ["failed", "warning", "failed"], "other rules count"
    # What the tool made shows no convention of the repository.
    options = Options(project, with_format=False)
    add_unit(load_kind("reward"), "others_too", ["exact"], {"take": "last_line"}, options)
    other.unlink()
    made = project / "my_rl/reward/others_too.py"
    made.write_text(made.read_text() + "\n\nY = other_undefined_name\n")
    assert {row.status for row in check_files(target, unit, PYTHON)} == {"failed"}


def test_a_rule_that_an_open_place_breaks_waits_for_the_author(project: Path):
    options = Options(project, with_format=False)
    add_unit(load_kind("reward"), "mine", ["exact"], {}, options)
    unit = find_unit(project, "reward/mine")
    (todo, *_) = [each for each in open_todos(project, unit) if each.file == unit.files[0].path]
    for root in (project, project / Path(base_path("reward", "mine", "x")).parent):
        source = next(root.glob("my_rl/reward/mine.py*"))
        rows = source.read_text().split("\n")
        rows.insert(todo.line - 1, "    unused = 1")
        source.write_text("\n".join(rows))
    found = check_files(find_target(project), unit, PYTHON)
    assert [(row.status, "F841" in row.message) for row in found] == [("warning", True)]
    # Outside of it the rule holds.
    text = source.read_text()
    (project / unit.files[0].path).write_text(f"{text}\n\ndef f() -> None:\n    unused = 1\n")
    found = check_files(find_target(project), unit, PYTHON)
    assert sorted(row.status for row in found) == ["failed", "warning"]


def test_beside_a_unit_that_is_a_folder_are_the_folders_of_its_like(project: Path, unit: Unit):
    folder, other = project / "my_rl/reward/sums", project / "my_rl/reward/others"
    for each in (folder, other):
        each.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "rule.py").write_text("X = undefined_name\n")
    paths = ("my_rl/reward/sums/__init__.py", "my_rl/reward/sums/rule.py")
    files = tuple(unit.files[0]._replace(path=path) for path in paths)
    one = unit._replace(files=files)
    (check,) = check_files(find_target(project), one, PYTHON)
    assert check.status == "failed"
    (other / "rule.py").write_text("Y = other_undefined_name\n")
    (check,) = check_files(find_target(project), one, PYTHON)
    assert (check.status, "F821" in check.message) == ("warning", True)


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        ("    # YOURS: try it\n    raise NotImplementedError\n", "skipped", "1 test waits for the"),
        ("    # YOURS: try it\n    answer()\n", "skipped", "1 test waits for the author"),
        ("    # YOURS: try it\n    assert False\n", "failed", "test_it: assert False"),
        ("    raise NotImplementedError\n", "failed", "test_it: NotImplementedError"),
    ],
)
def test_a_test_that_runs_into_an_open_place_waits_for_the_author(
    project: Path, unit: Unit, monkeypatch: pytest.MonkeyPatch, body: str, status: str, told: str
):
    """Where the place itself raises, in the test or in the code below it."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (project / "tests/test_registries.py").unlink()
    source, test = "my_rl/reward/sums.py", "tests/reward/test_sums.py"
    (project / "my_rl/reward/__init__.py").write_text("")
    (project / source).write_text(
        "def answer():\n    # YOURS: answer it\n    raise NotImplementedError\n"
    )
    (project / test).write_text(f"from my_rl.reward.sums import answer\n\n\ndef test_it():\n{body}")
    places = (Todo(source, "answer", "answer it"), Todo(test, "test_it", "try it"))
    for place in places:
        (project / base_path(unit.kind, unit.name, place.file)).unlink()
    level = run_tests(Bench(find_target(project), PYTHON, Limits(60)), unit._replace(todos=places))
    assert (level.status, level.reason.startswith(told)) == (status, True), level.reason


def test_tests_of_a_project_inside_of_the_repository_are_found(
    project: Path, unit: Unit, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # which takes most of the time
    inner = project / "inner-gym"
    (inner / "tests").mkdir(parents=True)
    (inner / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (inner / "tests/test_sums.py").write_text("def test_own():\n    pass\n")
    test = unit.files[-1]._replace(path="inner-gym/tests/test_sums.py", role="test")
    bench = Bench(find_target(project), PYTHON, Limits(60))
    level = run_tests(bench, unit._replace(files=(test,), entries=()))
    assert (level.status, level.reason[:8]) == ("passed", "1 passed"), level


def test_a_checker_that_is_not_there_is_told(
    project: Path, unit: Unit, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(checkers.shutil, "which", lambda *_, **__: None)
    bare = Interpreter((sys.executable,), "test")
    (check,) = check_files(find_target(project), unit, bare)
    assert (check.status, "ruff" in check.message) == ("warning", True)


@pytest.mark.parametrize(
    ("table", "is_run"),
    [("", True), ('include = ["my_rl"]', True), ('include = ["src"]', False),
     ('exclude = ["my_rl", "tests"]', False)],
)  # fmt: skip
def test_types_are_checked_where_the_repository_checks_them(
    project: Path, unit: Unit, monkeypatch: pytest.MonkeyPatch, table: str, is_run: bool
):
    settings = project / "pyproject.toml"
    text = settings.read_text().replace("[tool.ruff]", "[tool.other]")
    settings.write_text(f"{text}\n[tool.pyright]\n{table}\n")
    # A type checker that finds something in one file of the unit, and in another file.
    program = project / "pyright.py"
    rows = ["/my_rl/reward/sums.py", "my_rl/reward/sums.py:3: bad", "/x.py", "x.py:1: no"]
    program.write_text("".join(f"print({row!r})\n" for row in rows) + "exit(1)\n")
    monkeypatch.setattr(checkers, "_program", lambda *_: [sys.executable, str(program)])
    found = check_files(find_target(project), unit, PYTHON)
    messages = ["pyright: my_rl/reward/sums.py:3: bad"] if is_run else []
    assert [row.message for row in found] == messages


def test_of_the_tests_over_a_registry_those_of_the_unit_run(
    project: Path, unit: Unit, monkeypatch: pytest.MonkeyPatch
):
    """Needs no training package: the table and its tests are plain Python."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # which takes most of the time
    table = "REWARDS: dict[str, str] = {\n    'others': 'x:y',\n    'sums': 'x:y',\n}\n"
    (project / "my_rl/reward/__init__.py").write_text(table)
    (project / "tests/reward/test_sums.py").write_text("def test_own():\n    pass\n")
    (project / "tests/test_registries.py").write_text(
        "import pytest\nfrom my_rl.reward import REWARDS\n\n\n"
        "@pytest.mark.parametrize('name', REWARDS)\n"
        "def test_each(name):\n    assert name == 'sums', 'another unit is not asked'\n"
    )
    target = find_target(project)
    shared = registry_tests(target, unit)
    assert (shared.files, shared.others) == (("tests/test_registries.py",), ("others",))
    bench = Bench(target, PYTHON, Limits(60))
    level = run_tests(bench, unit)
    assert (level.status, level.reason) == ("passed", "1 passed; 1 registry tests")
    text = (project / "tests/test_registries.py").read_text()
    (project / "tests/test_registries.py").write_text(text.replace("== 'sums'", "!= 'sums'"))
    level = run_tests(bench, unit)
    assert level.status == "failed"
    assert "test_each[sums]" in level.reason


def test_pages_that_show_a_registry_are_renewed(checkout: Path):
    subprocess.run(["rm", "-rf", str(checkout / ".git")], check=True)
    subprocess.run(["git", "init", "-q", str(checkout)], check=True)
    assert renew(checkout, writes=True) == ((), ()), "there are no skills"
    page = checkout / ".agents/skills/score/SKILL.md"
    page.parent.mkdir(parents=True)
    page.write_text(
        "---\nname: score\ndescription: Scores. Use when scoring.\n---\n# Score\n\n"
        "<!-- scaffold:begin registry areal.reward.REWARDS -->\n<!-- scaffold:end -->\n"
    )
    assert renew(checkout, writes=True) == ((), ()), "nobody renders them here"
    sync_skills(checkout, check=False)
    page.write_text(page.read_text().replace("| `gsm8k` |", "| gone |"))
    assert ".agents/skills/score/SKILL.md" in renew(checkout, writes=False).problems[0]
    changes, problems = renew(checkout, writes=True)
    assert (".agents/skills/score/SKILL.md" in [row.path for row in changes], problems) == (
        True,
        (),
    )
    assert "| `gsm8k` |" in page.read_text()
    assert renew(checkout, writes=False) == ((), ())


def test_a_checker_that_hangs_is_told(
    project: Path, unit: Unit, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = project / "slow.py"
    program.write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setattr(checkers, "_program", lambda *_: [sys.executable, str(program)])
    monkeypatch.setattr(checkers, "TIMEOUT_S", 0.5)
    found = check_files(find_target(project), unit, PYTHON)
    assert {row.status for row in found} == {"warning"}
    assert "not run: ruff was killed at the time limit" in found[0].message


def test_completions_of_ones_own_are_read_from_beside_the_test(project: Path, unit: Unit) -> None:
    target = find_target(project)
    beside = project / "tests/reward/test_sums.jsonl"
    assert own_completions(Bench(target, PYTHON, Limits()), "tests/reward/test_sums.jsonl") == []
    beside.write_text('{"completion": "a", "answer": "b"}\n{"completions": ["a", "b"]}\n')
    found = own_completions(Bench(target, PYTHON, Limits()), "tests/reward/test_sums.jsonl")
    assert found == [{"answer": "b", "completions": ["a"]}, {"completions": ["a", "b"]}]
    beside.write_text('{"answer": "b"}\n')
    with pytest.raises(ScaffoldError, match="needs a text completion"):
        own_completions(Bench(target, PYTHON, Limits()), "tests/reward/test_sums.jsonl")
