"""Where the tests of a module can run is read from its text."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from scaffold.errors import RequestError
from scaffold.target.target import find_target
from scaffold.units.subject import _platform, read_subject


@pytest.mark.parametrize(
    ("text", "platform"),
    [
        ("import sys\nassert sys.platform == 'win32'", "win32"),
        ("if sys.platform != 'win32':\n    raise ImportError", "win32"),
        ("if sys.platform == 'win32':\n    a = 1\nelse:\n    raise ImportError('x')", "win32"),
        ("assert sys.platform != 'win32'", ""),
        ("if sys.platform == 'win32':\n    a = 1\nelse:\n    a = 2", ""),
        ("def f():\n    assert sys.platform == 'win32'", ""),
    ],
)
def test_a_module_for_one_platform_is_known(text: str, platform: str) -> None:
    assert _platform(ast.parse(text)) == platform


@pytest.mark.parametrize("typed", ["my_rl", "my_rl.reward", "my_rl/reward", "my_rl/reward/"])
def test_a_package_is_what_its_init_defines(project: Path, typed: str):
    file = project / typed.replace(".", "/") / "__init__.py"
    file.write_text("def one(x: int) -> int:\n    return x\n")
    found = read_subject(find_target(project), typed, project, "", "")
    assert found.answers["module"] == typed.replace("/", ".").strip(".")


def test_a_place_for_the_test_may_have_detours_and_leads_not_out(project: Path):
    (project / "my_rl" / "util.py").write_text("def one(x: int) -> int:\n    return x\n")
    target = find_target(project)
    found = read_subject(target, "my_rl/util.py", project, "", "tests/../tests/./t.py")
    assert found.answers["to"] == "tests/t.py"
    for outside in ("../x.py", "tests/../../x.py", "/x.py"):
        with pytest.raises(RequestError, match=r"^--to .* leads out of ") as refusal:
            read_subject(target, "my_rl/util.py", project, "", outside)
        assert refusal.value.code == "outside_target"
