"""Shared parts under another name: whole, importable by the checkout, and in the wheel."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pathspec
import pytest

from scaffold.archon.codegen.names import ARCHON
from scaffold.archon.shared_parts import THEIRS, shared_modules

ROOT = Path(__file__).parents[4]
COMMON = f"{ARCHON}.common"
WRITTEN = (
    f"from {COMMON}.decoder import BaseDecoder\n"
    f"from {COMMON}.state_dict import RuleAdapter\n"
    f"from {COMMON}.parallel.decoder import parallelize_decoder\n"
    f"from {COMMON}.errors import ConfigError\n"
).encode()


@pytest.fixture(scope="module")
def modules() -> dict[str, str]:
    return shared_modules({"model.py": WRITTEN}, COMMON)


def imported(text: str) -> set[str]:
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    names = {str(node.module) for node in nodes}
    return {name for name in names if name.startswith("areal.")}


def test_parts_import_each_other_and_what_the_checkout_has(modules: dict[str, str]) -> None:
    own = {f"{COMMON}.{path[:-3].replace('/', '.')}".removesuffix(".__init__") for path in modules}
    theirs = {*THEIRS, ARCHON, "areal.utils"}
    assert "decoder.py" in modules
    assert "attention/core.py" in modules
    for path, text in modules.items():
        assert imported(text) <= own | theirs, path


def test_bases_extend_those_of_the_checkout(modules: dict[str, str]) -> None:
    tree = ast.parse(modules["base.py"])
    bases = {n.name: ast.unparse(n.bases[0]) for n in tree.body if isinstance(n, ast.ClassDef)}
    wanted = THEIRS[f"{ARCHON}.base"]
    assert bases == {name: f"contract.{name}" for name in wanted}


def test_no_part_comes_twice_under_the_name_of_a_module_of_the_checkout(
    modules: dict[str, str],
) -> None:
    assert not {"model_spec.py", "parallel_dims.py", "pipeline_parallel.py"} & modules.keys()


def test_the_wheel_has_every_part(modules: dict[str, str]) -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    included = pathspec.PathSpec.from_lines("gitignore", settings["targets"]["wheel"]["include"])
    homes = ("areal/experimental/models/archon", "areal/api", "areal/utils")
    for path in modules.keys() - {"__init__.py"}:
        found = [f"{home}/{path}" for home in homes if (ROOT / home / path).is_file()]
        assert any(included.match_file(each) for each in found), path
