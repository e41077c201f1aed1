"""Every style with every choice, in one project: what is rendered passes all three levels."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from scaffold.templating.manifests import load_kind, load_style, style_names
from scaffold.templating.spec import Answer

QUOTES = 'it\'s "quoted", {{ braced }} {% raw %}\\n\\\nand \N{GRINNING FACE} \'\'\'"""'
TEXTS: dict[str, list[str]] = {
    "pattern": ["", r"#### (-?[\d,]+)", "[\"']{{.*}}"],
    "feedback": ["", QUOTES],
    "system_prompt": ["", QUOTES],
    "env": ["", "FrozenLake-v1"],
    "question_column": ["", QUOTES],
    "answer_column": ["a\\b"],
    "column": ["gold"],
    "prompt_column": ["", QUOTES],
    "chosen_column": ["", "it's \\ better"],
    "rejected_column": ['"worse"'],
    "samples": [""],
    "rubric": ["", QUOTES],
    "base_url": [QUOTES],
    "model": [QUOTES],
    "cache_dir": [QUOTES],
    "tasks": [""],
}
TRINITY: dict[str, list[Any]] = {
    "question_column": [QUOTES],
    "answer_column": ["a\\b"],
    "reward_fn": ["", "math_boxed_reward"],
}
"""Fewer texts, as the style has many choices that go together."""


def choices(kind: str, style: str) -> list[dict[str, Any]]:
    """Returns every combination of the answers of a style; numbers stay as they are."""
    questions = {**load_kind(kind).answers, **load_style(kind, style).answers}
    values: dict[str, list[Any]] = {}
    for name, question in questions.items():
        if question.type == "bool":
            values[name] = [True, False]
        elif question.choices:
            values[name] = list(question.choices)
        elif question.type == "str":
            values[name] = (TRINITY if style == "trinity" and name in TRINITY else TEXTS)[name]
    found = [dict(zip(values, row, strict=True)) for row in product(*values.values())]
    return [each for each in found if not _excluded(questions, each)]


def _excluded(questions: dict[str, Answer], answers: dict[str, Any]) -> bool:
    return any(
        answers[name] and answers[other]
        for name, question in questions.items()
        for other in question.excludes
    )


def requests() -> list[list[str]]:
    found: list[list[str]] = []
    for kind in ("reward", "workflow", "dataset"):
        for style in style_names(kind):
            for answers in choices(kind, style):
                name = f"{kind}_{style}_{len(found)}".replace("-", "_")
                options = [f"--{load_kind(kind).option}={style}"]
                questions = {**load_kind(kind).answers, **load_style(kind, style).answers}
                for key, value in answers.items():
                    flag = questions[key].option
                    if isinstance(value, bool):
                        options.append(flag if value else f"--no-{flag[2:]}")
                    else:
                        options.append(f"{flag}={value}")
                found.append([f"add-{kind}", name, *options])
    return found


def add(scaffold: Callable[..., Any], project: Path, argvs: list[list[str]]) -> None:
    for argv in argvs:
        added = scaffold(project, *argv, "--json")
        assert added.status == 0, added.text


@pytest.mark.slow  # the walk through add-dataset verifies both types of a module in every run
def test_both_types_of_dataset_in_one_module(scaffold: Callable[..., Any], project: Path) -> None:
    add(scaffold, project, [["add-dataset", "both", "--type=sft", "--type=rl"]])
    done = scaffold(project, "verify", "both", "--json", "--allow-stub")
    assert (done.status, done.report["verdict"]) == (0, "ok"), done.text


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_choice(scaffold: Callable[..., Any], project: Path) -> None:
    add(scaffold, project, requests())
    done = scaffold(project, "verify", "--json", "--allow-stub")
    wrong = [unit for unit in done.report["units"] if unit["verdict"] != "ok"]
    assert wrong == []
    assert len(done.report["units"]) > len(requests())
