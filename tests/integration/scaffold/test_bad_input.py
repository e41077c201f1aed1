"""Bad input of every kind: the reason in one line, a hint, one JSON object, and the tree as it was.

What does not depend on the process runs through the command line in this one; what does, such as
signals, closed streams and the environment, runs in a process of its own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scaffold.cli.main import main
from scaffold.errors import HINTS, declared_codes
from scaffold.transaction.state import locked
from tests.reports import REPORTS

ROOT = Path(__file__).parents[3]

Setup = Callable[[Path], object]
Row = tuple[str, Setup | None, list[str]]

TABLE = "my_rl/reward/__init__.py"
RECORD = ".scaffold/made/reward/sums.toml"
OWN = ".scaffold/templates/reward/own"
ADD = ["add-reward", "more"]


def put(path: str, data: str | bytes) -> Setup:
    """Returns a step that writes a file."""

    def step(root: Path) -> None:
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data if isinstance(data, bytes) else data.encode())

    return step


def change(path: str, was: str, now: str) -> Setup:
    """Returns a step that replaces a text in a file, which has to be there."""

    def step(root: Path) -> None:
        text = (root / path).read_text("utf-8")
        assert was in text, f"{path} lacks {was!r}"
        (root / path).write_text(text.replace(was, now, 1), "utf-8")

    return step


def folder(path: str) -> Setup:
    """Returns a step that puts a folder where a file stands, or nothing does."""

    def step(root: Path) -> None:
        (root / path).unlink(missing_ok=True)
        (root / path).mkdir(parents=True)

    return step


def link(path: str, to: str) -> Setup:
    """Returns a step that puts a link where a file stands, or nothing does."""

    def step(root: Path) -> None:
        place = root / path
        shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(to)

    return step


def gone(path: str) -> Setup:
    return lambda root: (root / path).unlink()


def settings(*rows: str) -> Setup:
    """Returns a step that replaces the table of the tool."""
    return put("pyproject.toml", "\n".join(["[tool.scaffold]", *rows, ""]))


def other_kind(root: Path) -> None:
    """Gives a unit a kind that there is no template of."""
    change(RECORD, 'kind = "reward"', 'kind = "rewad"')(root)
    (root / ".scaffold/made/reward").rename(root / ".scaffold/made/rewad")


def same_name(root: Path) -> None:
    """Gives the project a workflow of the reward's name."""
    text = (root / RECORD).read_text("utf-8").replace('kind = "reward"', 'kind = "workflow"')
    put(RECORD.replace("/reward/", "/workflow/"), text)(root)


GOOD = ("schema = 1", 'package = "my_rl"')
MANIFEST = """schema = 1
version = 1
title = "Own"
help = "Of one's own."
[[files]]
from = "a.jinja"
to = "{source}"
"""


def own(manifest: str = MANIFEST, text: str = "x = 1\n") -> Setup:
    """Returns a step that adds a template of the repository's own."""

    def step(root: Path) -> None:
        put(f"{OWN}/template.toml", manifest)(root)
        put(f"{OWN}/a.jinja", text)(root)

    return step


