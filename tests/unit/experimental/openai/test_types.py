"""An interaction's tensors: exact values, dtypes and shapes."""

from __future__ import annotations

import pytest
import torch

from areal.api.io_struct import ModelResponse
from areal.experimental.openai.types import InteractionWithTokenLogpReward
from areal.infra.trajectory import check_trajectory, is_interactions

FIRST = ModelResponse(
    input_tokens=[5, 6],
    output_tokens=[7, 1],
    output_logprobs=[-0.25, -0.5],
    output_versions=[3, 3],
)
# Goes on with the first: its four tokens, one that was given, and an answer.
SECOND = ModelResponse(
    input_tokens=[5, 6, 7, 1, 8],
    output_tokens=[9],
    output_logprobs=[-0.75],
    output_versions=[4],
)


def made(kind: str) -> InteractionWithTokenLogpReward:
    parent = InteractionWithTokenLogpReward(FIRST, chat_template_type=kind)
    return InteractionWithTokenLogpReward(SECOND, 0.5, parent=parent, chat_template_type=kind)


@pytest.mark.parametrize(
    ("kind", "mask", "logprobs", "versions", "turns"),
    [
        (
            "hf",
            [0, 0, 0, 0, 0, 1],
            [0.0, 0.0, 0.0, 0.0, 0.0, -0.75],
            [-1, -1, -1, -1, -1, 4],
            [-1, -1, -1, -1, -1, 0],
        ),
        (
            "concat",
            [0, 0, 1, 1, 0, 1],
            [0.0, 0.0, -0.25, -0.5, 0.0, -0.75],
            [-1, -1, 3, 3, -1, 4],
            [-1, -1, 0, 0, -1, 1],
        ),
    ],
)
def test_tensors(
    kind: str, mask: list[int], logprobs: list[float], versions: list[int], turns: list[int]
) -> None:
    tensors = made(kind).to_tensor_dict()
    expected = {
        "input_ids": torch.tensor([[5, 6, 7, 1, 8, 9]]),
        "loss_mask": torch.tensor([mask]),
        "logprobs": torch.tensor([logprobs]),
        "versions": torch.tensor([versions]),
        "turn_ids": torch.tensor([turns], dtype=torch.int32),
        "attention_mask": torch.ones(1, 6, dtype=torch.bool),
        "rewards": torch.tensor([0.5]),
        "original_rewards": torch.tensor([0.5]),
    }
    assert tensors.keys() == expected.keys()
    for key, value in expected.items():
        assert tensors[key].dtype == value.dtype, key
        assert torch.equal(tensors[key], value), key
    check_trajectory(tensors, "test")


def test_rewards_that_are_missing_or_were_normalised() -> None:
    one = made("hf")
    one.reward, one.original_reward = -1.0, 0.25
    assert one.to_tensor_dict()["rewards"].tolist() == [-1.0]
    assert one.to_tensor_dict()["original_rewards"].tolist() == [0.25]
    one.reward = one.original_reward = None
    assert one.to_tensor_dict()["rewards"].tolist() == [0.0]


def test_the_executor_recognises_it() -> None:
    assert is_interactions({"a": made("hf")})
    assert not InteractionWithTokenLogpReward().has_tensor_data
    with pytest.raises(ValueError, match="without an answer"):
        InteractionWithTokenLogpReward().to_tensor_dict()
