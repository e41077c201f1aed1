from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch

from areal.api.errors import TrajectoryError
from areal.infra.trajectory import check_trajectory, check_trajectory_format, to_trajectory
from tests.fakes import FakeInteraction, trajectory


def _with(**values: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda good: good | values


def _without(*keys: str) -> Callable[[dict[str, Any]], Any]:
    return lambda good: {key: value for key, value in good.items() if key not in keys}


def _set(key: str, position: tuple[int, ...], value: float) -> Callable[[dict[str, Any]], Any]:
    def change(good: dict[str, Any]) -> dict[str, Any]:
        tensor = good[key].clone()
        tensor[position] = value
        return good | {key: tensor}

    return change


_NAN, _INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: [1], "returned list, expected a dict"),
        (lambda _: {}, "returned no input_ids, .*; it returned an empty dict"),
        (_without("rewards", "logprobs"), "returned no logprobs, rewards; it returned input_ids"),
        (_with(input_ids=[[1, 2]]), "returned input_ids as list, expected a tensor"),
        (_with(input_ids=torch.ones(4)), r"input_ids of shape \[4\], .* unsqueeze"),
        (_with(input_ids=torch.ones(0, 4)), r"input_ids of shape \[0, 4\]"),
        (_with(input_ids=torch.ones(1, 0)), r"input_ids of shape \[1, 0\]"),
        (_with(input_ids=torch.ones(2, 4)), r"input_ids of torch.float32, expected an integer"),
        (_set("input_ids", (0, 0), -7), "input_ids with the negative token -7"),
        (
            _with(logprobs=torch.zeros(1, 7)),
            r"workflow Maths returned logprobs of shape \[1, 7\], expected \[2, 4\] like input_ids",
        ),
        (_with(logprobs=torch.zeros(2, 4, dtype=torch.int32)), "logprobs of torch.int32"),
        (_set("logprobs", (1, 2), _NAN), "logprobs with 1 values that are not finite, such as nan"),
        (_set("logprobs", (1, 2), -_INF), "logprobs with 1 .* such as -inf"),
        (_set("logprobs", (1, 2), 0.5), r"logprobs with values up to 0\.5, .* at most 0"),
        (_with(logprobs=None), "logprobs as NoneType, expected a tensor"),
        (
            _with(loss_mask=torch.full((2, 4), 2)),
            "loss_mask with values from 2 to 2, expected only",
        ),
        (_with(loss_mask=torch.full((2, 4), 0.5)), "loss_mask with values from 0.5 to 0.5"),
        (_with(loss_mask=torch.full((2, 4), _NAN)), "loss_mask with values from nan to nan"),
        (_with(attention_mask=torch.ones(2, 4)), "attention_mask of torch.float32, .* torch.bool"),
        (_set("attention_mask", (1, 0), 0), "attention_mask with a row that does not begin with"),
        (_set("attention_mask", (1, 2), 0), "attention_mask with True after False"),
        (_with(versions=torch.zeros(2, 4)), "versions of torch.float32"),
        (_with(rewards=torch.zeros(2, 1)), r"rewards of shape \[2, 1\], expected \[2\], one per"),
        (_with(rewards=torch.zeros(2, dtype=torch.int64)), "rewards of torch.int64"),
        (_set("rewards", (1,), _INF), "rewards with 1 values that are not finite, such as inf"),
        (_with(turn_ids=torch.zeros(2, 3, dtype=torch.int32)), r"turn_ids of shape \[2, 3\]"),
        (
            _with(extra=torch.tensor(1)),
            r"extra of shape \[\], expected the first dimension to be 2",
        ),
        (_with(extra=torch.ones(3, 4)), r"extra of shape \[3, 4\]"),
        (_with(extra=torch.tensor([1.0, _NAN])), "extra with 1 values that are not finite"),
    ],
)
def test_says_exactly_what_is_wrong(change: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(TrajectoryError, match=message):
        check_trajectory(change(trajectory(batch_size=2)), "Maths")


@pytest.mark.parametrize(
    "change",
    [
        _with(),
        _without("versions"),
        _with(input_ids=torch.ones(2, 4, dtype=torch.int64)),
        _with(loss_mask=torch.ones(2, 4, dtype=torch.bool)),
        _with(loss_mask=torch.tensor([[0.0, 1.0, 1.0, 0.0]] * 2)),
        _with(attention_mask=torch.tensor([[True] * 4, [True, True, False, False]])),
        _with(logprobs=torch.full((2, 4), -3e38)),  # each is finite, their sum is not
        _with(logprobs=torch.zeros(2, 4, dtype=torch.bfloat16)),
        _with(extra=torch.ones(2, 9, 3), note="text", multi_modal_input=[{}, {}]),
    ],
)
def test_accepts_what_can_be_trained_on(change: Callable[[Any], Any]) -> None:
    check_trajectory(change(trajectory(batch_size=2)), "Maths")


def test_interactions_become_one_dict_of_tensors() -> None:
    interactions = {"a": FakeInteraction("a", 3, 1.0), "b": FakeInteraction("b", 5, 0.5)}
    tensors = to_trajectory(interactions)
    check_trajectory(tensors, "Agent")
    assert tensors["input_ids"].shape == (2, 5)
    assert tensors["rewards"].tolist() == [1.0, 0.5]


# --- check_trajectory_format ------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        None,
        {"a": FakeInteraction("a", 3, 1.0)},
        {"input_ids": torch.ones(2, 3), "attention_mask": torch.ones(2, 3)},
        trajectory() | {"multi_modal_input": [{"pixel_values": torch.ones(3)}]},
    ],
)
def test_the_format_check_accepts(data: Any) -> None:
    check_trajectory_format(data)


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ({}, {}, "non-empty dict"),
        ([1], {}, "non-empty dict"),
        ({"input_ids": torch.ones(1, 2)}, {}, "needs attention_mask; found"),
        (trajectory() | {"input_ids": torch.ones(2)}, {}, r"shape \[B, L\], not \[2\]"),
        (trajectory(), {"batch_size": 3}, "expected 3 trajectories, found 1"),
        (trajectory(), {"expected_keys": {"input_ids", "values"}}, "had values, this one has not"),
        (trajectory() | {"multi_modal_input": []}, {}, "non-empty list"),
        (trajectory() | {"multi_modal_input": [{"x": 1}]}, {}, r"multi_modal_input\[0\]"),
    ],
)
def test_the_format_check_refuses(data: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_trajectory_format(data, **options)


def test_the_format_check_warns_of_other_shapes(caplog: pytest.LogCaptureFixture) -> None:
    data = trajectory() | {"values": torch.ones(1, 9), "rewards": torch.ones(2)}
    check_trajectory_format(data, logger=logging.getLogger("Checked"))
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2
    assert "values has shape [1, 9]" in messages[1]
    assert "rewards has shape [2]" in messages[0]
