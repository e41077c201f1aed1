"""Is what we render what we reviewed? Whole trees, made by the real commands, as real files."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from areal.experimental.trinity.package import load_package
from scaffold.templating.manifests import load_kind, style_names
from scaffold.units.add import add_prepared, add_unit
from scaffold.units.context import Options
from scaffold.units.ledger import base_path, read_units
from scaffold.units.project import new_project
from scaffold.units.subject import prepare_tests

ROOT = Path(__file__).parents[2]
TREES = Path(__file__).parent / "trees"
HOSTILE = 'it\'s "quoted", {{ braced }} {% raw %}\\n\\\nand \N{GRINNING FACE} \'\'\'"""'

SIDES = {"chosen_column": "better", "rejected_column": "worse"}
CHAT = [{"role": "user", "content": HOSTILE}]
PAIRS = [
    {side: [*CHAT, {"role": "assistant", "content": f"{side} {n}"}] for side in SIDES.values()}
    for n in (1, 2)
]
JOINED = {"question_column": ["story", HOSTILE], "answer_column": "solution.final"}
STORIES = [
    {"story": "A fence is long. " * n, HOSTILE: f"How long? {n}", "solution": {"final": n}}
    for n in (1, 9)
]
ASSERTS = {"test_form": "asserts", "credit": "fraction"}
JUDGE = {"base_url": HOSTILE, "model": HOSTILE, "cache_dir": HOSTILE}

Case = tuple[str, str, tuple[str, ...], dict[str, Any]]
EVERY_STYLE: list[Case] = [
    ("reward", "plain_exact", ("exact",), {}),
    ("reward", "plain_math", ("math",), {}),
    ("reward", "plain_regex", ("regex",), {}),
    ("reward", "plain_code", ("code",), {}),
    ("reward", "plain_judge", ("judge",), {}),
    ("dataset", "plain_rows", ("rl", "sft"), {}),
    ("dataset", "plain_pairs", ("dpo", "rw"), {}),
    ("workflow", "plain_turn", ("rlvr",), {}),
    ("workflow", "plain_turns", ("multi-turn",), {}),
    ("workflow", "plain_sight", ("vision",), {}),
    ("workflow", "plain_play", ("env",), {}),
    ("workflow", "plain_agent", ("agent",), {}),
    ("workflow", "plain_calls", ("tools",), {}),
    ("workflow", "plain_guest", ("trinity",), {}),
    ("reward", "plain_guest", ("trinity",), {}),
]
EVERY_CHOICE: list[Case] = [
    ("reward", "last_number", ("exact",), {"take": "last_number"}),
    ("reward", "last_line", ("exact",), {"take": "last_line", "ignore_case": False}),
    ("reward", "marked_math", ("math",), {"marked_only": True, "decimals": 3}),
    ("reward", "other_column", ("exact",), {"column": "numbers"}),
    ("reward", "captured", ("regex",), {"pattern": r"<answer>(.*?)</answer>"}),
    ("reward", "present", ("regex",), {"pattern": "[\"']{{.*}}\\\\n", "compare": "presence"}),
    ("reward", "asserted", ("code",), {**ASSERTS, "allow_unsandboxed": True, "time_limit": 1.5}),
    ("reward", "said_yes", ("judge",), {**JUDGE, "scale": "yes_no", "rubric": HOSTILE}),
    ("dataset", "only_rl", ("rl",), {"question_column": HOSTILE, "answer_column": "a\\b"}),
    ("dataset", "only_sft", ("sft",), {"question_column": "q", "answer_column": "a"}),
    ("dataset", "turns", ("rl", "sft"), {"question_column": "chat", "answer_column": "chat"}),
    ("dataset", "joined", ("rl", "sft"), {**JOINED, "samples": json.dumps(STORIES)}),
    ("dataset", "only_rw", ("rw",), {**SIDES, "samples": json.dumps(PAIRS)}),
    ("dataset", "only_dpo", ("dpo",), {**SIDES, "prompt_column": HOSTILE}),
    ("workflow", "told", ("rlvr",), {"system_prompt": HOSTILE}),
    ("workflow", "fed_back", ("multi-turn",), {"feedback": HOSTILE, "max_turns": 5}),
    ("workflow", "told_agent", ("agent",), {"system_prompt": HOSTILE, "feedback": HOSTILE}),
    ("workflow", "paid_play", ("env",), {"reward": "per_step", "system_prompt": HOSTILE}),
    ("workflow", "told_calls", ("tools",), {"system_prompt": HOSTILE, "tool_timeout": 2.5}),
    ("workflow", "asked_twice", ("trinity",), {"multi_turn": True, "repeat": True}),
    ("workflow", "stepping", ("trinity",), {"step_wise": True, "is_async": True, "aux": 2}),
    ("workflow", "scored", ("trinity",), {"is_async": True, "reward_fn": "math_boxed_reward"}),
    ("reward", "last_guest", ("trinity",), {"take": "last_number"}),
    ("workflow", "frozen_lake", ("env",), {"env": "FrozenLake-v1", "turn_discount": 0.9}),
]
TESTED = [
    "reward/last_number",
    "workflow/told",
    "workflow/told_agent",
    "dataset/only_sft",
    "dataset/plain_pairs",
]
"""Modules of the project that get tests by add-tests too."""

