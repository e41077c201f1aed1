"""Seeded faults: verify must see each of them, say what to do, and survive it."""

from __future__ import annotations

import json
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scaffold.edit.entry import Entry
from scaffold.target.target import Target, find_target
from scaffold.templating.manifests import load_kind
from scaffold.units.ledger import LedgerFile, Unit
from scaffold.verify.checks import Level
from scaffold.verify.interpreter import Interpreter, find_interpreter
from scaffold.verify.levels import Bench, Limits, run_episodes, run_tests

pytestmark = pytest.mark.heavy

WORKFLOW = """
import asyncio, os, time
import torch
from areal.api import AsyncRewardWrapper, ModelRequest, RolloutWorkflow

class BrokenWorkflow(RolloutWorkflow):
    def __init__(self, reward_fn, gconfig, tokenizer{parameter}):
        self.gconfig, self.tokenizer = gconfig, tokenizer
        self.reward = AsyncRewardWrapper(reward_fn)

    async def arun_episode(self, engine, data):
        text = data["messages"][-1]["content"]
        ids = self.tokenizer.encode(text, add_special_tokens=False)
        r = await engine.agenerate(ModelRequest(input_ids=ids, gconfig=self.gconfig))
        reward = await self.reward(text, "", ids, r.output_tokens, **data)
        p, o = r.input_len, r.output_len
        {before}
        t = dict(
            input_ids=torch.tensor([r.input_tokens + r.output_tokens]),
            attention_mask=torch.ones(1, p + o, dtype=torch.bool),
            loss_mask=torch.tensor([[0] * p + [1] * o]),
            logprobs=torch.tensor([[0.0] * p + r.output_logprobs]),
            versions=torch.tensor([[-1] * p + r.output_versions]),
            rewards=torch.tensor([reward]),
        )
        {after}
        return t
"""


def workflow(before: str = "", after: str = "", parameter: str = "") -> str:
    return WORKFLOW.format(before=before or "pass", after=after or "pass", parameter=parameter)


AGENT = """
from openai import AsyncOpenAI
from areal.api import AsyncRewardWrapper

class BrokenWorkflow:
    def __init__(self, reward_fn):
        self.reward = AsyncRewardWrapper(reward_fn)

    async def run(self, data, **given):
        client = AsyncOpenAI(
            base_url=given["base_url"], api_key=given["api_key"], http_client=given["http_client"]
        )
        {before}
        answer = await client.chat.completions.create(
            model="default", messages=data["messages"]{options}
        )
        reward = await self.reward("", answer.choices[0].message.content, [], [], **data)
        return {value}
"""


def agent(value: str = "reward", before: str = "", options: str = "") -> str:
    return AGENT.format(value=value, before=before or "pass", options=options)


def reward(body: str) -> str:
    head = "def broken_reward_fn(prompt, completions, *rest, **kwargs):\n"
    return "import math, os, random\n\n" + head + textwrap.indent(body, "    ")


def dataset(row: str, loader: str = "") -> str:
    return f"""
from datasets import Dataset

def get_broken_sft_dataset(path, split, tokenizer, max_length=None):
    {loader or "pass"}
    rows = [{row} for n in (30, 20)]
    return Dataset.from_list([r for r in rows if len(r["input_ids"]) <= (max_length or 99)])
"""


