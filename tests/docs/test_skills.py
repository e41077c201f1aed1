"""Are the skills true? Their form is checked, and each is followed word by word to its end."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from scaffold.skills.pack.sync import sync_skills

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".agents" / "skills"
SKILLS = sorted(FOLDER.glob("*/SKILL.md"))
SPEC_FIELDS = {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
MAX_LINES = 200
MAX_DESCRIPTION = 200
SECTIONS = (
    "When to use it",
    "Before you start",
    "The command first",
    "Decisions that are yours",
    "Your part",
    "The contract",
    "Check",
    "Common mistakes",
    "Reference implementations",
)

Edit = tuple[str, str]
"""What is in a file, and what the author writes in its place."""

Part = dict[str, list[Edit]]
"""What the author writes, file by file."""

WALKS: dict[str, dict[str, Part]] = {
    "add-workflow": {
        "workflow/math_debate": {
            "my_rl/workflow/math_debate.py": [
                (
                    "        # YOURS: say what the model reads after a wrong answer, without "
                    'giving it away\n        return "Your answer is wrong. Think again and '
                    'answer once more."\n',
                    '        return f"{completion!r} is not what I get. Check each step again."\n',
                ),
            ],
            "tests/workflow/test_math_debate.py": [
                (
                    "# YOURS: add a wrong completion and words that your feedback to it holds\n"
                    'FEEDBACK_CASES = [\n    ("6", "wrong"),\n',
                    'FEEDBACK_CASES = [\n    ("6", "\'6\' is not what I get"),\n',
                ),
            ],
        },
    },
    "add-trinity-workflow": {
        "workflow/word_sums": {
            "my_rl/workflow/word_sums.py": [
                (
                    "        # YOURS: say what the model reads after a wrong answer, without "
                    "giving it away\n",
                    "",
                ),
            ],
        },
    },
    "add-reward": {
        "reward/tagged_answer": {
            "my_rl/reward/tagged_answer.py": [
                (
                    "    # YOURS: say how the answer is found and what it earns (now: the last "
                    "line, all or nothing)\n    lines = completion.strip().splitlines()\n"
                    '    found = lines[-1] if lines else ""\n',
                    '    _, _, rest = completion.rpartition("<answer>")\n'
                    '    found, end, _ = rest.partition("</answer>")\n'
                    "    if not end:\n        return 0.0\n",
                ),
            ],
            "tests/reward/test_tagged_answer.py": [
                (
                    "# YOURS: add a completion of your own model, its answer and the reward it "
                    "deserves\n",
                    "",
                ),
                (
                    '    ("2 + 3 makes 5, times 4.\\ntwenty", "twenty", 1.0),\n'
                    '    ("twenty\\nor rather twenty-one", "twenty", 0.0),\n'
                    '    ("  twenty  one \\n\\n", "twenty one", 1.0),\n'
                    '    ("TWENTY", "twenty", 1.0),\n',
                    '    ("2 + 3 makes 5. <answer> Five </answer>", "five", 1.0),\n'
                    '    ("<answer>five</answer>, no: <answer>six</answer>", "five", 0.0),\n'
                    '    ("five", "five", 0.0),\n',
                ),
            ],
        },
    },
    "add-dataset": {
        "dataset/word_sums": {},
        "dataset/nice_replies": {
            "my_rl/dataset/nice_replies.py": [
                (
                    "# YOURS: name the columns of your data that hold the chosen and the rejected "
                    "reply\n",
                    "",
                ),
                ('"chosen": "chosen"', '"chosen": "better"'),
                ('"rejected": "rejected"', '"rejected": "worse"'),
            ],
            "tests/dataset/test_nice_replies.py": [
                ("# YOURS: put a few rows of your own data here\n", ""),
                ('        "chosen": ', '        "better": '),
                ('        "rejected": ', '        "worse": '),
            ],
        },
    },
    "add-unit-tests": {
        "tests/reward_brevity": {
            "tests/reward/test_brevity.py": [
                ("# YOURS: rows and completions of your own with", "# Rows, completions and"),
                (
                    '    ({"answer": "42", "budget": None}, "The answer is 42.", None),\n'
                    '    ({"answer": "42", "budget": None}, "I do not know.", None),\n',
                    '    ({"answer": "42", "budget": 4}, "The answer is 42.", 1.0),\n'
                    '    ({"answer": "42", "budget": 3}, "The answer is 42.", 0.5),\n'
                    '    ({"answer": "42", "budget": 4}, "42 is not the answer", 0.0),\n',
                ),
            ],
        },
    },
}

FOLLOWED_ELSEWHERE = {
    "add-archon-model",
    "commit-conventions",
    "create-pr",
    "debug-distributed",
    "review-pr",
    "translate-doc-zh",
    "upgrade-deps",
}
"""Skills that a test of their own follows: in the other files of this folder."""

HEAVY = {"add-dataset", "add-trinity-workflow", "add-workflow"}
"""Whose walk `make test` leaves out; tests of units run what they write."""

every_skill = pytest.mark.parametrize("skill", SKILLS, ids=lambda path: path.parent.name)
every_walk = pytest.mark.parametrize("name", WALKS)


def test_there_is_a_walk_for_every_skill_that_shows_commands() -> None:
    shown = {path.parent.name for path in SKILLS if "\n```console\n" in path.read_text("utf-8")}
    assert shown - FOLLOWED_ELSEWHERE == set(WALKS)


@every_skill
def test_form(skill: Path) -> None:
    text = skill.read_text(encoding="utf-8")
    _, head, body = text.split("---\n", 2)
    fields = yaml.safe_load(head)
    assert set(fields) <= SPEC_FIELDS
    assert fields["name"] == skill.parent.name
    assert 0 < len(fields["description"]) <= MAX_DESCRIPTION
    assert "Use when" in fields["description"]
    assert all(isinstance(value, str) for value in fields.get("metadata", {}).values())
    # What people write; a new row of a generated table is no reason to cut their text.
    written = re.sub(r"<!-- scaffold:begin .*?<!-- scaffold:end -->", "", text, flags=re.DOTALL)
    assert len(written.splitlines()) <= MAX_LINES
    assert body.lstrip().startswith("# ")


@every_walk
def test_the_sections_stand_in_their_order(name: str) -> None:
    assert tuple(re.findall(r"^## (.+)$", _text(name), flags=re.MULTILINE)) == SECTIONS


def test_the_rendered_copies_are_in_step() -> None:
    report = sync_skills(ROOT, check=True)
    assert report.ok, report.to_text()


# --- following a skill --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[pytest.mark.heavy] * (each in HEAVY)) for each in WALKS]
)
def test_who_follows_a_skill_ends_in_ok(name: str, tmp_path: Path) -> None:
    """Runs the blocks in a new project; where `verify` is to say ok, the author's part is done."""
    project = tmp_path / "my_rl"
    assert run(["scaffold", "new", "my_rl"], tmp_path).returncode == 0
    text = "\n".join([_text(name), *_references(name)])
    for path, content in given_files(text):
        (project / path).parent.mkdir(exist_ok=True)
        (project / path).write_text(content, encoding="utf-8")
    parts = dict(WALKS[name])
    for command, promised in console_blocks(text):
        is_end = promised[-1] == "verdict    ok"
        if is_end:
            write_part(project, parts.pop(promised[0].split()[1]))
        done = run(command, project)
        # The Python that verify names is that of whoever runs it, as the skill says.
        printed = [row for row in done.stdout.splitlines() if not row.startswith("python ")]
        assert printed == promised, done.stderr
        assert command[1] != "verify" or done.returncode == (0 if is_end else 1)
    assert not parts, "the skill does not tell how these end"