USAGE: list[Row] = [
    ("usage", None, ["add-reward", "more", "--nope"]),
    ("usage", None, ["add-reward"]),
    ("usage", None, ["add-reward", "more", "less"]),
    ("usage", None, ["ad-reward", "more"]),
    ("usage", None, ["add", "rewad", "more"]),
    ("usage", None, ["add"]),
    ("usage", None, ["add-reward", "more", "--style", "exakt"]),
    ("usage", None, ["add-reward", "more", "--take", "it"]),
    ("usage", None, ["add-reward", "more", "--style", "math", "--take", "yours"]),
    ("usage", None, ["add-reward", "more", "--style", "math", "--decimals", "x"]),
    ("usage", None, ["add-reward", "more", "--overwrite", "README.md"]),
    ("usage", None, ["status", "more"]),
    ("usage", None, ["status", "--fix=1"]),
    ("usage", None, ["remove"]),
    ("usage", None, ["remove", "sums", "--discard-edits", "more"]),
    ("usage", None, ["update", "--set", "take=yours"]),
    ("usage", None, ["update", "sums", "--set", "nonsense"]),
    ("usage", None, ["update", "sums", "--set", "tke=yours"]),
    ("usage", None, ["verify", "--timeout", "0"]),
    ("usage", None, ["verify", "--timeout", "soon"]),
    ("answer_invalid", None, ["update", "sums", "--set", "take=it"]),
    ("answer_invalid", None, ["add-reward", "more", "--style=regex", "--pattern=("]),
    ("answer_invalid", None, ["add-reward", "more", "--style=regex", "--pattern=" + "x" * 5000]),
    ("answer_invalid", None, ["add-reward", "more", "--style=math", "--decimals=99"]),
    ("answer_invalid", None, ["add-workflow", "more", "--system-prompt=a\udc80b"]),
    ("answer_missing", None, ["add-dataset", "more"]),
    ("unknown_style", None, ["eject", "reward/exakt"]),
    ("unknown_style", None, ["eject", "reward/../exact"]),
    ("unknown_kind", None, ["eject", "rewad/exact"]),
    ("unknown_kind", None, ["eject", ""]),
    ("unknown_kind", None, ["eject", "../../reward"]),
    ("unit_unknown", None, ["show", "smus"]),
    ("unit_unknown", None, ["remove", "reward/smus"]),
    ("unit_unknown", None, ["update", "smus"]),
    ("unit_unknown", None, ["verify", "smus"]),
    ("name_path", None, ["add-reward", "../more"]),
    ("name_non_ascii", None, ["add-reward", "m\udcc3\udca9re"]),
    ("name_reserved", None, ["new", "torch"]),
    ("answers_differ", None, ["add-reward", "sums", "--style", "math"]),
    ("sample_invalid", None, ["add-dataset", "more", "--type=rl", "--from=nothing.jsonl"]),
    ("sample_invalid", None, ["add-dataset", "more", "--type=rl", "--from=."]),
    (
        "sample_invalid",
        put("a.jsonl", b"\xff\0{"),
        ["add-dataset", "more", "--type=rl", "--from=a.jsonl"],
    ),
    (
        "columns_unclear",
        put("a.jsonl", '{"b": [1]}\n'),
        ["add-dataset", "more", "--type=rl", "--from=a.jsonl"],
    ),
    ("module_unsuited", None, ["add-tests", "nothing.py"]),
    ("module_unsuited", None, ["add-tests", "../../etc/passwd"]),
    ("module_unsuited", put("my_rl/a.py", "def f(:\n"), ["add-tests", "my_rl/a.py"]),
    ("module_unsuited", put("my_rl/a.py", b"\xff\xfe"), ["add-tests", "my_rl/a.py"]),
    ("file_exists", put("your_rl/x", "x"), ["new", "your_rl"]),
    ("file_exists", put("your_rl", "x"), ["new", "your_rl"]),
    ("target_missing", None, ["new", "your_rl", "--target", "nothing"]),
    ("file_exists", put(f"{OWN}/../exact/template.toml", MANIFEST), ["eject", "reward/exact"]),
]