WORKFLOWS = [
    ("raises", workflow('data["question"]'), "episode", "KeyError: 'question' (my_rl/workflow/b"),
    ("waits", workflow("await asyncio.Event().wait()"), "episode", "not finished within 2 s"),
    ("exits", workflow("os._exit(3)"), "process", "ended with status 3 while running 3 episodes"),
    ("quits", workflow("raise SystemExit(4)"), "episode", "SystemExit: 4"),
    (
        "nan",
        workflow(after='t["rewards"] = t["rewards"] * float("nan")'),
        "finite",
        "rewards holds",
    ),
    ("keys", workflow(after='del t["loss_mask"]'), "keys", "lacks loss_mask; it has input_ids"),
    ("row", workflow('data["messages"].append({})'), "row", "copy it first"),
    (
        "deaf",
        workflow(after='t["rewards"] = torch.ones(1)'),
        "rewards",
        "whatever reward_fn returns",
    ),
    (
        "constructor",
        workflow(parameter=", judge"),
        "constructor",
        "the constructor parameter 'judge'; give it a default",
    ),
]
AGENTS = [
    ("whole", agent("int(reward)"), "episode", "Invalid reward type int: BrokenWorkflow.run must"),
    ("deaf agent", agent("1.0"), "rewards", "whatever reward_fn returns"),
    ("silent", agent(before="return 1.0"), "episode", "nothing to reward"),
    ("many", agent(options=", n=2"), "episode", "n is 2; only 1 is supported"),
]
REWARDS = [
    ("raises", reward('return float(completions.split(" ")[1])'), "calls", "ValueError: could not"),
    (
        "hangs",
        reward('while "7" == completions: pass\nreturn 0.0'),
        "time limit",
        "within 1 s; limit how",
    ),
    ("exits", reward("os._exit(1)"), "calls", "the process ended without a result (os._exit"),
    ("none", reward('"forgot to return"'), "calls", "None"),
    ("nan", reward("return math.nan"), "calls", "nan"),
    (
        "columns",
        reward("return float(kwargs['tests'])"),
        "calls",
        "this row has the columns messages",
    ),
    ("dice", reward("return random.random()"), "deterministic", "must be deterministic"),
    ("import", "raise RuntimeError('no licence')", "import", "RuntimeError: no licence (my_rl/rew"),
    (
        "blocked",
        "import time; time.sleep(600)",
        "time limit",
        "killed while importing my_rl.reward.broken",
    ),
]
GOOD_ROW = '{"input_ids": [1] * n, "loss_mask": [0] * (n - 1) + [1]}'
DATASETS = [
    (
        "columns",
        dataset(GOOD_ROW.replace("loss_mask", "mask")),
        "sft",
        "expected exactly input_ids and",
    ),
    (
        "vocabulary",
        dataset(GOOD_ROW.replace("[1] * n", "[9999] * n")),
        "sft",
        "outside the vocabulary",
    ),
    ("lengths", dataset(GOOD_ROW.replace("n - 1", "n")), "sft", "for each of its 30 tokens"),
    ("mask", dataset(GOOD_ROW.replace("+ [1]", "+ [0]")), "sft", "nothing would be learnt"),
    ("limit", dataset(GOOD_ROW, "max_length = None"), "sft", "ignores max_length"),
    ("empty", dataset(GOOD_ROW, "return Dataset.from_list([])"), "sft", "returned no rows"),
    ("missing", dataset(GOOD_ROW, "split['x']"), "sft", "TypeError"),
    ("loader", "x = 1", "sft", "names get_broken_sft_dataset, which"),
]


@pytest.fixture(scope="module")
def target(project: Path) -> Target:
    return find_target(project)


@pytest.fixture(scope="module")
def python(target: Target) -> Interpreter:
    return find_interpreter(target, None)


def unit_of(target: Target, kind: str, attribute: str, source: str, test: str = "") -> Unit:
    """Puts a unit that nobody rendered into the project."""
    files = {f"my_rl/{kind}/broken.py": source, f"tests/{kind}/test_broken.py": test}
    for path, text in files.items():
        (target.root / path).parent.mkdir(parents=True, exist_ok=True)
        (target.root / path).write_text(text, encoding="utf-8")
    made = tuple(
        LedgerFile(path, "test" if path.startswith("tests/") else "source", "") for path in files
    )
    value = f"my_rl.{kind}.broken" + (f":{attribute}" if attribute else "")
    entry = Entry(f"my_rl/{kind}/__init__.py", f"{kind.upper()}S", "dict", "broken", value)
    return Unit(kind, "broken", ("sft",), {}, symbol=value, files=made, entries=(entry,))