CASES = {"areal": EVERY_STYLE, "project": EVERY_STYLE + EVERY_CHOICE}


def make_areal(folder: Path) -> Path:
    """Makes the files by which this repository is recognised."""
    for kind in ("dataset", "reward", "workflow"):
        place = folder / "areal" / kind / "__init__.py"
        place.parent.mkdir(parents=True)
        place.write_text(f"{kind.upper()}S: dict[str, str] = {{\n}}\n")
    (folder / "areal" / "api").mkdir()
    (folder / "areal" / "api" / "registry.py").touch()
    return folder


def make_project(folder: Path) -> Path:
    """Makes a project with the real command; its training package has a place that is no one's."""
    options = Options(folder)
    answers = {"areal_source": "/opt/areal-lite"}
    new_project(load_kind("project"), "my_rl", (), answers, options)
    return folder / "my_rl"


@pytest.fixture(scope="module", params=sorted(CASES))
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes a target with units of every style, and gives its folder, named after the target."""
    makers = {"areal": make_areal, "project": make_project}
    root = makers[request.param](tmp_path_factory.mktemp(request.param))
    for kind, name, styles, answers in CASES[request.param]:
        add_unit(load_kind(kind), name, styles, answers, Options(root, use=()))
    for name in TESTED if request.param == "project" else []:
        path, to = f"my_rl/{name}.py", f"tests/{name.replace('/', '/test_')}_contract.py"
        add_prepared(
            prepare_tests(load_kind("tests"), path, None, to, Options(root)), Options(root)
        )
    return root.rename(root.parent / f"{request.param}-tree")


def files_of(tree: Path) -> dict[str, bytes]:
    """Returns every file of a tree, but for the tool's state and its copies of what it made."""
    found = {p.relative_to(tree).as_posix(): p for p in sorted(tree.rglob("*")) if p.is_file()}
    is_own = (".base/", "/state/", "__pycache__", ".pyc")
    return {k: p.read_bytes() for k, p in found.items() if not any(part in k for part in is_own)}


def golden_of(made: Path) -> Path:
    return TREES / made.name.removesuffix("-tree")


def sources_of(made: Path) -> Iterator[Path]:
    for unit in read_units(made):
        yield from (made / file.path for file in unit.files if file.path.endswith(".py"))


def test_every_style_has_a_tree() -> None:
    for cases in CASES.values():
        for kind in ("reward", "dataset", "workflow"):
            styles = {style for each, _, chosen, _ in cases if each == kind for style in chosen}
            assert styles == set(style_names(kind))


def test_trees_are_as_reviewed(made: Path, request: pytest.FixtureRequest) -> None:
    golden, now = golden_of(made), files_of(made)
    if request.config.getoption("--update-golden"):
        for path in files_of(golden).keys() - now.keys():
            (golden / path).unlink()
        for path, data in now.items():
            (golden / path).parent.mkdir(parents=True, exist_ok=True)
            (golden / path).write_bytes(data)
    reviewed = files_of(golden)
    assert sorted(now) == sorted(reviewed)
    for path, data in now.items():
        assert data.decode() == reviewed[path].decode(), f"{path}: see --update-golden"


def test_bases_are_what_was_rendered(made: Path) -> None:
    for unit in read_units(made):
        for file in unit.files:
            base = made / base_path(unit.kind, unit.name, file.path)
            if file.path.endswith("__init__.py"):
                continue  # the registries have grown since
            assert base.read_bytes() == (made / file.path).read_bytes()