def console_blocks(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yields the command of each console block, and the output that it promises."""
    for block in re.findall(r"^```console\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
        command, *output = block.splitlines()
        assert command.startswith("$ "), f"{command!r} is no command behind a prompt"
        yield shlex.split(command[2:]), output


def given_files(text: str) -> list[tuple[str, str]]:
    """Returns the files that a skill shows as already there: "Below, this is `PATH`:"."""
    return re.findall(r"^Below, this is `(.+)`:\n\n```\w+\n(.*?)^```$", text, flags=re.M | re.S)


def write_part(project: Path, part: Part) -> None:
    for path, pairs in part.items():
        file = project / path
        text = file.read_text(encoding="utf-8")
        for old, new in pairs:
            assert old in text, f"{path} does not hold {old!r}"
            text = text.replace(old, new)
        file.write_text(text, encoding="utf-8")


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    program, *argv = command
    assert program == "scaffold"
    return subprocess.run(
        [sys.executable, "-m", program, *argv],
        cwd=folder,
        # Plugins take longer to import than the tests that `verify` runs; a copy of this
        # repository has a setting of the one that is named.
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_PLUGINS": "pytest_timeout",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def _text(name: str) -> str:
    return (FOLDER / name / "SKILL.md").read_text(encoding="utf-8")


def _references(name: str) -> list[str]:
    found = sorted((FOLDER / name / "references").glob("*.md"))
    return [path.read_text(encoding="utf-8") for path in found]


# --- tables -------------------------------------------------------------------------------------


@every_walk
def test_the_mistakes_are_those_that_somebody_is_told(name: str) -> None:
    phrases = [row[0] for row in table_under(_text(name), "Common mistakes")]
    assert len(phrases) > 5
    sources = everything_said()
    for phrase in phrases:
        for part in phrase.split("..."):
            assert part.strip() in sources, f"nothing ever says {phrase!r}"


def everything_said() -> str:
    """Returns the sources of all messages: the tool, its templates, and the package at work."""
    python = [path for room in ("scaffold", "areal") for path in (ROOT / room).rglob("*.py")]
    templates = [path for path in (ROOT / "templates").rglob("*.*") if path.suffix != ".pyc"]
    return "\n".join(path.read_text(encoding="utf-8") for path in (*python, *templates))


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["add-reward", "add-workflow"])
def test_what_is_called_complete_leaves_nothing_to_the_author(name: str, tmp_path: Path) -> None:
    assert run(["scaffold", "new", "my_rl"], tmp_path).returncode == 0
    seen: set[bool] = set()
    base: list[str] = []
    for _, choice, *_ in table_under(_text(name), "Decisions that are yours"):
        for given in re.findall(r"`(--[^`]+)`", choice):
            words = shlex.split(given.replace("...", "a"))
            base = words[:2] if words[0] == "--style" else base
            if "complete" in choice or "you write" in choice:
                argv = words if words[0] == "--style" else [*base, *words]
                done = run(
                    ["scaffold", name, "demo", *argv, "--dry-run", "--json"], tmp_path / "my_rl"
                )
                report = json.loads(done.stdout)
                assert report["ok"], report
                assert bool(report["unfinished"]) == ("complete" not in choice), given
                seen.add("complete" in choice)
    assert seen == {True, False}


def test_the_columns_are_those_that_verify_counts() -> None:
    text = _text("add-dataset")
    told = {row[2].replace("`", "") for row in table_under(text, "Decisions that are yours")[:4]}
    shown = "\n".join([text, *_references("add-dataset")])
    counted = re.findall(r"rows, columns (.+?)(?:;|$)", shown, flags=re.MULTILINE)
    assert {frozenset(each.split(", ")) for each in told} == {
        frozenset(each.split(", ")) for each in counted
    }


def test_the_tensors_are_those_that_verify_checks() -> None:
    rows = table_under(_text("add-workflow"), "The contract")
    file = ROOT / "scaffold" / "runners" / "unit_probe" / "trajectory.py"
    tree = ast.parse(file.read_text(encoding="utf-8"))
    values = {
        ast.unparse(node.target): node.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign)
    }
    integers = {ast.unparse(node.targets[0]): ast.unparse(node.value) for node in tree.body
                if isinstance(node, ast.Assign)}  # fmt: skip
    known = values["DTYPES"]
    assert isinstance(known, ast.Dict)
    dtypes = {
        ast.literal_eval(key): integers.get(ast.unparse(value), ast.unparse(value))
        for key, value in zip(known.keys, known.values, strict=True)
        if key is not None
    }
    assert {row[0].strip("`") for row in rows} == set(dtypes)
    for key, dtype, *_ in rows:
        assert f"torch.{dtype}" in dtypes[key.strip("`")], key


def test_the_demands_on_a_kind_are_its_tests() -> None:
    rows = table_under(_text("add-unit-tests"), "The contract")
    folder = ROOT / "templates" / "tests"
    assert {row[0] for row in rows} == {path.parent.name for path in folder.glob("*/template.toml")}
    for kind, names in rows:
        template = (folder / kind / "test.py.jinja").read_text(encoding="utf-8")
        written = re.findall(r"^def (test_\w+)", template, flags=re.MULTILINE)
        assert re.findall(r"`(\w+)`", names) == written


def table_under(text: str, heading: str) -> list[list[str]]:
    """Returns the rows of the first tables of a section, without their heads."""
    section = text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    heads = {at - 1 for at, row in enumerate(rows) if set(row[0]) <= set("-: ")}
    return [row for at, row in enumerate(rows) if at not in heads and at - 1 not in heads]
