"""The command line: exit statuses, one JSON object, options from manifests, and no waiting."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
from click.testing import CliRunner, Result

from scaffold.cli import kinds as kind_options
from scaffold.cli.examples import EXAMPLES
from scaffold.cli.main import main
from scaffold.cli.options import may_ask
from scaffold.errors import declared_codes
from scaffold.templating.manifests import Catalogue, builtin_catalogue, load_kind, style_names
from tests.reports import REPORTS


@pytest.fixture
def in_project(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands in a fresh project."""
    monkeypatch.chdir(project)
    return project


def run(*argv: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, list(argv), input=stdin)


def run_json(*argv: str) -> tuple[int, dict[str, Any]]:
    """Runs a command with --json; stdout holds one object of the published schema and no more."""
    result = run(*argv, "--json")
    assert result.stdout.count("\n") == 1
    report = json.loads(result.stdout)
    REPORTS.validate(report)
    return result.exit_code, report


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(REPORTS.schema)


def test_adds_and_says_what_is_next(in_project: Path):
    result = run("add-reward", "Math Sum")
    assert result.exit_code == 0, result.output
    assert "created    my_rl/reward/math_sum.py" in result.stdout
    assert "edited     my_rl/reward/__init__.py" in result.stdout
    assert "registered my_rl/reward/__init__.py:11  REWARDS['math_sum']" in result.stdout
    assert "check      scaffold verify reward/math_sum" in result.stdout
    assert ".scaffold" not in result.stdout
    assert run("add-reward", "math_sum").stdout.startswith("nothing to do\n")


def test_json_of_an_add(in_project: Path):
    status, report = run_json("add-workflow", "debate", "--style", "multi-turn", "--max-turns", "3")
    assert (status, report["ok"], report["error"]) == (0, True, None)
    assert report["command"] == "add-workflow"
    assert report["target"] == {"root": str(in_project), "layout": "project", "package": "my_rl"}
    assert report["check"] == [["scaffold", "verify", "workflow/debate"]]
    assert report["registered"][0]["value"] == "my_rl.workflow.debate:DebateWorkflow"
    for step in [*report["next"], *report["unfinished"]]:
        assert step["line"] <= len((in_project / step["file"]).read_text().splitlines())
    assert all(change["diff"] for change in report["changes"] if change["action"] != "record")


def test_add_kind_is_the_same_as_its_alias(in_project: Path):
    status, report = run_json("add", "reward", "sums")
    assert (status, report["command"]) == (0, "add-reward")


def test_types_of_a_dataset_repeat(in_project: Path):
    assert run("add-dataset", "sums", "--type", "rl", "--type", "sft").exit_code == 0
    text = (in_project / "my_rl/dataset/sums.py").read_text()
    assert "get_sums_rl_dataset" in text
    assert "get_sums_sft_dataset" in text


def test_a_dry_run_prints_the_diff(in_project: Path):
    result = run("add-reward", "sums", "--dry-run")
    assert result.exit_code == 0
    assert result.stdout.startswith("--- /dev/null\n+++ b/my_rl/reward/sums.py\n")
    assert not (in_project / "my_rl/reward/sums.py").exists()
    status, report = run_json("add-reward", "sums", "--dry-run")
    assert (status, report["dry_run"]) == (0, True)


@pytest.mark.parametrize("command", ["list", "target", "status", "show project/my_rl"])
def test_what_only_reads_reports_in_the_schema_too(in_project: Path, command: str):
    status, report = run_json(*command.split())
    assert (status, report["ok"], report["changes"]) == (0, True, [])
    text = run(*command.split())
    assert text.exit_code == 0
    assert text.stdout


@pytest.mark.parametrize("table", ["schema = 99", "schema = 1\npackage = 3", "schema ="])
def test_a_table_that_is_wrong_stops_the_list_too(in_project: Path, table: str):
    (in_project / "pyproject.toml").write_text(f"[tool.scaffold]\n{table}\n")
    status, report = run_json("list")
    assert (status, report["ok"]) == (1, False)
    assert report["error"] == run_json("target")[1]["error"]


def test_templates_are_listed_where_there_is_no_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    status, report = run_json("list")
    assert (status, report["ok"], report["units"], report["target"]) == (0, True, [], None)
    assert report["kinds"]


