"""The block `run:`, which AReaL does not have: what its users write in a train.py."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from areal.api.config.check import above, at_least, fail, one_of
from areal.api.config.presets import check_algorithm

LOSS_AGGREGATIONS = (
    "token_mean",
    "sequence_mean",
    "sequence_mean_token_sum",
    "sequence_mean_token_sum_norm",
)


@dataclass
class VisionSpecConfig:
    """Describes what a small model sees with: patches of an image, and squares of them as tokens.

    Args:
        patch_size: Side of a patch, in pixels.
        merge_size: Side of the square of patches that becomes one token, in patches.
        max_pixels: Larger images are shrunk to this area.
    """

    hidden_size: int = 64
    num_hidden_layers: int = 2
    num_attention_heads: int = 4
    patch_size: int = 8
    merge_size: int = 2
    max_pixels: int = 4096

    def __post_init__(self) -> None:
        at_least(self, 1, "num_hidden_layers", "num_attention_heads", "patch_size", "merge_size")
        at_least(self, (self.patch_size * self.merge_size) ** 2, "max_pixels")
        # The angles of rows and of columns each take half of a head, in pairs.
        if self.hidden_size % (4 * self.num_attention_heads):
            rule = f"be a multiple of 4 * num_attention_heads={4 * self.num_attention_heads}"
            fail(self, "hidden_size", rule, self.hidden_size)


@dataclass
class ModelSpecConfig:
    """Describes a small model, and a tokenizer of single characters, that are made from scratch.

    Args:
        characters: The vocabulary of the tokenizer; "" takes the characters of ``train_dataset``
            and ``valid_dataset``. A text with any other character is refused.
        vision: For architectures that see, such as "qwen2_vl"; null for others.
    """

    architecture: str = "qwen3"
    hidden_size: int = 128
    intermediate_size: int = 256
    num_hidden_layers: int = 4
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 32
    max_position_embeddings: int = 512
    tie_word_embeddings: bool = True
    characters: str = ""
    seed: int = 1
    vision: VisionSpecConfig | None = None

    def __post_init__(self) -> None:
        at_least(self, 1, "hidden_size", "intermediate_size", "num_hidden_layers", "head_dim")
        at_least(self, 1, "num_attention_heads", "num_key_value_heads", "max_position_embeddings")
        if self.num_attention_heads % self.num_key_value_heads:
            rule = f"divide num_attention_heads={self.num_attention_heads}"
            fail(self, "num_key_value_heads", rule, self.num_key_value_heads)
        if len(set(self.characters)) != len(self.characters):
            fail(self, "characters", "hold each character once", self.characters)


@dataclass
class RunConfig:
    """What `areal train` runs.

    Args:
        algorithm: A row of ``areal.api.config.presets``; "" presets nothing.
        workflow: A registered name or an import path.
        workflow_kwargs: For the workflow's constructor, beside reward function, sampling and
            tokenizer, which the trainer fills in where the constructor takes them.
        eval_workflow: The same for evaluation; null is ``workflow``.
        eval_workflow_kwargs: Null is ``workflow_kwargs``.
        reward_fn: A registered name or an import path.
        dynamic_filter: Import path of a function from trajectory to bool; False rejects it.
        model: Null takes ``actor.path``.
        agent_host: Where the proxy of agents listens. An address that other machines reach needs a
            ``rollout.agent.admin_api_key`` of one's own.
        loss_aggregation: How the losses of tokens become one number. "token_mean": their mean over
            the batch. "sequence_mean": the mean over sequences of the mean over their tokens.
            "sequence_mean_token_sum": the mean over sequences of the sum over their tokens.
            "sequence_mean_token_sum_norm": that, divided by ``loss_norm_length``.
        loss_norm_length: In tokens; null is ``gconfig.max_new_tokens``.
        kl_placement: Where the penalty of weight ``actor.kl_ctl`` goes: into the "reward" of each
            token, or as a term into the "loss" as in GRPO's paper. It needs ``ref``.
        max_token_age: How many versions the oldest token of a row may be behind the weights that
            train on it; older rows are made again and counted as ``rollout/too_old``. Null allows
            any age: ``rollout.max_head_offpolicyness`` bounds when a row may start, not how long it
            takes.
        stop_at_reward: Ends the run once the mean reward of the last ten steps exceeds it; null
            never does.
        stop_at_accuracy: The same for pairs (types rw and dpo), of whose accuracy it is a bound.
    """

    algorithm: str = ""
    workflow: str = "rlvr"
    workflow_kwargs: dict[str, Any] = field(default_factory=dict)
    eval_workflow: str | None = None
    eval_workflow_kwargs: dict[str, Any] | None = None
    reward_fn: str = ""
    dynamic_filter: str | None = None
    model: ModelSpecConfig | None = None
    agent_host: str = "127.0.0.1"
    loss_aggregation: str = "token_mean"
    loss_norm_length: int | None = None
    kl_placement: str = "reward"
    max_token_age: int | None = None
    stop_at_reward: float | None = None
    stop_at_accuracy: float | None = None

    def __post_init__(self) -> None:
        check_algorithm(self.algorithm)
        one_of(self, "loss_aggregation", LOSS_AGGREGATIONS)
        one_of(self, "kl_placement", ("reward", "loss"))
        above(self, 0, "loss_norm_length")
        at_least(self, 0, "max_token_age")
        if self.stop_at_reward is not None and not math.isfinite(self.stop_at_reward):
            fail(self, "stop_at_reward", "be a finite number", self.stop_at_reward)
        bound = self.stop_at_accuracy
        if bound is not None and not 0 <= bound < 1:
            # No mean exceeds 1; written so that NaN fails too.
            fail(self, "stop_at_accuracy", "be at least 0 and below 1", bound)
