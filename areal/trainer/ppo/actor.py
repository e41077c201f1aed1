"""The policy under optimisation: log-probabilities, advantages and updates of one train engine."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from torch import Tensor

from areal.api.cli_args import PPOActorConfig, RunConfig
from areal.engine.training.engine import PackedTrainEngine
from areal.trainer.advantages import compute_advantages
from areal.trainer.ppo.minibatches import own_minibatches
from areal.trainer.ppo.outputs import next_token_outputs
from areal.trainer.ppo.policy_loss import build_policy_loss
from areal.trainer.ppo.stats import Gather, as_floats, update_statistics
from areal.utils import stats_tracker
from areal.utils.data import TensorDict, TrajBatchMeta, batched_call, concat_padded_tensors

# What compares trainer and rollout engine, which have the same weights before the first update.
_DRIFT = ("logp_abs_diff", "logp_abs_diff_max")


class PPOActor:
    """Optimises the policy of an engine as configured.

    Data are lists of trajectories, one for each prompt, with their group of samples inside. Each
    process passes its own.

    Args:
        config: How rewards, advantages and the loss are made.
        engine: Trains the policy.
        run: Aggregation of the loss, and where the KL penalty goes; None takes the defaults.
        max_new_tokens: Longest answer in tokens; None takes ``config``'s.
        eos_token_ids: Tokens that end an answer; None takes a longest answer for one cut off.
    """

    def __init__(
        self,
        config: PPOActorConfig,
        engine: PackedTrainEngine,
        run: RunConfig | None = None,
        max_new_tokens: int | None = None,
        eos_token_ids: Collection[int] | None = None,
    ) -> None:
        self.config = config
        self.engine = engine
        self._run = run or RunConfig()
        self._loss_fn, self._loss_weight_fn = build_policy_loss(config, self._run, max_new_tokens)
        self._eos_token_ids = eos_token_ids

    def compute_logp(self, data: list[TensorDict]) -> list[Tensor]:
        """Return the next-token log-probabilities [b, L] of each trajectory."""
        found: list[Tensor] = batched_call(
            lambda batch: next_token_outputs(self.engine, batch), data
        )
        return found

    def compute_advantages(self, data: list[TensorDict]) -> list[TensorDict]:
        """Return the trajectories with what ``ppo_update`` reads, aligned to the next token."""
        found: list[TensorDict] = batched_call(self.with_advantages, data, pass_meta=True)
        return found

    def with_advantages(self, batch: TensorDict, meta: TrajBatchMeta | None = None) -> TensorDict:
        """Do for a batch what ``compute_advantages`` does; ``meta`` has the sizes of its groups."""
        return compute_advantages(
            batch,
            self.config,
            group_sizes=None if meta is None else meta.traj_group_sizes,
            current_version=self.engine.get_version(),
            eos_token_ids=self._eos_token_ids,
            kl_in_reward=self._run.kl_placement == "reward",
        )

    def ppo_update(self, data: list[TensorDict]) -> None:
        """Take an optimiser step for each of ``ppo_n_minibatches``, and record its statistics.

        They are in ``stats_tracker``, as ``ppo_actor/*``. The learning rate's schedule stays.
        """
        batch = concat_padded_tensors(data)
        rows = own_minibatches(self.engine, batch, self.config.ppo_n_minibatches)
        stats_tracker.scalar(**{f"ppo_actor/{k}": v for k, v in self.update(rows).items()})

    def update(
        self, minibatches: Iterable[TensorDict], gather: Gather | None = None
    ) -> dict[str, float]:
        """Take an optimiser step for each minibatch and return the statistics of all.

        Args:
            minibatches: This process's rows of each.
            gather: Collects what all processes noted; None reports what this one did.

        Returns:
            Those of the loss and of the optimiser; {} without a minibatch.
        """
        self.engine.train()
        steps: list[dict[str, float]] = []
        drift: dict[str, Tensor] = {}
        for rows in minibatches:
            if len(steps) == 1:
                drift = self._loss_fn.pop_stats(gather, keep=True)
            steps.append(self.engine.train_batch(rows, self._loss_fn, self._loss_weight_fn))
        if not steps:
            return {}
        stats: dict[str, Any] = self._loss_fn.pop_stats(gather)
        stats |= {name: drift[name] for name in _DRIFT if name in drift}
        return as_floats(stats | update_statistics(steps))


def grpo_loss_fn(
    logprobs: Tensor, entropy: Tensor | None, input_data: TensorDict, **settings: Any
) -> Tensor:
    """Return the policy loss of a packed micro-batch, the mean over its tokens.

    Args:
        logprobs: Of the next tokens, with gradient, [T].
        entropy: Of the next-token distributions, or None; not part of the loss.
        input_data: The micro-batch, as ``PPOActor.compute_advantages`` prepares it.
        settings: Fields of ``PPOActorConfig``, such as ``eps_clip`` and ``c_clip``.

    Raises:
        ValueError: A setting is impossible, or the micro-batch lacks what the settings need.
    """
    loss_fn, _ = build_policy_loss(PPOActorConfig(**settings), RunConfig())
    return loss_fn(logprobs, entropy, input_data)
