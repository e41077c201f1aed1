from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.edit.entry import Entry
from scaffold.target.layouts import KindPlace, Registry
from scaffold.target.target import Target
from scaffold.units.ledger import LedgerFile, Unit
from scaffold.verify.checks import Level
from scaffold.verify.static import check_static, has_broken_file

GOOD = {
    "workflow": """
from areal.api import RolloutWorkflow
class XWorkflow(RolloutWorkflow):
    async def arun_episode(self, engine, data):
        return None
""",
    "reward": """
def x_reward_fn(prompt, completions, prompt_ids, completion_ids, answer, **kwargs):
    return 0.0
""",
    "dataset": """
def get_x_sft_dataset(path, split, tokenizer, max_length=None):
    return []
""",
}
ATTRIBUTE = {"workflow": ":XWorkflow", "reward": ":x_reward_fn", "dataset": ""}


def level(
    root: Path, kind: str, source: str, layout: str = "project", entry: str | None = None
) -> Level:
    """Checks one unit whose source is given; ``entry`` is what the registry says of it."""
    value = f"pkg.{kind}.x{ATTRIBUTE[kind]}"
    line = f'    "x": "{value}",\n' if entry is None else entry
    folder = root / "pkg" / kind
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "__init__.py").write_text(f"TABLE: dict[str, str] = {{\n{line}}}\n")
    (folder / "x.py").write_text(source, encoding="utf-8")
    registry = Registry(f"pkg/{kind}/__init__.py", "TABLE")
    target = Target(root, layout, "pkg", "tests", {kind: KindPlace(registry, (), {})})
    unit = Unit(
        kind,
        "x",
        ("sft",),
        {},
        files=(LedgerFile(f"pkg/{kind}/x.py", "source", ""),),
        entries=(Entry(registry.file, registry.table, "dict", "x", value),),
        symbol=value,
    )
    return check_static(target, unit, kind)


def messages(found: Level, status: str) -> list[str]:
    return [f"{row.check}: {row.message}" for row in found.details if row.status == status]


@pytest.mark.parametrize("kind", sorted(GOOD))
def test_a_sound_unit_passes(tmp_path: Path, kind: str) -> None:
    found = level(tmp_path, kind, GOOD[kind])
    assert (found.status, found.details) == ("passed", ())
    assert not has_broken_file(found)


FAULTS = [
    ("workflow", "x = 1", "contract: pkg/workflow/x.py has no class XWorkflow"),
    ("workflow", "class XWorkflow: pass", "needs `async def arun_episode(self, engine, data)`"),
    ("workflow", "class XWorkflow(RolloutWorkflow): pass", "needs `async def arun_episode"),
    (
        "workflow",
        "class XWorkflow:\n    async def arun_episode(self, engine, data): pass",
        "must derive from areal.api.RolloutWorkflow",
    ),
    (
        "workflow",
        "class XWorkflow(RolloutWorkflow):\n    def arun_episode(self, engine, data): pass",
        "it is not a coroutine",
    ),
    (
        "workflow",
        "class XWorkflow:\n    async def run(self, data, base_url=None): return 1.0",
        "called with base_url, http_client, api_key too; take **extra_kwargs",
    ),
    (
        "workflow",
        "class XWorkflow:\n    def run(self, data, **extra): pass",
        "it is not a coroutine",
    ),
    (
        "workflow",
        "class XWorkflow(RolloutWorkflow):\n    async def arun_episode(self, data): pass",
        "found (self, data)",
    ),
    (
        "workflow",
        "class XWorkflow(RolloutWorkflow):\n  async def arun_episode(self, engine, data, n): pass",
        "found (self, engine, data, n)",
    ),
    (
        "workflow",
        "class XWorkflow(RolloutWorkflow):\n    async def arun_episode(self, engine, data):\n"
        "        yield 1",
        "is a generator; it must return its result",
    ),
    ("workflow", "from areal.engine.local import x\n" + GOOD["workflow"], "imports areal.engine."),
    (
        "workflow",
        "import scaffold.templating.spec\n" + GOOD["workflow"],
        "imports scaffold.templating.spec; use areal.",
    ),
    ("workflow", "from areal import trainer\n" + GOOD["workflow"], "imports areal.trainer; use"),
    ("reward", "x_reward_fn = lambda *a, **k: 0.0", "has no function x_reward_fn at its top level"),
    (
        "reward",
        "def x_reward_fn(prompt, completions, **kwargs): pass",
        "is called as (prompt, comp",
    ),
    ("reward", "def x_reward_fn(prompt, completions, a, b): pass", "needs **kwargs for the other"),
    ("reward", "def x_reward_fn(*args, **kwargs):\n    yield 0.0", "must return one float"),
    (
        "dataset",
        "def get_y_sft_dataset(): pass",
        "get_x_sft_dataset, which loads type sft",
    ),
    ("dataset", "def get_x_sft_dataset(path): pass", "lacks the parameters split, max_length, tok"),
    ("dataset", "async def get_x_sft_dataset(**k): pass", "must be a plain function"),
    ("reward", "def x_reward_fn(:", "syntax: pkg/reward/x.py:1: invalid syntax"),
    ("reward", "x = 1\n# YOURS: nothing follows", "syntax: pkg/reward/x.py: line 2: a YOURS"),
]


