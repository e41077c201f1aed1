"""An episode's tokens as one sequence, or as one for each completion."""

from __future__ import annotations

import asyncio

import pytest

from areal.api.cli_args import GenerationHyperparameters
from areal.api.io_struct import ModelResponse
from areal.testing import ScriptedEngine, check_trajectory, check_turns, make_tokenizer
from areal.workflow.trajectory import Trajectory, next_turn_ids


def episode(*replies: str | None) -> tuple[ScriptedEngine, Trajectory]:
    tokenizer = make_tokenizer()
    engine, trajectory = ScriptedEngine(tokenizer, *replies), Trajectory()
    trajectory.add_prompt(tokenizer.encode("2+3?"))
    for _ in replies:
        asyncio.run(trajectory.generate(engine, GenerationHyperparameters(), tokenizer))
        reply = {"role": "user", "content": "Check it."}
        trajectory.add_prompt(next_turn_ids(tokenizer, [reply], trajectory.input_ids[-1]))
    return engine, trajectory


@pytest.mark.parametrize(
    "replies", [("6", "it is 5"), ("5",), (None, "5"), ("a long try", "", "5")]
)
def test_each_completion_has_a_sequence_and_a_reward_of_its_own(
    replies: tuple[str | None, ...],
) -> None:
    engine, trajectory = episode(*replies)
    rewards = [0.25 * turn for turn in range(len(replies))]
    tensors = trajectory.to_tensors_per_turn(rewards)
    check_turns(engine, tensors)
    assert tensors["rewards"].tolist() == rewards
    assert {key: value.dtype for key, value in tensors.items()} == {
        key: value.dtype for key, value in trajectory.to_tensors(0.0).items()
    }


def test_rewards_are_as_many_as_completions() -> None:
    _, trajectory = episode("6", "5")
    for rewards in ([1.0], [1.0, 0.0, 0.0]):
        with pytest.raises(ValueError, match="zip"):
            trajectory.to_tensors_per_turn(rewards)


@pytest.mark.parametrize(("num_logprobs", "num_versions"), [(1, 3), (3, 1), (2, 3), (0, 3)])
def test_a_completion_has_a_logprob_and_a_version_for_each_token(
    num_logprobs: int, num_versions: int
) -> None:
    response = ModelResponse(
        output_tokens=[5, 6, 7],
        output_logprobs=[-0.5] * num_logprobs,
        output_versions=[0] * num_versions,
    )
    counts = f"3 tokens with {num_logprobs} log-probabilities and {num_versions} versions"
    with pytest.raises(ValueError, match=counts):
        Trajectory().add_response(response, turn=0)


def test_the_checks_tell_one_sequence_from_several() -> None:
    engine, trajectory = episode("6", "5")
    several = trajectory.to_tensors_per_turn([0.0, 1.0])
    with pytest.raises(AssertionError):
        check_turns(engine, trajectory.to_tensors(1.0))
    with pytest.raises(AssertionError):
        check_trajectory(engine, several)
    several["loss_mask"][1] = several["loss_mask"][0]
    with pytest.raises(AssertionError, match="loss_mask"):
        check_turns(engine, several)