def episodes(
    target: Target, python: Interpreter, unit: Unit, *, process_s: float = 120, engine: str = "own"
) -> Level:
    limits = Limits(process_s, episode_s=2, call_s=1)
    bench = Bench(target, python, limits, engine=engine)
    return run_episodes(bench, unit, load_kind(unit.kind).verify)


def assert_found(level: Level, check: str, message: str) -> None:
    failures = [(row.check, row.message) for row in level.details if row.status == "failed"]
    assert level.status == "failed", level
    assert [name for name, _ in failures] == [check], failures
    assert message in failures[0][1]
    assert message in level.reason


# A process with torch and a model costs seconds; the others show the same paths.
IN_FULL_RUNS = (
    *("quits", "keys", "constructor", "silent", "many", "deaf agent"),
    *("raises", "waits", "row", "deaf", "whole"),
    "nan",  # `test_trajectory` damages every tensor, without a process
)


@pytest.mark.parametrize(
    ("source", "check", "message"),
    [
        pytest.param(*row[1:], id=row[0], marks=[pytest.mark.slow] * (row[0] in IN_FULL_RUNS))
        for row in [*WORKFLOWS, *AGENTS]
    ],
)
def test_workflow(
    target: Target, python: Interpreter, source: str, check: str, message: str
) -> None:
    unit = unit_of(target, "workflow", "BrokenWorkflow", source)
    assert_found(episodes(target, python, unit), check, message)


def test_a_sound_agent_passes_and_one_that_cannot_travel_is_told(
    target: Target, python: Interpreter
) -> None:
    source = agent()
    source = source.replace("    async", "        self.lock = threading.Lock()\n\n    async", 1)
    unit = unit_of(target, "workflow", "BrokenWorkflow", "import threading\n" + source)
    level = episodes(target, python, unit, engine="target")
    assert (level.status, level.reason) == ("passed", "9 trajectories, every tensor checked")
    told = [row.message for row in level.details if row.check == "pickle"]
    assert "rollout.agent.mode=subproc" in told[0]


# The walk through add-workflow takes the target's engine in every run.
@pytest.mark.parametrize("engine", ["own", pytest.param("target", marks=pytest.mark.slow)])
def test_a_sound_workflow_that_prints_passes_on_either_engine(
    target: Target, python: Interpreter, engine: str
) -> None:
    source = workflow('print(\'{"event": "check"}\', flush=True)')
    unit = unit_of(target, "workflow", "BrokenWorkflow", source)
    level = episodes(target, python, unit, engine=engine)
    assert (level.status, level.reason) == ("passed", "9 trajectories, every tensor checked")
    told = [row.message for row in level.details if row.check == "engine"]
    assert ("own" in told[0]) == (engine == "own")


@pytest.mark.parametrize(
    ("source", "check", "message"), [row[1:] for row in REWARDS], ids=[row[0] for row in REWARDS]
)
def test_reward(target: Target, python: Interpreter, source: str, check: str, message: str) -> None:
    unit = unit_of(target, "reward", "broken_reward_fn", source)
    process_s = 5 if "sleep" in source else 120
    assert_found(episodes(target, python, unit, process_s=process_s), check, message)


# Rows like these are tried without a process in the unit tests of the runner.
ROWS_IN_FULL_RUNS = ("vocabulary", "lengths", "mask")


@pytest.mark.parametrize(
    ("source", "check", "message"),
    [
        pytest.param(*row[1:], id=row[0], marks=[pytest.mark.slow] * (row[0] in ROWS_IN_FULL_RUNS))
        for row in DATASETS
    ],
)
def test_dataset(
    target: Target, python: Interpreter, source: str, check: str, message: str
) -> None:
    unit = unit_of(target, "dataset", "", source, "SAMPLES = [{'q': 1}]\n")
    assert_found(episodes(target, python, unit), check, message)