TARGETS: list[Row] = [
    ("target_missing", None, [*ADD, "--target", "README.md"]),
    ("target_missing", None, [*ADD, "--target", "nothing"]),
    ("target_missing", None, [*ADD, "--target", "my_rl"]),
    ("target_missing", None, [*ADD, "--target", "/"]),
    ("target_missing", None, [*ADD, "--target", ""]),
    ("target_missing", None, [*ADD, "--target", "two\nlines"]),
    ("target_missing", None, [*ADD, "--target", "a\udc80b"]),
    ("target_missing", None, [*ADD, "--target", "x" * 5000]),
    ("target_missing", None, [*ADD, "--target", "x/" * 3000]),
    ("target_missing", link("loop", "loop"), [*ADD, "--target", "loop"]),
    ("target_missing", link("loop", "loop"), [*ADD, "--target", "loop/in"]),
    ("target_missing", link("loop", "loop"), ["new", "your_rl", "--target", "loop"]),
    ("target_missing", put("pyproject.toml", "[project]\nname = 'x'\n"), ADD),
    ("target_missing", put("pyproject.toml", "[tool]\nscaffold = 1\n"), ADD),
    ("target_missing", put("pyproject.toml", "{{{"), ADD),
    ("target_invalid", settings("schema ="), ADD),
    ("target_invalid", put("pyproject.toml", b"# \xff\n[tool.scaffold]\n"), ADD),
    ("target_invalid", settings(), ADD),
    ("target_invalid", settings('schema = "1"'), ADD),
    ("target_newer", settings("schema = 99"), ADD),
    ("target_invalid", settings("schema = 1"), ADD),
    ("target_invalid", settings("schema = 1", "package = 5"), ADD),
    ("target_invalid", settings("schema = 1", 'package = "my-rl"'), ADD),
    ("target_invalid", settings("schema = 1", 'package = "../x"'), ADD),
    ("target_invalid", settings(*GOOD), ADD),
    ("target_invalid", settings(*GOOD, 'colour = "red"'), ADD),
    ("target_invalid", settings(*GOOD, 'tests = "../tests"'), ADD),
    ("target_invalid", settings(*GOOD, 'tests = "/tests"'), ADD),
    ("target_invalid", settings(*GOOD, "tests = []"), ADD),
    ("target_invalid", settings(*GOOD, "python = 3"), ADD),
    ("target_invalid", settings(*GOOD, "registries = 3"), ADD),
    ("target_invalid", settings(*GOOD, "[tool.scaffold.registries]", "reward = 3"), ADD),
    ("target_invalid", settings(*GOOD, "[tool.scaffold.registries]", 'reward = "x"'), ADD),
    ("target_invalid", settings(*GOOD, "[tool.scaffold.registries]", 'reward = "../a.py:T"'), ADD),
    ("target_invalid", settings(*GOOD, "[tool.scaffold.registries]", 'reward = "/a.py:T"'), ADD),
    ("target_invalid", settings(*GOOD, "[tool.scaffold.registries]", 'reward = "o/a.py:T"'), ADD),
    (
        "target_invalid",
        settings(*GOOD, "[[tool.scaffold.registries.reward]]", 'key = "{key}"'),
        ADD,
    ),
    ("target_invalid", settings(*GOOD, "format = 5"), ADD),
    ("target_invalid", settings(*GOOD, 'format = ["ruff", 5]'), ADD),
    ("target_invalid", settings(*GOOD, "style = 5"), ADD),
    ("target_invalid", settings(*GOOD, "[tool.scaffold.style]", 'docstrings = "mine"'), ADD),
]

