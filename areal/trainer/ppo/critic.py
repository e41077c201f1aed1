"""The value model beside a policy: values of rollouts, and updates of one train engine."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from areal.api.cli_args import PPOCriticConfig
from areal.api.errors import ConfigError
from areal.engine.training.engine import PackedTrainEngine
from areal.trainer.ppo.minibatches import own_minibatches
from areal.trainer.ppo.outputs import next_token_outputs
from areal.trainer.ppo.stats import Gather, TokenStatistics, as_floats
from areal.utils import stats_tracker
from areal.utils.data import TensorDict, batched_call, concat_padded_tensors
from areal.utils.functional import ppo_critic_loss_fn


class PPOCritic:
    """Optimises the value model of an engine towards the returns of rollouts.

    Data are lists of trajectories, one for each prompt, with their group of samples inside. Each
    process passes its own.

    Args:
        config: How it is optimised.
        engine: Trains it; its configuration has ``is_critic``.

    Raises:
        ConfigError: The engine has no values, or they depend on later tokens.
    """

    def __init__(self, config: PPOCriticConfig, engine: PackedTrainEngine) -> None:
        if not engine.config.is_critic:
            raise ConfigError(
                "critic.is_critic is false: the engine has log-probabilities and no values; set it "
                "to true"
            )
        if not engine.lm.is_causal:
            raise ConfigError(
                "critic.path names an encoder, whose score of a token depends on those behind it: "
                "a value must not know the answer; name a decoder"
            )
        self.config = config
        self.engine = engine
        self._statistics = TokenStatistics()

    def compute_values(self, data: list[TensorDict]) -> list[Tensor]:
        """Return the values [b, L] of each trajectory, aligned to the next token.

        Entry t is what is expected of the state in which token t + 1 is sampled, 0.0 where none is.
        """

        def values(batch: TensorDict) -> Tensor:
            return next_token_outputs(self.engine, batch)

        found: list[Tensor] = batched_call(values, data)
        return found

    def ppo_update(self, data: list[TensorDict]) -> None:
        """Take an optimiser step for each of ``ppo_n_minibatches``, and record its statistics.

        They are in ``stats_tracker``, as ``ppo_critic/*``. The learning rate's schedule stays.

        Args:
            data: With ``values`` and ``returns``, and ``loss_mask`` aligned to the next token, as
                ``PPOActor.compute_advantages`` returns them.
        """
        batch = concat_padded_tensors(data)
        rows = own_minibatches(self.engine, batch, self.config.ppo_n_minibatches)
        stats_tracker.scalar(**self.update(rows))

    def update(
        self, minibatches: Iterable[TensorDict], gather: Gather | None = None
    ) -> dict[str, float]:
        """Take an optimiser step for each minibatch and return the statistics of all.

        Args:
            minibatches: This process's rows of each.
            gather: Collects what all processes noted; None reports what this one did.

        Returns:
            Those of the loss and of the optimiser, as ``ppo_critic/*``; {} without a minibatch.
        """
        self.engine.train()
        steps = [
            self.engine.train_batch(rows, self._loss, _num_valid_tokens) for rows in minibatches
        ]
        if not steps:
            return {}
        stats = self._statistics.pop(gather)
        if stats:
            stats["critic_loss"] = stats.pop("mean_loss")
            stats["eps_clip"] = torch.tensor(self.config.eps_clip)
            stats["clipped_tokens"] = stats["clip_ratio"] * stats["n_valid_tokens"]
            for name in ("clipped_new_value", "clipped_old_value"):
                # So far these are means over all tokens.
                num_clipped = stats["clipped_tokens"].clamp(min=1)
                stats[name] = stats[name] * stats["n_valid_tokens"] / num_clipped
        found = as_floats(stats) | {
            "lr": steps[-1]["lr"],
            "grad_norm": max(step["grad_norm"] for step in steps),
            "update_successful": min(step["update_successful"] for step in steps),
        }
        return {f"ppo_critic/{name}": value for name, value in found.items()}

    def _loss(self, values: Tensor, input_data: TensorDict) -> Tensor:
        """Return the value loss of a packed micro-batch, the mean over its tokens."""
        old, target, mask = (input_data[name] for name in ("values", "returns", "loss_mask"))
        loss, stats = ppo_critic_loss_fn(values, old, target, self.config.eps_clip, mask)
        is_clipped = stats["clip_mask"]
        noted = {
            "new_value": values,
            "old_value": old,
            "target_value": target,
            "clip_ratio": is_clipped,
            "clipped_new_value": values * is_clipped,
            "clipped_old_value": old * is_clipped,
        }
        self._statistics.note(loss, _num_valid_tokens(input_data), noted, mask)
        return loss


def _num_valid_tokens(input_data: TensorDict) -> Tensor:
    return input_data["loss_mask"].sum()