FAILING = [
    "skills check --target nope", "skills check --nope", "deps plan x",
    "deps summary --target nope", "docs plan --target nope", "debug compare nope nope",
    "debug flight nope", "archon coverage --target nope", "review --target nope",
]  # fmt: skip


@pytest.mark.parametrize("line", FAILING)
def test_a_failure_names_the_whole_command(in_project: Path, line: str):
    words = line.split()
    status, report = run_json(*words)
    assert status
    assert report["command"] == " ".join(words[: 1 if words[0] == "review" else 2])


def test_a_failure_before_a_command_names_its_group(in_project: Path):
    assert run_json("skills", "nope")[1]["command"] == "skills"
    assert run_json("debug")[1]["command"] == "debug"
    assert run_json("nope")[1]["command"] == "nope"


@pytest.mark.parametrize(
    "line", ["compare nope nope", "flight nope", "compare a b --target nope", "flight a"]
)
def test_what_cannot_be_diagnosed_is_no_verdict(in_project: Path, line: str):
    (in_project / "a").mkdir()
    assert run_json("debug", *line.split())[0] == 2


def test_a_name_keeps_its_capital_in_a_sentence():
    assert "trinity (Trinity-RFT plugins)" in " ".join(run("new", "--help").stdout.split())


def test_a_summary_wants_a_repository(in_project: Path):
    status, report = run_json("deps", "summary")
    assert (status, report["error"]["code"]) == (1, "repository_missing")
    assert report["error"]["message"] == f"{str(in_project)!r} is not in a git repository"


REFUSED = [
    (["add-reward", "class"], 2, "name_keyword"),
    (["add-reward", "a/b"], 2, "name_path"),
    (["add-reward", ""], 2, "name_empty"),
    (["add-reward"], 2, "usage"),
    (["add-reward", "x", "--style", "nope"], 2, "usage"),
    (["add-reward", "x", "--nope"], 2, "usage"),
    (["add-reward", "x", "--style", "exact", "--decimals", "3"], 2, "usage"),
    (["add-reward", "x", "--style", "math", "--decimals", "99"], 2, "answer_invalid"),
    (["add-reward", "x", "--style", "regex", "--pattern", "("], 2, "answer_invalid"),
    (["add-reward", "x", "--overwrite", "pyproject.toml"], 2, "usage"),
    (["add-dataset", "x"], 2, "answer_missing"),
    (["add", "nope", "x"], 2, "usage"),
    (["nope"], 2, "usage"),
    (["show", "nope"], 1, "unit_unknown"),
    (["add-reward", "x", "--target", "nope"], 1, "target_missing"),
    (["add-reward", "x", "--target", ".."], 1, "target_missing"),
    (["new", "my_rl", "--target", "nope"], 1, "target_missing"),
    (["new", "my_rl", "--areal", "x", "--target", ".."], 1, "answers_differ"),
]


@pytest.mark.parametrize(("argv", "status", "code"), REFUSED)
def test_refusals_have_a_status_a_code_and_no_side_effect(
    in_project: Path, argv: list[str], status: int, code: str
):
    before = sorted(in_project.rglob("*"))
    plain = run(*argv)
    assert plain.exit_code == status, plain.output
    assert plain.stdout == ""
    assert plain.stderr.startswith("error: ")
    assert f"[{code}]" in plain.stderr
    found, report = run_json(*argv)
    assert (found, report["ok"], report["error"]["code"]) == (status, False, code)
    assert code in declared_codes()
    assert sorted(in_project.rglob("*")) == before


def test_a_fault_of_the_tool_is_status_3(in_project: Path, monkeypatch: pytest.MonkeyPatch):
    def broken(*_: object) -> None:
        raise RuntimeError("first line\nsecond line")

    monkeypatch.setattr("scaffold.units.list.list_templates", broken)
    result = run("list")
    assert result.exit_code == 3
    assert result.stderr.splitlines()[0] == (
        "error: scaffold itself failed: RuntimeError: first line [fault]"
    )
    assert "Traceback" not in result.stderr
    status, report = run_json("list")
    assert (status, report["error"]["code"]) == (3, "fault")
    monkeypatch.setenv("SCAFFOLD_DEBUG", "1")
    assert "Traceback" in run("list").stderr