def test_rendered_python_is_clean(made: Path) -> None:
    """Lints with this repository's rules, and formats: nobody has to touch what we write."""
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    rules = ["--select", ",".join(lint["select"]), "--ignore", ",".join([*lint["ignore"], "E501"])]
    ruff = [sys.executable, "-m", "ruff"]
    common = ["--isolated", "--no-cache", "--line-length", "100", "--target-version", "py311"]
    if made.name == "areal-tree":  # most of the package is not there to be found
        rules += ["--config", 'lint.isort.known-first-party = ["areal"]']
    for argv in ([*ruff, "check", *common, *rules], [*ruff, "format", "--check", *common]):
        done = subprocess.run(argv, cwd=made, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_project_is_clean_by_its_own_rules(made: Path) -> None:
    if made.name == "project-tree":
        for words in (["check", "--no-cache"], ["format", "--check", "--no-cache"]):
            argv = [sys.executable, "-m", "ruff", *words]
            done = subprocess.run(argv, cwd=made, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr


NUM_LINES = 6
"""So many equal lines in two places are a block that stands twice."""


def lines_of(text: str) -> list[tuple[int, str]]:
    """Returns the lines of a module that do something: no import, docstring or signature."""
    left_out: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            left_out |= set(range(node.lineno, (node.end_lineno or 0) + 1))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            if not isinstance(node, ast.Module):
                left_out |= set(range(node.lineno, node.body[0].lineno))
            if ast.get_docstring(node) is not None:
                left_out |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    rows = [(n, row.strip()) for n, row in enumerate(text.splitlines(), 1) if n not in left_out]
    return [(n, row) for n, row in rows if row and not row.startswith("#")]


def blocks_twice(paths: Iterable[Path]) -> list[str]:
    """Returns the places that share a block."""
    seen: dict[tuple[str, ...], str] = {}
    found: list[str] = []
    for path in paths:
        rows = lines_of(path.read_text(encoding="utf-8"))
        for start in range(len(rows) - NUM_LINES + 1):
            part = rows[start : start + NUM_LINES]
            place = f"{path.name}:{part[0][0]}"
            other = seen.setdefault(tuple(row for _, row in part), place)
            found += [f"{other} and {place}"] * (other != place)
    return found


def test_no_block_stands_in_two_units(made: Path) -> None:
    """What units of two styles share is in a module that both import."""
    names = {f"{name}.py" for _, name, _, _ in EVERY_STYLE}
    names |= {f"test_{name}" for name in names}
    paths = sorted(path for path in made.rglob("*.py") if path.name in names)
    assert len(paths) == 2 * len(EVERY_STYLE)
    assert blocks_twice(paths) == []


def test_a_block_that_stands_twice_is_found(tmp_path: Path) -> None:
    body = "".join(f"    x{n} = {n}\n" for n in range(NUM_LINES))
    for name in "ab":
        (tmp_path / f"{name}.py").write_text(f'def {name}(y):\n    """Doc."""\n{body}')
    assert blocks_twice(sorted(tmp_path.iterdir())) == ["a.py:3 and b.py:3"]


@pytest.fixture
def importable(made: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Makes the modules of a tree findable by each other, and forgets them afterwards."""
    before = set(sys.modules)
    if made.name == "areal-tree":
        for room in ("reward", "workflow"):
            package = importlib.import_module(f"areal.{room}")
            folders = [*package.__path__, str(made / "areal" / room)]
            monkeypatch.setattr(package, "__path__", folders)
    else:
        monkeypatch.syspath_prepend(made)
    yield made
    for name in set(sys.modules) - before:
        if name.startswith(("my_rl", "areal.reward.plain_", "areal.workflow.plain_")):
            del sys.modules[name]


def test_rendered_modules_import(importable: Path) -> None:
    load_package()  # what is written for Trinity-RFT imports it
    for path in sources_of(importable):
        if path.parent.parent == importable or "tests" in path.relative_to(importable).parts:
            continue
        spec = importlib.util.spec_from_file_location(f"golden_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def test_units_are_small(made: Path) -> None:
    """A unit is at most 120 lines; its test, two loaders in a module and a game at most 150.

    What units share is in modules of areal-lite.
    """
    games = {name for _, name, styles, _ in CASES["project"] if styles == ("env",)}
    for path in sources_of(made):
        is_longer = path.name.startswith("test_") or path.parent.name == "dataset"
        is_longer = is_longer or path.stem in games
        limit = 150 if is_longer else 120
        limits = {"contract": 200}
        limits["stepping"] = 180  # its test is a client, a judge and a model
        limit = limits.get(path.stem.rpartition("_")[2], limit)
        count = len(path.read_text(encoding="utf-8").splitlines())
        assert count <= limit, f"{path} has {count} lines"


@pytest.mark.heavy
@pytest.mark.parametrize("which", ["plain", pytest.param("", marks=pytest.mark.slow)])
def test_generated_tests_pass(made: Path, which: str) -> None:
    if made.name != "project-tree":
        pytest.skip("the tests of this target need the whole training package around them")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"]
    argv += ["-k", which]
    done = subprocess.run(argv, cwd=made, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
