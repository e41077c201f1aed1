"""Optimisers and schedules: decay groups, courses, and the course after a restart."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from areal.api.cli_args import OptimizerConfig
from areal.api.errors import ConfigError
from areal.engine.training.optimizer import lr_factor, make_optimizer, make_schedule
from tests.tiny_models import tiny_model


def config(**fields: Any) -> OptimizerConfig:
    return OptimizerConfig(**{"warmup_steps": 0} | fields)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, [1, 1, 1, 1, 1]),
        ({"warmup_steps": 3}, [0.25, 0.5, 0.75, 1, 1]),
        ({"lr_scheduler_type": "linear"}, [1, 0.75, 0.5, 0.25, 0, 0]),
        ({"lr_scheduler_type": "linear", "min_lr_ratio": 0.2}, [1, 0.8, 0.6, 0.4, 0.2, 0.2]),
        (
            {"lr_scheduler_type": "linear", "warmup_steps": 2, "min_lr_ratio": 0.5},
            [1 / 3, 2 / 3, 1, 0.75, 0.5],
        ),
        ({"lr_scheduler_type": "cosine"}, [1, 0.853553, 0.5, 0.146447, 0]),
        ({"lr_scheduler_type": "cosine", "min_lr_ratio": 0.1}, [1, 0.868198, 0.55, 0.231802, 0.1]),
        ({"warmup_steps": None, "warmup_steps_proportion": 0.5}, [1 / 3, 2 / 3, 1, 1]),
        ({"warmup_steps": 99, "lr_scheduler_type": "linear"}, [0.01, 0.02]),
    ],
)
def test_the_course_of_the_learning_rate(fields: dict[str, Any], expected: list[float]) -> None:
    factor = lr_factor(config(**fields), total_steps=4)
    found = [factor(step) for step in range(len(expected))]
    assert found == pytest.approx(expected, abs=1e-6)


def test_matrices_are_decayed_and_vectors_are_not() -> None:
    model = tiny_model("qwen2")
    optimizer = make_optimizer(model.parameters(), config(weight_decay=0.3))
    decays = {id(p): g["weight_decay"] for g in optimizer.param_groups for p in g["params"]}
    assert len(decays) == len(list(model.parameters()))
    for name, parameter in model.named_parameters():
        is_vector = "norm" in name or name.endswith("bias")
        assert decays[id(parameter)] == (0.0 if is_vector else 0.3), name


def test_frozen_parameters_are_left_out() -> None:
    model = nn.Linear(3, 3)
    model.weight.requires_grad_(False)
    optimizer = make_optimizer(model.parameters(), config())
    assert [p for g in optimizer.param_groups for p in g["params"]] == [model.bias]


@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_a_step_is_that_of_the_named_optimiser(kind: str) -> None:
    parameters = [nn.Parameter(torch.tensor([[1.0, -2.0]])) for _ in range(2)]
    settings = {"lr": 0.1, "weight_decay": 0.5, "beta1": 0.8, "beta2": 0.9, "eps": 1e-3}
    made = make_optimizer([parameters[0]], config(type=kind, **settings))
    known = (
        torch.optim.AdamW([parameters[1]], 0.1, (0.8, 0.9), 1e-3, 0.5)
        if kind == "adam"
        else torch.optim.SGD([parameters[1]], 0.1, weight_decay=0.5)
    )
    for step in range(3):
        for parameter, optimizer in zip(parameters, (made, known), strict=True):
            parameter.grad = torch.tensor([[0.3 + step, -1.0]])
            optimizer.step()
    torch.testing.assert_close(parameters[0], parameters[1])


def test_an_optimiser_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match="adam_bf16"):
        make_optimizer([nn.Parameter(torch.zeros(1))], config(type="adam_bf16"))


def test_the_schedule_moves_the_rate_of_every_group() -> None:
    optimizer = make_optimizer(
        nn.Linear(2, 2).parameters(), config(lr=0.4, lr_scheduler_type="linear")
    )
    schedule = make_schedule(optimizer, config(lr=0.4, lr_scheduler_type="linear"), 4)
    rates = []
    for _ in range(4):
        rates.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        schedule.step()
    assert rates == [pytest.approx([0.4 * f] * 2) for f in (1, 0.75, 0.5, 0.25)]
