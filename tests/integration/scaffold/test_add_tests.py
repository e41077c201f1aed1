"""`add-tests`: what it writes passes on every module that the package ships, and sees faults."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scaffold.errors import RequestError
from scaffold.templating.manifests import load_kind
from scaffold.units.add import add_prepared
from scaffold.units.context import Options
from scaffold.units.project import new_project
from scaffold.units.subject import prepare_tests
from scaffold.units.subject_kinds import ANY_CODE, find_subject

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[3]
Scaffold = Callable[..., Any]

SHIPPED = [
    *(f"areal/reward/{name}.py" for name in ("arithmetic", "clevr_count_70k", "geometry3k")),
    *(f"areal/reward/{name}.py" for name in ("gsm8k", "math_verify")),
    *(f"areal/workflow/{name}.py" for name in ("multi_turn", "rlvr")),
    *(f"areal/dataset/{name}.py" for name in ("arithmetic", "gsm8k", "hh_rlhf")),
]
"""The modules that the written tests can try without their author."""

FOR_THE_AUTHOR = [
    "areal/dataset/clevr_count_70k.py",
    "areal/dataset/geometry3k.py",
    "areal/dataset/shapes.py",
    "areal/dataset/torl_data.py",
    "areal/workflow/vision_rlvr.py",
]
"""The modules that need a processor or columns that only their author knows."""

REWARD = """
import math, random
def %s_reward_fn(prompt, completions, prompt_ids, completion_ids, answer, **kwargs):
    {body}
"""
REWARDS = {
    "an_int": "return int(completions == answer)",
    "a_text": 'return "1.0"',
    "nothing": "pass",
    "a_bool": "return completions == answer",
    "not_finite": "return math.nan",
    "random": "return random.random()",
    "crashes": "return float(completions.split()[0] == answer)",
    "narrow": "assert not kwargs\n    return 0.0",
    "counts_columns": "return float(len(kwargs))",
    "wrapped": "return 0.0\n%s_reward_fn = lambda *a, **k: 0.0",
}

WORKFLOW = """
import torch
from areal.api import AsyncRewardWrapper, ModelRequest, RolloutWorkflow

class BrokenWorkflow(RolloutWorkflow):
    def __init__(self, reward_fn, gconfig, tokenizer):
        self.gconfig, self.tokenizer = gconfig, tokenizer
        self.reward = AsyncRewardWrapper(reward_fn)

    async def arun_episode(self, engine, data):
        ids = self.tokenizer.encode(data["messages"][-1]["content"], add_special_tokens=False)
        r = await engine.agenerate(ModelRequest(input_ids=ids, gconfig=self.gconfig))
        reward = await self.reward("", "", ids, r.output_tokens, **data)
        p, o = r.input_len, r.output_len
        t = dict(
            input_ids=torch.tensor([r.input_tokens + r.output_tokens]),
            attention_mask=torch.ones(1, p + o, dtype=torch.bool),
            loss_mask=torch.tensor([[0] * p + [1] * o]),
            logprobs=torch.tensor([[0.0] * p + r.output_logprobs]),
            versions=torch.tensor([[-1] * p + r.output_versions]),
            rewards=torch.tensor([reward]),
        )
        {fault}
        return t
"""
WORKFLOWS = {
    "no_logprobs": 'del t["logprobs"]',
    "float_mask": 't["loss_mask"] = t["loss_mask"].float()',
    "double_rewards": 't["rewards"] = t["rewards"].double()',
    "one_short": 't["logprobs"] = t["logprobs"][:, :-1]',
    "trains_on_the_prompt": 't["loss_mask"][:, 0] = 1',
    "trains_on_nothing": 't["loss_mask"][:] = 0',
    "trains_on_a_part": 't["loss_mask"][:, -1] = 0',
    "shifted_mask": 't["loss_mask"] = t["loss_mask"].roll(-1, 1)',
    "shifted_logprobs": 't["logprobs"] = t["logprobs"].roll(1, 1)',
    "versions_everywhere": 't["versions"][:] = 7',
    "other_tokens": 't["input_ids"][:, p:] = 9',
    "deaf": 't["rewards"] = torch.ones(1)',
    "changes_the_row": 'data["messages"].append({})',
    "rejects_all": "return None",
    "left_padding": 't["attention_mask"][:, 0] = False',
}

AGENT = """
import os
from openai import AsyncOpenAI