REGISTRIES: list[Row] = [
    ("registry_syntax", put(TABLE, "def f(:\n"), ADD),
    ("registry_syntax", put(TABLE, "<<<<<<< HEAD\nREWARDS = {}\n=======\n>>>>>>> b\n"), ADD),
    ("registry_syntax", put(TABLE, "REWARDS = {\n"), ADD),
    ("registry_syntax", put(TABLE, b"REWARDS = {}\n# \xff\n"), ADD),
    ("registry_syntax", put(TABLE, b"REWARDS = {}\n\0\n"), ADD),
    ("registry_syntax", put(TABLE, b"# coding: nothing\nREWARDS = {}\n"), ADD),
    ("registry_computed", put(TABLE, "REWARDS = make()\n"), ADD),
    ("registry_computed", put(TABLE, "REWARDS = {k: k for k in 'ab'}\n"), ADD),
    ("registry_generated", put(TABLE, "# Code generated by x. DO NOT EDIT.\nREWARDS = {}\n"), ADD),
    ("registry_missing", put(TABLE, ""), ADD),
    ("registry_missing", put(TABLE, "OTHERS = {}\n"), ADD),
    ("registry_missing", gone(TABLE), ADD),
    ("registry_missing", folder(TABLE), ADD),
    ("registry_missing", link(TABLE, "nothing"), ADD),
    ("registry_missing", link(TABLE, "__init__.py"), ADD),
    ("outside_target", link(TABLE, "/etc/hostname"), ADD),
    ("registry_differs", put(TABLE, 'REWARDS = {"more": "other:thing"}\n'), ADD),
    ("name_taken", put(TABLE, 'REWARDS = {"mo_re": "other:thing"}\n'), ADD),
    ("file_exists", put("my_rl/reward/more.py", "mine = 1\n"), ADD),
    ("file_exists", folder("my_rl/reward/more.py"), ADD),
    ("file_exists", folder("my_rl/reward/more"), ADD),
    ("file_exists", link("my_rl/reward/more.py", "nothing"), ADD),
    ("file_exists", put("tests/reward/test_more.py", "mine = 1\n"), ADD),
    ("file_exists", put("tests/workflow", "a file\n"), ["add-workflow", "more"]),
    ("outside_target", link("tests/workflow", "/tmp"), ["add-workflow", "more"]),
    ("file_exists", put(".scaffold/made/workflow", "a file\n"), ["add-workflow", "more"]),
    ("registry_syntax", put(TABLE, "def f(:\n"), ["remove", "sums"]),
    ("registry_syntax", put(TABLE, "def f(:\n"), ["status", "--fix"]),
    ("registry_missing", gone(TABLE), ["status", "--fix"]),
]

RECORDS: list[Row] = [
    ("ledger_invalid", put(RECORD, text), argv)
    for text in ("", "{{{", b"\xff", "schema = 1\n", 'schema = "1"\n', "schema = 1\nkind = 5\n")
    for argv in (["add-reward", "sums"], ["status"], ["remove", "sums"])
]
RECORDS += [
    ("target_newer", change(RECORD, "schema = 1", "schema = 99"), ["add-reward", "sums"]),
    ("target_newer", change(RECORD, "schema = 1", "schema = 99"), ["update"]),
    ("ledger_invalid", change(RECORD, 'path = "', 'path = "../'), ["remove", "sums"]),
    ("ledger_invalid", change(RECORD, 'path = "', 'path = "/'), ["status"]),
    ("ledger_invalid", change(RECORD, 'file = "', 'file = "../'), ["status", "--fix"]),
    ("ledger_invalid", change(RECORD, "[answers]", "[answers]\nx = 1\n[extra]"), ["show", "sums"]),
    (
        "ledger_invalid",
        change(RECORD, 'name = "sums"', 'name = "../../up"'),
        ["remove", "reward/sums"],
    ),
    ("ledger_invalid", change(RECORD, 'name = "sums"', 'name = "other"'), ["remove", "sums"]),
    ("ledger_invalid", change(RECORD, 'kind = "reward"', 'kind = "rewad"'), ["add-reward", "sums"]),
    ("ledger_invalid", folder(".scaffold/made/reward/odd.toml"), ["status"]),
    ("unknown_kind", other_kind, ["update"]),
    ("unit_ambiguous", same_name, ["show", "sums"]),
    ("unknown_style", change(RECORD, '"exact"', '"exakt"'), ["update"]),
    (
        "base_missing",
        lambda root: shutil.rmtree(root / ".scaffold/made/reward/sums.base"),
        ["update", "sums", "--set", "take=last_line"],
    ),
    (
        "git_missing",
        put("my_rl/reward/sums.py", b"\0" * 9),
        ["update", "sums", "--set", "take=last_line"],
    ),
]