@pytest.mark.parametrize(("kind", "source", "message"), FAULTS)
def test_a_fault_is_named(tmp_path: Path, kind: str, source: str, message: str) -> None:
    found = level(tmp_path, kind, source)
    assert found.status == "failed"
    (text,) = messages(found, "failed")
    assert message in text
    assert text.startswith(found.reason[:20])


@pytest.mark.parametrize(
    ("kind", "source", "layout", "status"),
    [
        ("reward", "import torch\n", "areal", "failed"),
        ("reward", "import torch\n", "project", "warning"),
        ("dataset", "try:\n    from transformers import x\nexcept E: pass\n", "areal", "failed"),
        ("workflow", "import torch\n", "areal", ""),
        ("reward", "with quiet():\n    import torch\n", "areal", "failed"),
        ("reward", "if a:\n    if b:\n        import torch\n", "areal", "failed"),
        ("reward", "if TYPE_CHECKING:\n    import torch\n", "areal", ""),
        ("reward", "if tp.TYPE_CHECKING:\n    if a:\n        import torch\n", "areal", ""),
        ("reward", "if TYPE_CHECKING: pass\nelse:\n    import torch\n", "areal", "failed"),
        ("reward", "def f():\n    import torch\n", "areal", ""),
        ("workflow", "from areal.reward import gsm8k\n", "areal", "failed"),
        ("workflow", "from areal.reward import gsm8k\n", "project", ""),
        ("reward", "from areal.reward import MathVerifyWorker\n", "areal", ""),
        ("workflow", "from areal import workflow_context\n", "areal", ""),
    ],
)
def test_imports(tmp_path: Path, kind: str, source: str, layout: str, status: str) -> None:
    found = level(tmp_path, kind, source + GOOD[kind], layout)
    assert [row.status for row in found.details] == ([status] if status else [])
    assert all(row.check == "imports" for row in found.details)


@pytest.mark.parametrize(
    "source",
    [
        "def x_reward_fn(*args, **kwargs): return 0.0",
        "def x_reward_fn(p, c, pi, ci, answer, level=1, **kw):\n    def inner(): yield 1\n",
    ],
)
def test_other_sound_rewards(tmp_path: Path, source: str) -> None:
    assert level(tmp_path, "reward", source).status == "passed"


@pytest.mark.parametrize(
    "source",
    [
        "class XWorkflow(RLVRWorkflow): pass",
        "class XWorkflow(workflows.MultiTurnWorkflow):\n    def feedback(self): pass",
        "class XWorkflow:\n    async def run(self, data, **extra): return 1.0",
        "class XWorkflow:\n    async def run(self, d, base_url=0, http_client=0, api_key=0): pass",
        "class XWorkflow(RolloutWorkflow):\n    async def arun_episode(self, *args): return None",
    ],
)
def test_other_sound_workflows(tmp_path: Path, source: str) -> None:
    assert level(tmp_path, "workflow", source).status == "passed"


@pytest.mark.parametrize("call", ["time.sleep(1)", "requests.get('x')", "asyncio.run(f())"])
def test_what_blocks_the_event_loop_is_warned_about(tmp_path: Path, call: str) -> None:
    source = GOOD["workflow"].replace("return None", call)
    found = level(tmp_path, "workflow", source)
    assert found.status == "passed"
    assert messages(found, "warning") == [
        f"blocking: pkg/workflow/x.py:5: {call.partition('(')[0]} blocks all other episodes; "
        "await an asynchronous call"
    ]


def test_a_coroutine_reward_is_warned_about(tmp_path: Path) -> None:
    found = level(tmp_path, "reward", "async " + GOOD["reward"].strip())
    assert found.status == "passed"
    assert "AReaL's reward pool cannot run" in messages(found, "warning")[0]


@pytest.mark.parametrize("entry", ["", '    "x": "pkg.reward.other:x_reward_fn",\n'])
def test_a_lost_registry_line_is_given_back(tmp_path: Path, entry: str) -> None:
    found = level(tmp_path, "reward", GOOD["reward"], entry=entry)
    line = '"x": "pkg.reward.x:x_reward_fn",'
    assert messages(found, "failed") == [f"registry: pkg/reward/__init__.py: add to TABLE: {line}"]


def test_a_missing_file_keeps_the_other_levels_from_running(tmp_path: Path) -> None:
    level(tmp_path, "reward", GOOD["reward"])
    registry = Registry("pkg/reward/__init__.py", "TABLE")
    target = Target(tmp_path, "project", "pkg", "tests", {"reward": KindPlace(registry, (), {})})
    unit = Unit("reward", "x", (), {}, files=(LedgerFile("pkg/reward/y.py", "source", ""),))
    found = check_static(target, unit, "reward")
    assert has_broken_file(found)
    assert "pkg/reward/y.py is missing" in found.reason