@pytest.mark.parametrize(
    ("test", "check", "message"),
    [
        ("def test_x():\n    assert 2 == 3\n", "test_x", "assert 2 == 3"),
        ("x = 1\n", "pytest", "holds no test"),
        ("import nothing_like_it\n", "", "No module named"),
        ("import os\nos._exit(7)\n", "pytest", "ended with status 7 without a report"),
        ("import time\ntime.sleep(600)\n", "time limit", "not finished within 4 s"),
    ],
)
def test_tests(target: Target, python: Interpreter, test: str, check: str, message: str) -> None:
    unit = unit_of(target, "reward", "broken_reward_fn", "", test)
    process_s = 4 if "sleep" in test else 60
    level = run_tests(Bench(target, python, Limits(process_s)), unit)
    assert level.status == "failed", level
    assert level.details[0].check.startswith(check)
    assert message in level.details[0].message


@pytest.mark.parametrize(
    ("module", "status"), [("torch", "skipped"), ("nothing_like_it", "failed")]
)
def test_what_the_interpreter_lacks_is_no_failure_of_the_tests(
    target: Target, python: Interpreter, module: str, status: str
) -> None:
    bare = replace(python, packages=frozenset(["pytest"]))
    test = f"raise ModuleNotFoundError(\"No module named '{module}'\")\n"
    unit = unit_of(target, "reward", "broken_reward_fn", "", test)
    level = run_tests(Bench(target, bare, Limits(60)), unit)
    assert level.status == status
    assert module in level.reason
    assert ("--python EXE" in level.reason) == level.is_lacking == (status == "skipped")


def test_tests_that_were_all_skipped_prove_nothing(target: Target, python: Interpreter) -> None:
    test = "import pytest\npytestmark = pytest.mark.skip(reason='no data')\ndef test_x(): pass\n"
    unit = unit_of(target, "reward", "broken_reward_fn", "", test)
    level = run_tests(Bench(target, python, Limits(60)), unit)
    assert (level.status, level.is_lacking) == ("skipped", True)
    assert "no data" in level.reason


def test_rows_of_ones_own_are_used(target: Target, python: Interpreter, tmp_path: Path) -> None:
    data = tmp_path / "rows.jsonl"
    data.write_text('{"messages": [], "answer": "5", "level": 3}\n')
    source = reward("assert kwargs['level'] == 3\nreturn float(completions == kwargs['answer'])")
    unit = unit_of(target, "reward", "broken_reward_fn", source)
    bench: dict[str, Any] = {"target": target, "python": python, "limits": Limits(60)}
    rules = load_kind("reward").verify
    assert run_episodes(Bench(**bench, data=data), unit, rules).status == "passed"
    assert run_episodes(Bench(**bench), unit, rules).status == "failed"


REJECTS = """
from areal.workflow.rlvr import RLVRWorkflow


class BrokenWorkflow(RLVRWorkflow):
    async def arun_episode(self, engine, data):
        seen = []

        class Listening:
            def __getattr__(self, name):
                return getattr(engine, name)

            async def agenerate(self, req):
                response = await engine.agenerate(req)
                seen.append(req.tokenizer.decode(response.output_tokens))
                return response

        result = await super().arun_episode(Listening(), data)
        return result if "<tool>" in "".join(seen) else None
"""


def test_a_workflow_that_rejects_what_a_random_model_writes(
    target: Target, python: Interpreter
) -> None:
    unit = unit_of(target, "workflow", "BrokenWorkflow", REJECTS)
    level = episodes(target, python, unit)
    assert (level.status, level.is_lacking) == ("skipped", True), level
    assert "in tests/workflow/test_broken.jsonl, or with --completions FILE" in level.reason
    rows = [{"completion": f"<tool>call {n}"} for n in range(2)]
    beside = target.root / "tests/workflow/test_broken.jsonl"
    beside.write_text("\n".join(map(json.dumps, rows)))
    level = episodes(target, python, unit)
    assert (level.status, level.reason) == ("passed", "6 trajectories, every tensor checked")
    beside.unlink()


def test_nothing_is_left_behind_in_the_target(target: Target) -> None:
    kept = {path.name for path in target.root.rglob("*") if path.is_file()}
    assert not {name for name in kept if name.endswith((".pyc", ".arrow", ".jsonl", ".xml"))}
    assert not list(target.root.rglob(".pytest_cache"))
