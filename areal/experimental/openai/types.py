"""One request to the model and its answer, with the tokens that training needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from areal.api.io_struct import ModelResponse

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion
    from openai.types.responses import Response


@dataclass(eq=False)
class InteractionWithTokenLogpReward:
    """A request, its answer, the tokens of both and the reward that it earned.

    Attributes:
        model_response: Tokens, log-probabilities and versions; None before there is an answer.
        reward: None where nobody has given one.
        original_reward: The reward before a group's rewards were normalised.
        parent: The interaction whose conversation this one goes on with.
        chat_template_type: "hf": the prompt is the whole conversation, rendered again. "concat": it
            is the parent's tokens with what came since behind them.
        messages: The conversation that the model was given.
        output_message_list: What the model said.
        completion: The answer, where chat completions were asked.
        response: The answer, where the Responses API was asked.
        input_data: The ``input`` of a Responses request.
    """

    model_response: ModelResponse | None = None
    reward: float | None = None
    original_reward: float | None = None
    parent: InteractionWithTokenLogpReward | None = field(default=None, repr=False)
    chat_template_type: str = "hf"
    messages: list[dict[str, Any]] = field(default_factory=list)
    output_message_list: list[dict[str, Any]] | None = None
    completion: ChatCompletion | None = None
    response: Response | None = None
    input_data: Any = None
    _id: str | None = field(default=None, repr=False)

    @property
    def interaction_id(self) -> str | None:
        """The id of the completion or the response."""
        answer = self.completion or self.response
        return answer.id if answer is not None else self._id

    @property
    def has_tensor_data(self) -> bool:
        """True once the model has answered."""
        return self.model_response is not None

    def to_tensor_dict(self) -> dict[str, torch.Tensor]:
        """Return the interaction as a trajectory of one row; L is prompt plus answer.

        With "hf" only the answer is trained on, as turn 0. With "concat" the answers of all parents
        are too, each as the turn that it was.

        Returns:
            ``input_ids``, ``loss_mask``, ``versions`` int64 [1, L]; ``turn_ids`` int32 [1, L];
            ``logprobs`` float32 [1, L]; ``attention_mask`` bool [1, L]; ``rewards`` and
            ``original_rewards`` float32 [1], 0 where there is none. On tokens that were given, the
            loss mask and the log-probability are 0, version and turn -1.

        Raises:
            ValueError: The model has not answered.
        """
        if self.model_response is None:
            raise ValueError("an interaction without an answer has no tensors")
        tokens = self.model_response.input_tokens + self.model_response.output_tokens
        loss_mask = np.zeros((1, len(tokens)), np.int64)
        logprobs = np.zeros((1, len(tokens)), np.float32)
        versions = np.full((1, len(tokens)), -1, np.int64)
        turn_ids = np.full((1, len(tokens)), -1, np.int32)
        for turn, answer in enumerate(self._answers()):
            span = slice(answer.input_len, answer.input_len + answer.output_len)
            loss_mask[0, span] = 1
            logprobs[0, span] = answer.output_logprobs
            versions[0, span] = answer.output_versions
            turn_ids[0, span] = turn
        reward = 0.0 if self.reward is None else self.reward
        original = reward if self.original_reward is None else self.original_reward
        return {
            "input_ids": torch.tensor([tokens], dtype=torch.int64),
            "loss_mask": torch.from_numpy(loss_mask),
            "logprobs": torch.from_numpy(logprobs),
            "versions": torch.from_numpy(versions),
            "turn_ids": torch.from_numpy(turn_ids),
            "attention_mask": torch.ones((1, len(tokens)), dtype=torch.bool),
            "rewards": torch.tensor([reward], dtype=torch.float32),
            "original_rewards": torch.tensor([original], dtype=torch.float32),
        }

    def _answers(self) -> list[ModelResponse]:
        """Return the answers in this interaction's tokens, the oldest first."""
        answers: list[ModelResponse] = []
        node: InteractionWithTokenLogpReward | None = self
        while node is not None and node.model_response is not None:
            answers.append(node.model_response)
            node = node.parent if node.chat_template_type == "concat" else None
        return answers[::-1]