def test_a_person_at_the_keyboard_may_stop_it(in_project: Path, monkeypatch: pytest.MonkeyPatch):
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("scaffold.units.list.list_templates", stopped)
    status, report = run_json("list")
    assert (status, report["error"]["code"]) == (130, "aborted")


def test_the_help_of_every_command_lists_the_common_options():
    context = click.Context(main)
    for name in main.list_commands(context):
        result = run(name, "--help")
        assert result.exit_code == 0
        wanted = {"--help"} if name == "completion" else {"--target", "--json", "--help"}
        if name.startswith("add-"):
            wanted |= {"--dry-run", "--overwrite", "--no-input", "--verify"}
        if not isinstance(main.get_command(context, name), click.Group):
            assert wanted <= set(result.stdout.replace(",", " ").split()), name


def paths(group: click.Group, context: click.Context, *words: str) -> Iterator[tuple[str, ...]]:
    """Yields the words that call each command, those of groups included."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield (*words, name)
        if isinstance(command, click.Group):
            yield from paths(command, click.Context(command, parent=context), *words, name)


def test_the_help_of_every_command_ends_with_an_example_that_parses():
    every = list(paths(main, click.Context(main)))
    assert {" ".join(words) for words in every} == set(EXAMPLES)
    for words in every:
        example = EXAMPLES[" ".join(words)]
        assert run(*words, "--help").stdout.endswith(f"\n\n  Example: {example}\n")
        argv = shlex.split(re.sub(r'^eval "\$\((.*)\)"$', r"\1", example))
        assert argv[1 : len(words) + 1] == list(words)
        command, context, rest = main, click.Context(main), argv[1:]
        while isinstance(command, click.Group):
            name, command, rest = command.resolve_command(context, rest)
            assert command is not None
            context = click.Context(command, info_name=name, parent=context)
        command.make_context(context.info_name, rest, parent=context.parent)


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_completion_prints_the_script_of_a_shell(shell: str):
    result = run("completion", shell)
    assert result.exit_code == 0
    assert "_SCAFFOLD_COMPLETE" in result.stdout


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (["add-r"], ["add-reward"]),
        (["add", "rew"], ["reward"]),
        (["add-reward", "x", "--style", "m"], ["math"]),
        (["remove", "reward/s"], ["reward/sums"]),
        (["verify", "project"], ["project/my_rl"]),
        (["eject", "reward/e"], ["reward/exact"]),
    ],
)
def test_completion_knows_kinds_styles_templates_and_ids(
    in_project: Path, monkeypatch: pytest.MonkeyPatch, line: list[str], expected: list[str]
):
    assert run("add-reward", "sums").exit_code == 0
    monkeypatch.setenv("COMP_WORDS", " ".join(["scaffold", *line]))
    monkeypatch.setenv("COMP_CWORD", str(len(line)))
    monkeypatch.setenv("_SCAFFOLD_COMPLETE", "bash_complete")
    result = run()
    assert result.stdout.split() == [f"plain,{each}" for each in expected]


def test_options_come_from_the_manifests():
    text = run("add-workflow", "--help").stdout
    for answer in ("--max-turns", "--turn-discount", "--system-prompt"):
        assert answer in text
    assert f"[{'|'.join(style_names('workflow'))}]" in "".join(text.split())


def test_the_help_lists_every_command_with_one_line():
    text = run("--help").stdout
    for name in ("new", "add", "add-reward", "add-dataset", "add-workflow", "list", "verify"):
        assert f"\n  {name} " in text
    assert "..." not in text.partition("Commands:")[2]
    assert run("--version").stdout.startswith("scaffold, version ")


def test_asks_on_a_terminal_only(in_project: Path, monkeypatch: pytest.MonkeyPatch):
    kind = load_kind("reward")
    style = builtin_catalogue().style("reward", "regex")
    pattern = style.answers["pattern"]._replace(default=None)
    asking = type(style)(**{**vars(style), "answers": {**style.answers, "pattern": pattern}})
    monkeypatch.setattr(Catalogue, "style", lambda *_: asking)
    monkeypatch.setattr(kind_options, "may_ask", lambda no_input, as_json: not no_input)

    asked = run("add-reward", "sums", "--style", "regex", stdin=r"(\d+)" + "\nn\n")
    assert asked.exit_code == 0, asked.output
    assert (
        "Set grpo.run.yaml: run.reward_fn = my_rl.reward.sums.sums_reward_fn? [Y/n]" in asked.stderr
    )
    assert "sums" not in (in_project / "grpo.run.yaml").read_text()
    assert r"(\d+)".replace("\\", "\\\\") in (in_project / "my_rl/reward/sums.py").read_text()

    silent = run("add-reward", "more", "--style", "regex", "--no-input")
    assert silent.exit_code == 2
    assert "[answer_missing]" in silent.stderr
    assert "--pattern" in silent.stderr
    assert kind.name == "reward"


@pytest.mark.parametrize(
    ("no_input", "as_json", "is_terminal", "expected"),
    [
        (False, False, True, True),
        (True, False, True, False),
        (False, True, True, False),
        (False, False, False, False),
    ],
)
def test_a_question_is_put_to_a_person_only(
    no_input: bool,
    as_json: bool,
    is_terminal: bool,
    expected: bool,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("sys.stdin.isatty", lambda: is_terminal, raising=False)
    assert may_ask(no_input, as_json) is expected


def test_nobody_is_asked_where_stdin_is_closed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", None)
    assert not may_ask(no_input=False, as_json=False)


@pytest.mark.parametrize("command", ["init", "pr", "skills install --update"])
def test_a_closed_stdin_breaks_no_command(command: str, in_project: Path):
    argv = [sys.executable, "-m", "scaffold", *command.split()]
    # Python leaves sys.stdin None where descriptor 0 is closed as it starts.
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *argv],
        cwd=in_project,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode != 3, done.stderr
    assert "scaffold itself failed" not in done.stderr


FINDING_COMMANDS = [
    "skills check",
    "review",
    "docs check",
    "deps audit numpy 1.0 2.0",
    "commit-msg --check HEAD",
]


@pytest.mark.parametrize("wrong", ["--target nowhere-at-all", "--no-such-option"])
@pytest.mark.parametrize("command", FINDING_COMMANDS)
def test_a_command_that_fails_writes_its_format_all_the_same(
    command: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    argv = [*command.split(), *wrong.split()]
    result = run(*argv, "--format", "json")
    report = json.loads(result.stdout)
    REPORTS.validate(report)
    error = report["error"]
    assert result.exit_code != 0
    assert error["code"] in result.stderr

    (one,) = json.loads(run(*argv, "--format=sarif").stdout)["runs"]
    (invocation,) = one["invocations"]
    (notification,) = invocation["toolExecutionNotifications"]
    assert one["results"] == []
    assert invocation["executionSuccessful"] is False
    assert notification["level"] == "error"
    assert notification["message"]["text"].startswith(error["message"])
    assert notification["descriptor"] == {"id": error["code"]}

    (row,) = run(*argv, "--format", "github").stdout.splitlines()
    assert row.startswith(f"::error title={error['code']}::")
    assert run(*argv, "--format", "human").stdout == ""


def test_a_format_behind_two_dashes_is_an_argument(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert run("skills", "check", "--target", "nowhere", "--", "--format", "json").stdout == ""


def test_the_help_lists_every_command_once_and_by_what_it_is_for():
    text = run("--help").stdout
    for section in ("Create:", "Maintain:", "Prove:", "Skills:", "Chores:"):
        assert f"\n{section}\n" in text
    context = click.Context(main, info_name="scaffold")
    for name in main.list_commands(context):
        assert len(re.findall(rf"^  {name}  ", text, flags=re.MULTILINE)) == 1, name


def test_the_help_of_a_style_is_what_each_template_is():
    text = " ".join(run("add-reward", "--help").stdout.split())
    assert "Template to use: code (code that passes tests), exact (exact match)," in text


def test_a_project_gets_no_name_that_nobody_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for typed in ("My Project", "MyProject", "my project"):
        refused = run("new", typed)
        assert refused.exit_code == 2, refused.output
        assert "hint: scaffold new my_project" in refused.stderr
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(kind_options, "may_ask", lambda no_input, as_json: not no_input)
    assert run("new", "My Project", stdin="n\n").exit_code == 2
    asked = run("new", "My Project", stdin="\n")
    assert asked.exit_code == 0, asked.output
    assert [each.name for each in tmp_path.iterdir()] == ["my_project"]
    assert run("new", "my-second").exit_code == 0
