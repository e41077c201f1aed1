from __future__ import annotations

import pytest

from areal.api.cli_args import OptimizerConfig
from areal.utils.lr_scheduler import get_num_warmup_steps


@pytest.mark.parametrize(
    ("steps", "proportion", "total", "expected"),
    [
        (None, 0.1, 100, 10),
        (None, 0.1, 99, 9),
        (None, 0.001, 100, 0),
        (None, 1.0, 7, 7),
        (None, 0.0, 7, 0),
        (5, 0.001, 100, 5),
        (0, 0.001, 100, 0),
        (200, 0.001, 100, 200),
        (None, 0.5, 0, 0),
    ],
)
def test_warmup(steps: int | None, proportion: float, total: int, expected: int) -> None:
    config = OptimizerConfig(warmup_steps=steps, warmup_steps_proportion=proportion)
    assert get_num_warmup_steps(config, total) == expected


@pytest.mark.parametrize("steps", [0, 5])
def test_steps_win_over_a_proportion_with_a_warning(steps: int) -> None:
    config = OptimizerConfig(warmup_steps=steps, warmup_steps_proportion=0.1)
    with pytest.warns(UserWarning, match=f"warmup_steps={steps} counts"):
        assert get_num_warmup_steps(config, 100) == steps


@pytest.mark.parametrize(
    ("steps", "proportion", "total", "message"),
    [
        (-1, 0.1, 100, "warmup_steps must not be negative, found -1"),
        (5, -0.1, 100, "warmup_steps_proportion must not be negative, found -0.1"),
        (None, -0.1, 100, "warmup_steps_proportion must not be negative, found -0.1"),
        (None, 0.1, -1, "total_train_steps must not be negative, found -1"),
    ],
)
def test_negatives(steps: int | None, proportion: float, total: int, message: str) -> None:
    config = OptimizerConfig(warmup_steps=steps, warmup_steps_proportion=proportion)
    with pytest.raises(ValueError, match=message):
        get_num_warmup_steps(config, total)
