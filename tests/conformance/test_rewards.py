"""Does every registered reward obey its kind?"""

from __future__ import annotations

import inspect
import pickle

import pytest

from areal.reward import REWARDS, VALID_REWARD_FN, get_reward_fn
from tests.conformance.registries import (
    check_arguments_are_documented,
    check_docstring,
    check_lazy_exports,
    check_table,
    check_unit,
)


def test_the_table_is_one_sorted_literal() -> None:
    check_table("areal.reward", "REWARDS")


def test_the_package_offers_every_reward() -> None:
    check_lazy_exports("areal.reward", [f"{name}_reward_fn" for name in REWARDS])
    assert list(REWARDS) == VALID_REWARD_FN


@pytest.mark.parametrize("name", REWARDS)
def test_a_reward_is_a_unit_of_its_own(name: str) -> None:
    module_name, _, attribute = REWARDS[name].partition(":")
    assert attribute == f"{name}_reward_fn"
    assert check_unit("reward", name, module_name)


@pytest.mark.parametrize("name", REWARDS)
def test_a_reward_has_the_conventional_signature(name: str) -> None:
    parameters = list(inspect.signature(get_reward_fn(name)).parameters.values())
    names = [parameter.name for parameter in parameters]
    assert names[:4] == ["prompt", "completions", "prompt_ids", "completion_ids"]
    assert all(p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for p in parameters[:4])
    assert parameters[-1].kind is inspect.Parameter.VAR_KEYWORD, "rows have other columns too"
    assert inspect.signature(get_reward_fn(name)).return_annotation == "float"


@pytest.mark.parametrize("name", REWARDS)
def test_a_reward_is_documented(name: str) -> None:
    function = get_reward_fn(name)
    check_docstring(function, "Args", "Returns")
    check_arguments_are_documented(function, function.__doc__ or "")


@pytest.mark.parametrize("name", REWARDS)
def test_a_reward_can_go_to_a_worker_process(name: str) -> None:
    function = get_reward_fn(name)
    assert pickle.loads(pickle.dumps(function)) is function
