from __future__ import annotations

import pytest

import areal.reward
from areal.api.errors import UnknownNameError
from areal.reward import REWARDS, VALID_REWARD_FN, get_reward_fn
from areal.reward.gsm8k import gsm8k_reward_fn


@pytest.mark.parametrize(
    "name",
    [
        "gsm8k",
        "areal.reward.gsm8k.gsm8k_reward_fn",
        "areal.reward.gsm8k:gsm8k_reward_fn",
        "areal.reward.gsm8k_reward_fn",
    ],
)
def test_a_name_or_a_dotted_path_gives_the_function(name: str) -> None:
    assert get_reward_fn(name) is gsm8k_reward_fn


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gms8k", r"unknown reward 'gms8k'; did you mean 'gsm8k'\? known: arithmetic, "),
        ("no_such_package.reward", "cannot import reward 'no_such_package.reward'"),
        ("areal.reward.gsm8k.nothing", "cannot import reward"),
        ("", "unknown reward ''"),
    ],
)
def test_an_unknown_reward_is_refused(name: str, message: str) -> None:
    with pytest.raises(UnknownNameError, match=message):
        get_reward_fn(name)


def test_functions_are_attributes_of_the_package() -> None:
    assert areal.reward.gsm8k_reward_fn is gsm8k_reward_fn
    assert list(REWARDS) == VALID_REWARD_FN
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(areal.reward, "nothing")  # noqa: B009  (a name that no checker knows)