class BrokenAgent:
    def __init__(self, reward_fn):
        self.reward_fn = reward_fn

    async def run(self, data, *, base_url=None, api_key=None, http_client=None, **extra):
        base_url = base_url or os.environ["OPENAI_BASE_URL"]
        client = AsyncOpenAI(base_url=base_url, api_key=api_key, http_client=http_client)
        {fault}
        answer = await client.chat.completions.create(model="default", messages=data["messages"])
        reward = self.reward_fn("", answer.choices[0].message.content, [], [], **data)
        return {given}
"""
AGENTS: dict[str, tuple[str, str]] = {
    "an_int": ("pass", "int(reward)"),
    "nothing": ("pass", "None"),
    "a_text_each": ("pass", "{answer.id: '1.0'}"),
    "changes_the_row": ('data["messages"].append({"role": "user", "content": "!"})', "reward"),
    "another_key": ("client = client.with_options(api_key='mine')", "reward"),
    "asks_nothing": ("return 1.0", "reward"),
    "one_server": ("assert not os.environ.get('OPENAI_BASE_URL')", "reward"),
    "no_pickle": ("pass", "reward"),
}

LOADER = """
import json
from pathlib import Path
def _rows(path, columns):
    rows = [json.loads(l) for l in (Path(path) / "train.jsonl").read_text().splitlines()]
    if any(c not in row for row in rows for c in columns):
        raise ValueError("a column is missing")
    return rows
"""
SFT = """
def get_{name}_sft_dataset(path, split, tokenizer, max_length=None):
    made = []
    for row in _rows(path, {columns}):
        p, a = tokenizer.encode(row["question"]), tokenizer.encode(row["answer"])
        made.append({{"input_ids": p + a, "loss_mask": {mask}}})
    return [r for r in made if {keep}]
"""
DPO = """
def get_{name}_dpo_dataset(path, split, tokenizer, max_length=None):
    made = []
    for row in _rows(path, ("chosen", "rejected")):
        c, r = tokenizer.encode(row["chosen"]), tokenizer.encode(row["rejected"])
        n = next(i for i in range(len(c)) if c[i] != r[i])
        made.append({{"chosen_ids": c, "rejected_ids": r, "chosen_loss_mask": {mask},
                     "rejected_loss_mask": [0] * n + [1] * (len(r) - n)}})
    sides = ("chosen_ids", "rejected_ids")
    return [m for m in made if max(len(m[side]) for side in sides) <= (max_length or 999)]
"""
SOUND_SFT = {
    "columns": '("question", "answer")',
    "mask": "[0] * len(p) + [1] * len(a)",
    "keep": 'len(r["input_ids"]) <= (max_length or 999)',
}
SFTS = {
    "no_limit": {"keep": "True"},
    "short_mask": {"mask": "[0] * len(p) + [1] * (len(a) - 1)"},
    "no_answer": {"mask": "[0] * len(p + a)"},
    "other_name": {"mask": '[1] * len(p + a), "mask": 1, **{"loss_mask": None}'},
    "takes_all": {"columns": "()", "keep": 'r["input_ids"]', "mask": "[1] * len(p + a)"},
}
NAMED = """
from datasets import load_dataset
def _rows(path, columns):
    rows = load_dataset(path=path, name="main", split="train")
    if set(columns) - set(rows.column_names):
        raise ValueError("a column is missing")
    return list(rows)
