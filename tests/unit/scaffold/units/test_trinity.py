"""Units for Trinity-RFT in its three targets: a checkout, a plugin folder, any project."""

from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from scaffold.errors import RequestError
from scaffold.target.target import find_target
from scaffold.templating.manifests import load_kind
from scaffold.units.add import add_unit
from scaffold.units.context import Options
from scaffold.units.ledger import find_unit
from scaffold.units.project import new_project
from scaffold.units.remove import remove_unit

LAYOUTS = Path(__file__).parents[3] / "fixtures" / "layouts"
PLUGIN = "from trinity.common.workflows import WORKFLOWS\n\n\n@WORKFLOWS.register_module('one')\n"


def add(root: Path, kind: str, name: str, sample: Path | None = None, **answers: Any) -> Any:
    options = Options(root, with_format=False, sample=None if sample is None else str(sample))
    return add_unit(load_kind(kind), name, ("trinity",), answers, options)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Copies what a checkout is recognised by."""
    return shutil.copytree(LAYOUTS / "trinity", tmp_path / "Trinity-RFT")


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    """Makes a plugin folder with a plugin in it."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "one.py").write_text(f"{PLUGIN}class One:\n    pass\n")
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Makes a project of areal's kind."""
    new_project(load_kind("project"), "my_rl", [], {"areal_source": ""}, Options(tmp_path))
    return tmp_path / "my_rl"


def test_the_targets_are_recognised(checkout: Path, plugins: Path) -> None:
    found = [find_target(root, exact=True).layout for root in (checkout, plugins)]
    assert found == ["trinity-checkout", "trinity-plugins"]


@pytest.mark.parametrize(("kind", "room"), [("workflow", "workflows"), ("reward", "rewards")])
def test_a_checkout_gains_a_file_a_test_and_one_line(checkout: Path, kind: str, room: str) -> None:
    registry = checkout / "trinity" / "common" / room / "__init__.py"
    before = registry.read_bytes()
    report = add(checkout, kind, "sums")
    class_name = "SumsWorkflow" if kind == "workflow" else "SumsReward"
    line = f'        "sums": "trinity.common.{room}.sums.{class_name}",'
    assert [x for x in registry.read_text().splitlines() if x not in before.decode()] == [line]
    assert (checkout / f"tests/common/sums_{kind}_test.py").is_file()
    assert report.registered[0].line == registry.read_text().splitlines().index(line) + 1
    remove_unit("sums", (), Options(checkout))
    assert registry.read_bytes() == before
    assert not (checkout / "examples").exists()


def test_a_plugin_is_one_file_that_registers_itself(plugins: Path) -> None:
    before = sorted(plugins.rglob("*"))
    units = {"turns": ("workflow", "WORKFLOWS"), "sums": ("reward", "REWARD_FUNCTIONS")}
    for name, (kind, registry) in units.items():
        assert add(plugins, kind, name).registered == ()
        text = (plugins / f"{name}.py").read_text()
        assert f'@{registry}.register_module("{name}")' in text
        assert find_unit(plugins, name).symbol.startswith(f"{name}.py:")
    content = yaml.safe_load((plugins / "examples/turns/turns.yaml").read_text())
    assert content["buffer"]["explorer_input"]["default_workflow_type"] == "turns"
    for name in units:
        remove_unit(name, (), Options(plugins))
    shutil.rmtree(plugins / ".scaffold")
    assert sorted(plugins.rglob("*")) == before


def test_a_project_finds_it_by_its_dotted_path_and_registers_nothing(project: Path) -> None:
    before = (project / "my_rl/workflow/__init__.py").read_bytes()
    report = add(project, "workflow", "sums")
    assert report.registered == ()
    assert (project / "my_rl/workflow/__init__.py").read_bytes() == before
    content = yaml.safe_load((project / "examples/sums/sums.yaml").read_text())
    named = content["buffer"]["explorer_input"]["default_workflow_type"]
    assert named == "my_rl.workflow.sums.SumsWorkflow"


def test_a_project_of_plugins_registers_like_a_plugin_folder(tmp_path: Path) -> None:
    new_project(
        load_kind("project"), "guests", ["trinity"], {"areal_source": ""}, Options(tmp_path)
    )
    add(tmp_path / "guests", "workflow", "sums")
    assert "register_module" in (tmp_path / "guests/plugins/sums.py").read_text()
    unit = find_unit(tmp_path / "guests", "sums")
    assert unit.symbol == "plugins/sums.py:SumsWorkflow"


@pytest.mark.parametrize("place", ["checkout", "plugins"])
def test_a_style_for_areal_is_refused_where_trinity_loads_it(
    place: str, request: pytest.FixtureRequest
) -> None:
    root = request.getfixturevalue(place)
    with pytest.raises(RequestError, match="is written for areal") as refusal:
        add_unit(load_kind("workflow"), "sums", (), {}, Options(root))
    assert refusal.value.hint == "give --style trinity"


def test_the_rows_of_a_person_become_tasks_with_their_columns(
    project: Path, tmp_path: Path
) -> None:
    rows = [{"problem": f"How much is {i}+1?", "solution": str(i + 1), "id": i} for i in range(30)]
    sample = tmp_path / "mine.jsonl"
    sample.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    report = add(project, "workflow", "sums", sample)
    assert any("question_column = problem" in line for line in report.found)
    lines = (project / "examples/sums/tasks/train.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == rows[:16]
    content = yaml.safe_load((project / "examples/sums/sums.yaml").read_text())
    taskset = content["buffer"]["explorer_input"]["taskset"]
    assert taskset["format"] == {"prompt_key": "problem", "response_key": "solution"}
    assert "n" not in taskset["rollout_args"]


def test_a_sample_is_refused_by_a_style_that_it_shows_nothing(
    project: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine.jsonl").write_text('{"question": "1?", "answer": "1"}\n')
    options = Options(project, sample=str(tmp_path / "mine.jsonl"))
    with pytest.raises(RequestError, match="--from shows nothing that the style rlvr asks for"):
        add_unit(load_kind("workflow"), "sums", ("rlvr",), {}, options)


@pytest.mark.parametrize("other", ["multi_turn", "repeat"])
def test_options_that_exclude_each_other_are_refused(project: Path, other: str) -> None:
    flag = f"--{other.replace('_', '-')}"
    with pytest.raises(RequestError, match=f"--step-wise and {flag} exclude each other"):
        add(project, "workflow", "sums", step_wise=True, **{other: True})


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("shape", ["plain", "multi_turn", "step_wise"])
def test_what_is_written_avoids_the_traps_of_the_guide(
    plugins: Path, shape: str, is_async: bool
) -> None:
    shapes = {} if shape == "plain" else {shape: True}
    add(plugins, "workflow", "sums", is_async=is_async, **shapes)
    text = (plugins / "sums.py").read_text()
    tree = ast.parse(text)
    imported = [node.module for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert not any(module and module.startswith("trinity.common.models") for module in imported)
    assert "self.task = task" in text
    assert "eid.run = self.run_id_base" in text
    assert "rollout_args.n" not in text
    assert "resettable" not in text
