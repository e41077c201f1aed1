"""Targets are found from files alone, and whatever is not one is refused with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.errors import TargetError
from scaffold.target.target import Registry, find_target, unit_names
from scaffold.templating.manifests import load_kind

CONFIG = """
[tool.scaffold]
schema = 1
package = "pkg"
tests = "checks"
python = ".venv/bin/python"
[tool.scaffold.registries]
reward = "src/pkg/scores/__init__.py:SCORES"
"""


def write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(text)
    return folder


def test_finds_a_project_from_any_folder_in_it(project: Path):
    target = find_target(project / "my_rl" / "reward")
    assert (target.root, target.layout, target.package) == (project, "project", "my_rl")
    assert target.tests == "tests"
    assert set(target.kinds) == {"archon-model", "dataset", "reward", "workflow"}


def test_finds_the_training_package_by_its_layout(checkout: Path):
    target = find_target(checkout / "areal" / "reward")
    assert (target.root, target.layout, target.package) == (checkout, "areal", "areal")
    assert target.tests == "tests/unit"
    assert {kind: place.registry for kind, place in target.kinds.items()} == {
        "dataset": Registry("areal/dataset/__init__.py", "DATASETS"),
        "reward": Registry("areal/reward/__init__.py", "REWARDS"),
        "workflow": Registry("areal/workflow/__init__.py", "WORKFLOWS"),
    }


def test_finds_this_repository():
    target = find_target(Path(__file__).parent)
    assert target.root == Path(__file__).parents[4]
    assert target.layout == "areal"


def test_two_candidates_are_an_error_that_lists_both(checkout: Path):
    inner = write(checkout / "demo", CONFIG)
    with pytest.raises(TargetError) as refusal:
        find_target(inner)
    assert refusal.value.code == "target_ambiguous"
    assert f"--target {inner}" in refusal.value.hint
    assert f"--target {checkout}" in refusal.value.hint
    assert find_target(inner, exact=True).root == inner
    (inner / ".git").mkdir()
    assert find_target(inner).root == inner


def test_what_is_configured_wins_over_a_known_layout(checkout: Path):
    write(checkout, CONFIG)
    assert find_target(checkout).layout == "project"


def test_reads_the_configuration(tmp_path: Path):
    target = find_target(write(tmp_path, CONFIG))
    assert target.kinds["reward"].registry == Registry("src/pkg/scores/__init__.py", "SCORES")
    assert (target.tests, target.python) == ("checks", ".venv/bin/python")


def test_names_follow_the_registry_and_the_package(tmp_path: Path):
    names = unit_names(find_target(write(tmp_path, CONFIG)), load_kind("reward"), "math_sum")
    assert names["module"] == "pkg.scores.math_sum"
    assert names["source"] == "src/pkg/scores/math_sum.py"
    assert names["test"] == "checks/reward/test_math_sum.py"
    assert names["function"] == "math_sum_reward_fn"
    assert names["dotted"] == "pkg.scores.math_sum.math_sum_reward_fn"
    assert (names["pascal"], names["dashed"]) == ("MathSum", "math-sum")


def test_does_not_look_beyond_the_git_root(project: Path):
    inner = project / "vendored"
    (inner / ".git").mkdir(parents=True)
    with pytest.raises(TargetError) as refusal:
        find_target(inner)
    assert refusal.value.code == "target_missing"


def test_an_explicit_folder_is_taken_exactly(project: Path):
    assert find_target(project, exact=True).root == project
    with pytest.raises(TargetError):
        find_target(project / "my_rl", exact=True)


def test_a_foreign_folder_is_refused_with_the_lines_to_add(tmp_path: Path):
    (tmp_path / ".git").mkdir()
    write(tmp_path, '[project]\nname = "other"\n')
    with pytest.raises(TargetError) as refusal:
        find_target(tmp_path)
    assert refusal.value.code == "target_missing"
    assert "[tool.scaffold]" in refusal.value.hint
    assert "[tool.scaffold.registries]" in refusal.value.hint


def test_a_project_one_folder_below_is_suggested(project: Path):
    (project.parent / ".git").mkdir()
    with pytest.raises(TargetError, match="nothing that scaffold can extend") as refusal:
        find_target(project.parent)
    assert "--target my_rl" in refusal.value.hint


def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path):
    with pytest.raises(TargetError, match="is not a folder"):
        find_target(tmp_path / "gone")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('package = "pkg"', ""), "key 'package' is missing"),
        (('package = "pkg"', 'package = "my-pkg"'), "not an importable name"),
        (("schema = 1", 'schema = "1"'), "must be int"),
        (("tests =", "test ="), "did you mean 'tests'"),
        (('"checks"', '"../checks"'), "relative path inside"),
        (('"checks"', '"/checks"'), "relative path inside"),
        (("__init__.py:SCORES", "__init__.py"), "must read"),
        (('"src/pkg', '"../pkg'), "relative path inside"),
        (("[tool.scaffold]", "[tool.scaffold"), "cannot be read"),
    ],
)
def test_a_wrong_configuration_is_refused(tmp_path: Path, change: tuple[str, str], message: str):
    text = CONFIG.replace(*change)
    if message == "cannot be read":
        text = CONFIG + "\n[broken"
    with pytest.raises(TargetError, match=r"pyproject\.toml") as refusal:
        find_target(write(tmp_path, text))
    assert refusal.value.code == "target_invalid"
    assert message in refusal.value.message


@pytest.mark.parametrize("name", ["commits", "deps", "docs", "skills"])
def test_settings_of_other_commands_make_no_target_and_spoil_none(tmp_path: Path, name: str):
    settings = f'[tool.scaffold.{name}]\nclients = ["claude"]\n'
    with pytest.raises(TargetError) as refusal:
        find_target(write(tmp_path / "a", settings))
    assert refusal.value.code == "target_missing"
    assert find_target(write(tmp_path / "b", CONFIG + settings)).package == "pkg"


def test_a_newer_configuration_asks_for_an_upgrade(tmp_path: Path):
    with pytest.raises(TargetError) as refusal:
        find_target(write(tmp_path, CONFIG.replace("schema = 1", "schema = 2")))
    assert refusal.value.code == "target_newer"


def test_somebody_else_s_broken_pyproject_is_not_our_business(tmp_path: Path):
    (tmp_path / ".git").mkdir()
    with pytest.raises(TargetError) as refusal:
        find_target(write(tmp_path, "[broken"))
    assert refusal.value.code == "target_missing"


def test_a_kind_without_registry_is_refused_with_the_line_to_add(tmp_path: Path):
    target = find_target(write(tmp_path, CONFIG))
    with pytest.raises(TargetError, match="no registry for the kind 'workflow'") as refusal:
        unit_names(target, load_kind("workflow"), "x")
    assert 'workflow = "pkg/workflow/__init__.py:WORKFLOWS"' in refusal.value.hint


def test_a_registry_outside_the_package_is_refused(tmp_path: Path):
    text = CONFIG.replace("src/pkg/scores", "src/other/scores")
    with pytest.raises(TargetError, match="not inside the package"):
        unit_names(find_target(write(tmp_path, text)), load_kind("reward"), "x")