"""
RL = """
import random
def get_{name}_rl_dataset(path, split, tokenizer, max_length=None):
    return [{row} for row in _rows(path, ("question", "answer"))]
"""
RLS = {
    "missing_answer": '{"messages": [{"role": "user", "content": row["question"]}]}',
    "text_messages": '{"messages": [row["question"]], "answer": row["answer"]}',
    "empty_answer": '{"messages": [{"role": "user", "content": row["question"]}], "answer": " "}',
    "dice": '{"messages": [{"role": "user", "content": row["question"]}],'
    ' "answer": row["answer"] + str(random.random())}',
}


def modules() -> dict[str, str]:
    """Returns every faulty module, by its path, and a sound one of each kind."""
    found = {
        f"reward/{name}": REWARD.replace("%s", name).format(body=body.replace("%s", name))
        for name, body in {**REWARDS, "sound": "return float(completions == answer)"}.items()
    }
    found |= {
        f"workflow/{name}": WORKFLOW.format(fault=fault)
        for name, fault in {**WORKFLOWS, "sound": "pass"}.items()
    }
    sound = {"sound_agent": ("pass", "reward"), "sound_each": ("pass", "{answer.id: reward}")}
    for name, (fault, given) in {**AGENTS, **sound}.items():
        text = AGENT.replace("{fault}", fault).replace("{given}", given)
        if name == "no_pickle":
            text = text.replace("= reward_fn", "= lambda *a, **k: 1.0")
        found[f"workflow/agent_{name}"] = text
    found["dataset/sound_main"] = NAMED + SFT.format(name="sound_main", **SOUND_SFT)
    for name, changes in {**SFTS, "sound": {}}.items():
        found[f"dataset/{name}"] = LOADER + SFT.format(name=name, **{**SOUND_SFT, **changes})
    for name, mask in {
        "whole_side": "[1] * len(c)",
        "sound_pairs": "[0] * n + [1] * (len(c) - n)",
    }.items():
        found[f"dataset/{name}"] = LOADER + DPO.format(name=name, mask=mask)
    for name, row in RLS.items():
        found[f"dataset/{name}"] = LOADER + RL.format(name=name, row=row)
    return found


def run_tests(root: Path, *paths: str) -> dict[str, list[str]]:
    """Runs written tests in one process and returns what was wrong, by test module."""
    report = root / "report.xml"
    argv = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={report}", *paths]
    env = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, *argv], cwd=root, env=env, capture_output=True, check=False)
    found: dict[str, list[str]] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        problems = [*case.findall("failure"), *case.findall("error"), *case.findall("skipped")]
        rows = found.setdefault(str(case.get("classname")).rpartition("tests.")[2], [])
        rows += [f"{case.get('name')}: {each.get('message')}" for each in problems]
    return found


def add(root: Path, path: str) -> Any:
    return add_prepared(
        prepare_tests(load_kind("tests"), path, None, None, Options(root)), Options(root)
    )


def check_faults(tmp_path: Path, texts: dict[str, str]) -> None:
    new_project(load_kind("project"), "my_rl", (), {}, Options(tmp_path))
    root = tmp_path / "my_rl"
    for name, text in texts.items():
        (root / "my_rl" / f"{name}.py").write_text(textwrap.dedent(text), encoding="utf-8")
        add(root, f"my_rl/{name}.py")
    outcome = run_tests(root, "tests/reward", "tests/workflow", "tests/dataset")
    assert len(outcome) == len(texts)
    green = {name.replace(".test_", "/") for name, problems in outcome.items() if not problems}
    assert green == {name for name in texts if "sound" in name}


def test_some_faults_are_seen(tmp_path: Path) -> None:
    few = ("reward/an_int", "reward/sound", "workflow/shifted_mask", "dataset/no_limit")
    check_faults(tmp_path, {name: text for name, text in modules().items() if name in few})


@pytest.mark.slow
def test_every_fault_is_seen_and_sound_modules_pass(tmp_path: Path) -> None:
    check_faults(tmp_path, modules())


def check_shipped(repository: Path, paths: list[str]) -> None:
    places = {path: add(repository, path).changes[0].path for path in paths}
    outcome = run_tests(repository, *places.values())
    assert len(outcome) == len(paths)
    assert {name: problems for name, problems in outcome.items() if problems} == {}


def test_some_modules_of_the_package(repository: Path) -> None:
    check_shipped(repository, ["areal/reward/clevr_count_70k.py", "areal/dataset/hh_rlhf.py"])


@pytest.mark.slow
def test_every_module_of_the_package(repository: Path) -> None:
    check_shipped(repository, [path for path in SHIPPED if not made_before(repository, path)])


def made_before(repository: Path, path: str) -> bool:
    stem = path.removeprefix("areal/").removesuffix(".py").replace("/", "_")
    return (repository / ".scaffold" / "made" / "tests" / f"{stem}.toml").exists()


def test_no_module_of_the_package_is_left_out() -> None:
    for room in ("reward", "workflow", "dataset"):
        for path in sorted((ROOT / "areal" / room).glob("*.py")):
            try:
                subject = find_subject(path.read_text(encoding="utf-8"), path.name)
            except RequestError:
                continue
            if subject.style in ANY_CODE:
                continue  # helpers have tests of their own
            assert path.relative_to(ROOT).as_posix() in [*SHIPPED, *FOR_THE_AUTHOR]


@pytest.mark.slow
@pytest.mark.parametrize("path", FOR_THE_AUTHOR)
def test_what_only_the_author_knows_is_unfinished(
    scaffold: Scaffold, repository: Path, path: str
) -> None:
    added = scaffold(repository, "add-tests", path, "--json")
    assert added.report["unfinished"], added.text
    unit = added.report["check"][0][2]
    for options in ([], ["--allow-stub"]):
        done = scaffold(repository, "verify", unit, "--json", *options)
        assert (done.status, done.report["verdict"]) == (1, "unfinished"), done.text


def test_the_command_line(scaffold: Scaffold, project: Path) -> None:
    path = project / "my_rl" / "reward" / "plus.py"
    path.write_text(REWARD.replace("%s", "plus").format(body="return float(len(completions))"))
    made = scaffold(project, "add-tests", "my_rl.reward.plus", "--json")
    assert made.status == 0, made.text
    created = [row["path"] for row in made.report["changes"] if row["action"] == "created"]
    assert created == ["tests/reward/test_plus.py"]
    assert "completions of your own" in made.report["unfinished"][0]["why"]
    again = scaffold(project, "add-tests", "my_rl/reward/plus.py", "--json")
    assert (again.status, again.report["changes"]) == (0, []), again.text
    gone = scaffold(project, "remove", "tests/reward_plus", "--json")
    assert gone.status == 0, gone.text
    assert not (project / created[0]).exists()
    assert path.exists()


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["my_rl.reward.nothing"], "module_unsuited"),
        (["/etc/passwd"], "module_unsuited"),
        (["my_rl/reward/times.py", "--to", "../times.py"], "outside_target"),
        (["my_rl/reward/times.py", "--to", "train.py"], "file_exists"),
        (["my_rl/reward/times.py", "--style", "dataset"], "module_unsuited"),
    ],
)
def test_what_is_wrong_is_refused_and_nothing_written(
    scaffold: Scaffold, project: Path, argv: list[str], code: str
) -> None:
    text = REWARD.replace("%s", "times").format(body="return 0.0")
    (project / "my_rl" / "reward" / "times.py").write_text(text)
    before = sorted(project.rglob("*.py"))
    done = scaffold(project, "add-tests", *argv, "--json")
    assert done.status in (1, 2)
    assert done.report["error"]["code"] == code, done.text
    assert sorted(project.rglob("*.py")) == before
