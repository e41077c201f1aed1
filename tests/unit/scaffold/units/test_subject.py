"""Modules are found by path or dotted name; their tests go where the target keeps such tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.errors import RequestError
from scaffold.target.target import find_target
from scaffold.units.subject import read_subject

REWARD = "def x_reward_fn(prompt, completions, prompt_ids, completion_ids, **kw): ...\n"
AGENT = "class A:\n    async def run(self, data, **extra): ...\n"


def write(root: Path, path: str, text: str) -> None:
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    for folder in place.relative_to(root).parents:
        if folder.name and folder.name not in ("src", "tools"):
            (root / folder / "__init__.py").touch()


FOUND = [
    ("my_rl/reward/x.py", "my_rl.reward.x", "reward_x", "tests/reward/test_x.py"),
    ("my_rl/reward/deep/x.py", "my_rl.reward.deep.x", "reward_deep_x", "tests/reward/deep/test_x"),
    ("my_rl/grading.py", "my_rl.grading", "grading_reward", "tests/test_grading_reward.py"),
    ("src/other/x.py", "other.x", "other_x_reward", "tests/other/test_x_reward.py"),
    ("tools/x.py", "x", "x_reward", "tests/test_x_reward.py"),
]


@pytest.mark.parametrize(("path", "module", "key", "test"), FOUND)
def test_modules_by_path_and_dotted(
    project: Path, path: str, module: str, key: str, test: str
) -> None:
    write(project, path, REWARD)
    target = find_target(project)
    found = read_subject(target, path, project, "", "")
    assert (found.key, found.style, found.answers["module"]) == (key, "reward", module)
    assert str(found.answers["to"]).startswith(test)
    folder = (project / path).parent
    assert read_subject(target, Path(path).name, folder, "", "") == found
    if path.startswith(("my_rl", "src")):
        assert read_subject(target, module, project / "tests", "", "") == found


def test_in_the_training_package_tests_mirror_it(checkout: Path) -> None:
    (checkout / "areal" / "__init__.py").touch()
    (checkout / "areal" / "reward" / "x.py").write_text(REWARD)
    found = read_subject(find_target(checkout), "areal.reward.x", checkout, "", "")
    assert (found.key, found.answers["to"]) == ("reward_x", "tests/unit/reward/test_x.py")


def test_an_agent_is_tested_where_workflows_are(project: Path) -> None:
    write(project, "my_rl/workflow/a.py", AGENT)
    found = read_subject(find_target(project), "my_rl/workflow/a.py", project, "", "")
    assert (found.key, found.style) == ("workflow_a", "agent")
    assert found.answers["to"] == "tests/workflow/test_a.py"
    named = read_subject(find_target(project), "my_rl/workflow/a.py", project, "", "tests/b.py")
    assert named.answers["to"] == "tests/b.py"


WRONG = [
    ("my_rl/reward/nothing.py", "there is no module"),
    ("my_rl/reward/__init__.py", "is not a module of its own"),
    ("../outside.py", "there is no module"),
    ("my_rl/reward", "there is no module"),
    ("README.md", "there is no module"),
    ("my_rl/reward/no-name.py", "is not a module of its own"),
    ("my_rl/reward/latin.py", "cannot be read"),
    ("my_rl/reward/asks.py", "asks a server, with httpx"),
    ("my_rl/reward/has_asked.py", "asks a server, with httpx"),
]


@pytest.mark.parametrize(("typed", "message"), WRONG)
def test_what_is_no_module_to_test_is_refused(project: Path, typed: str, message: str) -> None:
    (project.parent / "outside.py").write_text(REWARD)
    write(project, "my_rl/reward/no-name.py", REWARD)
    write(project, "my_rl/reward/asks.py", "import httpx\n" + REWARD)
    write(project, "my_rl/reward/has_asked.py", "from my_rl.reward.asks import x\n" + REWARD)
    (project / "my_rl" / "reward" / "latin.py").write_bytes("# grün\n".encode("latin-1"))
    with pytest.raises(RequestError) as refusal:
        read_subject(find_target(project), typed, project, "", "")
    assert refusal.value.code == "module_unsuited"
    assert message in refusal.value.message