OWN_ADD = [*ADD, "--style", "own"]
TEMPLATES: list[Row] = [
    ("template_invalid", own("{{{"), OWN_ADD),
    ("template_invalid", own(""), OWN_ADD),
    ("template_invalid", put(f"{OWN}/template.toml", b"\xff"), OWN_ADD),
    ("target_newer", own(MANIFEST.replace("schema = 1", "schema = 99")), OWN_ADD),
    ("outside_target", own(MANIFEST.replace("{source}", "../out.py")), OWN_ADD),
    ("outside_target", own(MANIFEST.replace("{source}", "/tmp/out.py")), OWN_ADD),
    ("template_invalid", own(MANIFEST.replace("{source}", "{nothing}")), OWN_ADD),
    ("template_invalid", own(MANIFEST.replace("a.jinja", "b.jinja")), OWN_ADD),
    ("template_invalid", own(MANIFEST.replace("a.jinja", "../../../pyproject.toml")), OWN_ADD),
    ("template_invalid", own(text="{{ nothing }}"), OWN_ADD),
    ("template_invalid", own(text="{% if %}"), OWN_ADD),
    ("template_invalid", own(text="{% include '/etc/passwd' %}"), OWN_ADD),
    ("template_invalid", own(text="{{ ''.__class__.__mro__ }}"), OWN_ADD),
    ("template_invalid", own(text="{{ 9 ** (9 ** 9) }}"), OWN_ADD),
    ("template_invalid", put(f"{OWN}/../kind.toml", "schema = {"), ADD),
]

ROWS = [*USAGE, *TARGETS, *REGISTRIES, *RECORDS, *TEMPLATES]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from scaffold.templating.manifests import load_kind
    from scaffold.units.add import add_unit
    from scaffold.units.context import Options
    from scaffold.units.project import new_project

    place = tmp_path_factory.mktemp("bad")
    new_project(load_kind("project"), "my_rl", [], {"areal_source": ""}, Options(place))
    add_unit(load_kind("reward"), "sums", ("exact",), {}, Options(place / "my_rl"))
    return place / "my_rl"


