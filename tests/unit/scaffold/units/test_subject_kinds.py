"""What a module defines is read from its text, and what cannot be tested is refused with why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scaffold.errors import RequestError
from scaffold.units.subject_kinds import find_subject

ROOT = Path(__file__).parents[4]

REWARD = "def x_reward_fn(prompt, completions, prompt_ids, completion_ids, answer, **kw): ...\n"
WORKFLOW = """
class XWorkflow(RolloutWorkflow):
    def __init__(self, reward_fn, gconfig, tokenizer, judge, depth=3, *, key): ...
    async def arun_episode(self, engine, data):
        return data["messages"], data["level"], self.made["input_ids"]
"""
LOADER = """
def get_x_rl_dataset(path, split, tokenizer, max_length=None):
    return [{"messages": row["problem"], "answer": row["solution"]} for row in read(path)]
"""

SHIPPED = [
    ("reward/gsm8k", {"functions": "gsm8k_reward_fn", "columns": "answer"}),
    ("reward/math_verify", {"functions": "math_verify_reward_fn", "columns": "answer"}),
    (
        "workflow/multi_turn",
        {
            "class_name": "MultiTurnWorkflow",
            "arguments": "reward_fn gconfig tokenizer max_turns turn_discount",
            "unknown": "",
            "columns": "",
        },
    ),
    (
        "workflow/vision_rlvr",
        {
            "class_name": "VisionRLVRWorkflow",
            "arguments": "reward_fn gconfig tokenizer enable_thinking",
            "unknown": "processor",
            "columns": "",  # a row may lack images
        },
    ),
    (
        "dataset/gsm8k",
        {
            "loaders": "get_gsm8k_sft_dataset get_gsm8k_rl_dataset",
            "columns": "question=question answer=answer",
            "is_generated": False,
            "has_processor": False,
            "configs": "",
        },
    ),
    (
        "dataset/hh_rlhf",
        {
            "loaders": "get_hh_rlhf_rw_dataset get_hh_rlhf_dpo_dataset",
            "columns": "chosen=chosen rejected=rejected",
            "is_generated": False,
            "has_processor": False,
            "configs": "",
        },
    ),
    (
        "dataset/arithmetic",
        {
            "loaders": "get_arithmetic_sft_dataset get_arithmetic_rw_dataset "
            "get_arithmetic_dpo_dataset get_arithmetic_rl_dataset",
            "columns": "",
            "is_generated": True,
            "has_processor": False,
            "configs": "",
        },
    ),
]


@pytest.mark.parametrize(("name", "answers"), SHIPPED, ids=[name for name, _ in SHIPPED])
def test_what_the_training_package_ships(name: str, answers: dict[str, Any]) -> None:
    text = (ROOT / "areal" / f"{name}.py").read_text(encoding="utf-8")
    subject = find_subject(text, name)
    assert (subject.style, dict(subject.answers)) == (name.partition("/")[0], answers)


def test_several_rewards_with_their_columns() -> None:
    more = "async def two(prompt, completion, prompt_ids, completion_ids, *, tests, level=1): ...\n"
    private = REWARD.replace("x_reward_fn", "_hidden")
    answers = find_subject(REWARD + more + private, "x").answers
    assert answers == {"functions": "x_reward_fn two", "columns": "answer tests"}


def test_what_a_workflow_needs_that_nobody_can_guess() -> None:
    answers = find_subject(WORKFLOW, "x").answers
    assert answers["arguments"] == "reward_fn gconfig tokenizer"
    assert answers["unknown"] == "judge key"
    assert answers["columns"] == "level"


def test_an_agent_is_known_by_its_coroutine() -> None:
    text = "class A:\n    def __init__(self, judge, reward_fn): ...\n"
    subject = find_subject(text + "    async def run(self, data, **extra): ...\n", "x")
    assert subject.style == "agent"
    assert (subject.answers["arguments"], subject.answers["unknown"]) == ("reward_fn", "judge")


def test_a_constructor_of_a_base_in_the_module_counts() -> None:
    child = "class YWorkflow(XWorkflow):\n    feedback = 1\n"
    base = WORKFLOW.replace("XWorkflow", "_Base")
    answers = find_subject(base + child.replace("XWorkflow", "_Base"), "x").answers
    assert (answers["class_name"], answers["unknown"]) == ("YWorkflow", "judge key")


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        (LOADER, "problem=question solution=answer"),
        (LOADER.replace('row["problem"]', 'row["reward_model"]'), ""),
        (LOADER.replace('row["solution"]', '"5"'), ""),
        ("Q = 'problem'\n" + LOADER.replace('"problem"', "Q"), "problem=question solution=answer"),
        ("Q = 'body'\n" + LOADER.replace('"problem"', "Q"), ""),
        (
            "SIDES = {'chosen': 'better', 'rejected': 'worse'}\ndef get_x_rw_dataset(path): ...\n",
            "better=chosen worse=rejected",
        ),
    ],
)
def test_columns_of_a_source_are_told_or_left_to_the_author(text: str, columns: str) -> None:
    assert find_subject(text, "x").answers["columns"] == columns


UNSUITED = [
    ("x = 1\n", "", "x.py defines no public function or class"),
    ("def broken(:\n", "", "x.py is not valid Python"),
    ("x = '\0'\n", "", "x.py is not valid Python"),
    (REWARD.replace("def x", "def _x"), "", "defines no public function or class"),
    (REWARD, "dataset", "x.py defines no dataset"),
    (REWARD + LOADER, "", "things of several kinds"),
    ("class Model(BaseArchonModel): ...\n", "", "defines a model, whose tests come with"),
    ("SPEC = ModelSpec(name='x')\n", "", "defines a model"),
]
# Nearly a reward or an agent: tests of any code suit them.
OTHER_CODE = [
    REWARD.replace(", completion_ids", ""),
    "class A:\n    def run(self, data, **kw): ...\n",
    "class A:\n    async def run(self, argv): ...\n",
]


@pytest.mark.parametrize("text", OTHER_CODE)
def test_what_is_of_no_kind_is_tested_as_code(text: str) -> None:
    assert find_subject(text, "x.py").style == "code"


@pytest.mark.parametrize(("text", "style", "message"), UNSUITED)
def test_what_cannot_be_tested_is_refused(text: str, style: str, message: str) -> None:
    with pytest.raises(RequestError) as refusal:
        find_subject(text, "x.py", style)
    assert refusal.value.code == "module_unsuited"
    assert message in refusal.value.message


def test_a_kind_that_was_named_settles_it() -> None:
    assert find_subject(REWARD + LOADER, "x", "dataset").style == "dataset"


def test_a_configuration_that_a_loader_asks_for_is_found():
    text = (
        "def get_x_rl_dataset(path, split, tokenizer, max_length=None):\n"
        "    return load_dataset(path=path, name='main', split=split)\n"
    )
    subject = find_subject(text, "x")
    assert subject.answers["configs"] == "main"


def test_the_packages_that_an_agent_needs_are_found():
    text = (
        "import asyncio\nimport httpx\nfrom agents import Runner\nfrom openai import AsyncOpenAI\n"
        "from .x import y\n\n\nclass Agent:\n    async def run(self, data, **extra):\n"
        "        return 1.0\n"
    )
    subject = find_subject(text, "x")
    assert subject.answers["packages"] == "agents openai"
    # What only says which package it lacks needs it; what does without needs it not.
    tried = "try:\n    import {0}\nexcept ImportError as error:\n    {1}\n"
    text += tried.format("anthropic", "raise ImportError('install it') from error")
    text += tried.format("rich", "rich = None")
    assert find_subject(text, "x").answers["packages"] == "agents anthropic openai"


def test_a_name_that_a_module_does_not_define_is_told_with_those_that_it_does():
    with pytest.raises(RequestError) as refusal:
        find_subject("def one():\n    pass\n\n\nclass Two:\n    pass\n", "x.py", only="nope")
    assert (refusal.value.message, refusal.value.hint) == (
        "x.py defines no nope",
        "it defines one, Two",
    )