@pytest.fixture
def root(template: Path, tmp_path: Path) -> Path:
    """Copies a project with one reward; git's folder ends the search for another one above."""
    shutil.copytree(template, tmp_path / "my_rl")
    (tmp_path / "my_rl" / ".git").mkdir()
    (tmp_path / "my_rl" / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    return tmp_path / "my_rl"


def tree(folder: Path) -> dict[str, bytes | str | None]:
    """Returns every path with its bytes; a lock and its folder are no part of the tree."""
    found: dict[str, bytes | str | None] = {}
    for path in folder.rglob("*"):
        inside = path.relative_to(folder)
        if "areal-scaffold" in inside.parts or inside.parts[-2:] == (".scaffold", "state"):
            continue
        if path.is_symlink():
            found[str(inside)] = os.readlink(path)
        else:
            found[str(inside)] = None if path.is_dir() else path.read_bytes()
    return found


def check_error(status: int, out: str, err: str, code: str) -> dict[str, Any]:
    """Checks what every refusal has to be, and returns its error."""
    report = json.loads(out)  # one object and nothing else
    REPORTS.validate(report)
    error = report["error"]
    assert (report["ok"], error["code"]) == (False, code), error
    assert status in (1, 2)
    assert "\n" not in error["message"]
    assert error["message"].isprintable()
    assert error["hint"], error
    assert err.splitlines()[0] == f"error: {error['message']} [{code}]"
    assert err.splitlines()[1].startswith("hint: ")
    assert "Traceback" not in err
    assert len(error["message"]) < 1000
    return error


def row_id(row: Row) -> str:
    return f"{row[0]}-{' '.join(row[2])[:40]}".encode("ascii", "replace").decode()


@pytest.mark.parametrize(("code", "setup", "argv"), ROWS, ids=map(row_id, ROWS))
def test_is_refused_with_reason_and_hint(
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    code: str,
    setup: Setup | None,
    argv: list[str],
) -> None:
    if setup:
        setup(root)
    before = tree(root.parent)
    monkeypatch.chdir(root)
    with pytest.raises(SystemExit) as end:
        main.main([*argv, "--json"])
    out, err = capsys.readouterr()
    check_error(int(str(end.value.code)), out, err, code)
    assert tree(root.parent) == before


@pytest.mark.parametrize(
    ("argv", "meant"),
    [
        (["ad-reward", "more"], "add-reward"),
        (["add", "rewad", "more"], "reward"),
        (["add-reward", "more", "--style", "exakt"], "exact"),
        (["add-reward", "more", "--take", "lastline"], "last_line"),
        (["eject", "reward/exakt"], "exact"),
        (["eject", "rewad/exact"], "reward"),
        (["show", "reward/smus"], "reward/sums"),
        (["update", "sums", "--set", "tke=yours"], "take"),
        (["skills", "snc"], "sync"),
    ],
)
def test_the_nearest_name_is_suggested(
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    argv: list[str],
    meant: str,
) -> None:
    monkeypatch.chdir(root)
    with pytest.raises(SystemExit):
        main.main(argv)
    message, hint = capsys.readouterr().err.splitlines()[:2]
    assert f"did you mean {meant!r}?" in message
    assert hint.startswith("hint: ")


def start(folder: Path, *argv: str, **more: Any) -> subprocess.Popen[bytes]:
    """Starts `scaffold` in a process of its own, in another environment where `env` says so."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), **more.pop("env", {})}
    given = {name: value for name, value in env.items() if value is not None}
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [sys.executable, "-m", "scaffold", *argv]
    return subprocess.Popen(command, cwd=folder, env=given, **{**streams, **more})


def end(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, (out or b"").decode(), (err or b"").decode()


@pytest.mark.parametrize("argv", [["list"], ["list", "--json"], ["show", "smus", "--json"]])
def test_a_reader_that_went_away_is_no_fault(root: Path, argv: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = start(root, *argv, stdout=writing)
    os.close(writing)
    status, _, err = end(process)
    assert status == 1
    assert "Traceback" not in err
    assert "itself failed" not in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no full device")
def test_a_report_that_cannot_be_written_undoes_nothing(root: Path) -> None:
    with open("/dev/full", "wb") as full:
        status, _, err = end(start(root, *ADD, "--json", stdout=full))
    assert status == 1
    assert err == "error: the report cannot be written: No space left on device\n"
    assert (root / "my_rl" / "reward" / "more.py").is_file()


def test_closed_streams_take_no_file_with_them(root: Path) -> None:
    code = (
        "import os, runpy, sys; [os.close(n) for n in range(3)]; "
        "sys.argv = ['scaffold', 'add-reward', 'more']; "
        "sys.stdin = sys.stdout = sys.stderr = None; runpy.run_module('scaffold')"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    assert subprocess.run([sys.executable, "-c", code], cwd=root, env=env).returncode == 0
    for path in ("my_rl/reward/more.py", "tests/reward/test_more.py", TABLE):
        compile((root / path).read_bytes(), path, "exec")
    assert "more" in (root / TABLE).read_text()


def test_nobody_is_asked_where_nobody_can_answer(root: Path) -> None:
    before = tree(root)
    status, out, err = end(start(root, "add-dataset", "more", "--json"))
    check_error(status, out, err, "answer_missing")
    assert tree(root) == before


def test_a_draft_is_not_written_unasked(root: Path) -> None:
    shutil.rmtree(root / ".scaffold")
    put("pyproject.toml", "[project]\nname = 'my-rl'\n")(root)
    before = tree(root)
    argv = ["init", "--like", "my_rl/reward/sums.py", "--kind", "prize", "--json"]
    status, out, _ = end(start(root, *argv))
    report = json.loads(out)
    REPORTS.validate(report)
    assert (status, report["error"]["code"]) == (1, "unconfirmed")
    assert "--yes" in report["error"]["hint"]
    assert tree(root) == before


def test_a_deleted_working_folder(tmp_path: Path) -> None:
    code = (
        "import os, runpy, sys; sys.path.insert(0, sys.argv.pop(1)); os.mkdir('gone'); "
        "os.chdir('gone'); os.rmdir('../gone'); runpy.run_module('scaffold', run_name='__main__')"
    )
    for argv in (["list"], ["add-reward", "more"], ["new", "my_rl"], ["skills", "sync"]):
        command = [sys.executable, "-c", code, str(ROOT), *argv, "--json"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        check_error(done.returncode, done.stdout, done.stderr, "target_missing")


@pytest.mark.parametrize(
    "env",
    [
        {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "ascii:strict", "HOME": None},
        {"PYTHONIOENCODING": "utf-8:strict", "HOME": "/nonexistent", "TERM": "dumb"},
    ],
    ids=["C", "ascii", "strict"],
)
def test_any_locale_can_be_told_of_any_name(root: Path, env: dict[str, Any]) -> None:
    odd = root.parent / os.fsdecode("pr\u00fcf \u540d ".encode() + b"\xff")
    root.rename(odd)
    status, out, err = end(start(odd, "add-reward", "na\u00efve", "--json", env=env))
    check_error(status, out, err, "name_non_ascii")
    for argv in (["target"], ["status"], ADD):
        status, out, err = end(start(odd, *argv, env=env))
        assert (status, err) == (0, ""), out


def test_ways_to_the_same_target(root: Path) -> None:
    (root.parent / "link").symlink_to(root)
    (root / "deep").mkdir()
    deep = root / "deep" / "/".join(["d" * 40] * 30)
    deep.mkdir(parents=True)
    ways = [(root.parent / "link", []), (deep, []), (root / "deep", ["--target", "../../link/"])]
    for number, (place, options) in enumerate(ways):
        status, _, err = end(start(place, "add-reward", f"way_{'abc'[number]}", *options))
        assert (status, err) == (0, "")
        assert (root / "my_rl" / "reward" / f"way_{'abc'[number]}.py").is_file()


def test_ctrl_c_while_another_command_writes(root: Path) -> None:
    before = tree(root)
    with locked(root, "hold"):
        process = start(root, *ADD, "--json")
        lock = next(iter((root / ".git").rglob("lock")))
        while process.poll() is None and not is_open(process.pid, lock):
            pass  # it is not at the lock yet
        process.send_signal(signal.SIGINT)
        status, out, err = end(process)
    report = json.loads(out)
    REPORTS.validate(report)
    assert (status, report["error"]["code"]) == (130, "aborted")
    assert "Traceback" not in err
    assert tree(root) == before


def is_open(pid: int, path: Path) -> bool:
    """Return whether a process holds a file open."""
    try:
        links = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return False
    return str(path.resolve()) in links


@pytest.mark.parametrize(
    "count", [10_000, pytest.param(250_000, marks=pytest.mark.slow)], ids=["400 KB", "10 MB"]
)
def test_a_very_long_registry(root: Path, count: int) -> None:
    rows = "".join(f'    "row_{n:06}": "some.where:thing_{n}",\n' for n in range(count))
    put(TABLE, "REWARDS = {\n" + rows + "}\n")(root)
    status, out, err = end(start(root, *ADD, "--json"))
    assert (status, err) == (0, "")
    assert len(json.loads(out)["registered"]) == 1
    assert (root / TABLE).read_bytes().count(b"\n") == count + 3


def test_every_code_is_raised_by_a_test() -> None:
    """A code that no test asserts may be wrong, or dead."""
    modules = [path for path in (ROOT / "scaffold").rglob("*.py") if path.name != "spec.py"]
    sources = [path.read_text("utf-8") for path in modules]
    tests = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    raised = {code for text in sources for code in re.findall(r"\"([a-z_]+)\"", text)}
    assert [code for code in declared_codes() if code not in raised] == []
    assert [code for code in declared_codes() if f'"{code}"' not in tests] == []
    assert HINTS.keys() <= declared_codes().keys()
