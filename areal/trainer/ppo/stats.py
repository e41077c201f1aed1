"""What there is to report about a batch of rollouts, and about the tokens that it is trained on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from areal.trainer.groups import groups_with_variance
from areal.utils.data import TensorDict

# Returns the lists of all processes with other rows in the one that reports, None in the others.
Gather = Callable[[list[Any]], list[list[Any]] | None]


@torch.no_grad()
def batch_statistics(
    batch: TensorDict,
    group_sizes: Sequence[int] | None = None,
    current_version: int | None = None,
) -> dict[str, float]:
    """Summarise a batch that ``compute_advantages`` returned, at the price of one transfer.

    Args:
        batch: With rewards, masks and advantages.
        group_sizes: Rows of each group, in order; None counts no groups.
        current_version: Version of the weights before the update; None measures no staleness.

    Returns:
        ``n_seqs``, ``n_gen_tokens``; ``reward`` and its ``_std``, ``_min``, ``_max`` (as rewarded,
        before shaping); ``prompt_len``, ``gen_len``, ``gen_len_max`` in tokens;
        ``truncated_ratio``; ``advantage_abs`` and ``kl_reward`` per sampled token; with groups
        ``n_groups`` and ``flat_group_ratio`` (no variance in reward); with a version ``staleness``
        and ``staleness_max`` in versions.
    """
    mask, rewards = batch["loss_mask"], batch["rewards"].float()
    num_tokens = mask.sum().clamp(min=1)
    gen_lens = mask.sum(1).float()
    prompt_lens = torch.where(mask.any(1), mask.int().argmax(1) + 1, batch["attention_mask"].sum(1))
    stats = {
        "n_seqs": torch.tensor(len(rewards)),
        "n_gen_tokens": mask.sum(),
        "reward": rewards.mean(),
        "reward_std": rewards.std(correction=0),
        "reward_min": rewards.amin(),
        "reward_max": rewards.amax(),
        "prompt_len": prompt_lens.float().mean(),
        "gen_len": gen_lens.mean(),
        "gen_len_max": gen_lens.amax(),
        "truncated_ratio": batch["seq_no_eos_mask"].float().mean(),
        "advantage_abs": (batch["advantages"].abs() * mask).sum() / num_tokens,
        "kl_reward": (batch["kl_rewards"] * mask).sum() / num_tokens,
    }
    if group_sizes is not None:
        stats["n_groups"] = torch.tensor(len(group_sizes))
        stats["flat_group_ratio"] = 1 - groups_with_variance(rewards, group_sizes).float().mean()
    if current_version is not None and "versions" in batch:
        versions = batch["versions"]
        is_sampled = (versions >= 0) & batch["attention_mask"].bool()  # padding is version 0
        staleness = torch.where(is_sampled, current_version - versions, 0).float()
        stats["staleness"] = staleness.sum() / is_sampled.sum().clamp(min=1)
        stats["staleness_max"] = staleness.amax()
    return as_floats(stats)


def as_floats(stats: Mapping[str, Any]) -> dict[str, float]:
    """Return statistics, some of them 0-dim tensors of one device, at the price of one transfer."""
    device = next((v.device for v in stats.values() if torch.is_tensor(v)), None)
    table = [torch.as_tensor(v, dtype=torch.float64, device=device) for v in stats.values()]
    return dict(zip(stats, torch.stack(table).tolist() if table else (), strict=True))


def update_statistics(steps: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Summarise what ``train_batch`` returned for the minibatches of one update."""
    return {
        "lr": steps[-1]["lr"],
        "grad_norm": max(step["grad_norm"] for step in steps),
        "skipped_updates": sum(1.0 - step["update_successful"] for step in steps),
    }


class TokenStatistics:
    """Adds up what a loss notes about the tokens of its micro-batches.

    Args:
        with_maximum: Names of which the largest value is reported too.
    """

    def __init__(self, with_maximum: Sequence[str] = ()) -> None:
        self._with_maximum = with_maximum
        self._noted: list[_Sums] = []

    def note(
        self,
        loss: torch.Tensor,
        weight: torch.Tensor,
        stats: Mapping[str, torch.Tensor],
        loss_mask: torch.Tensor,
    ) -> None:
        """Note a micro-batch.

        Args:
            loss: 0-dim, a mean over what ``weight`` counts.
            weight: How much the micro-batch counts.
            stats: One value a token, [T], or one for all, 0-dim; every call has the same names.
            loss_mask: Which tokens count, [T].
        """
        mask = loss_mask.bool()
        values = (value.detach().float().broadcast_to(mask.shape) for value in stats.values())
        table = torch.stack(list(values))
        table = torch.where(mask, table, 0.0).flatten(1)
        names = tuple(stats)
        rows = [names.index(name) for name in self._with_maximum]
        maxima = table[rows].amax(1) if mask.numel() else table.new_zeros(len(rows))
        num_tokens = torch.tensor(mask.numel(), device=mask.device)
        sums = _Sums(names, table.sum(1), maxima, num_tokens, mask.sum(), loss.detach(), weight)
        self._noted.append(sums)

    def pop(self, gather: Gather | None = None, keep: bool = False) -> dict[str, torch.Tensor]:
        """Return the statistics of what was noted since the last call, as 0-dim tensors.

        Args:
            gather: Collects what all processes noted; None reports what this one did.
            keep: Whether what was noted counts in the next call, too.

        Returns:
            The mean of each name over the tokens that count, ``*_max`` the largest, ``mean_loss``
            of the whole, ``n_valid_tokens`` that count and ``n_tokens`` of all; {} where nothing
            was noted.
        """
        noted = self._noted
        if not keep:
            self._noted = []
        if gather is not None:
            noted = [each for part in gather(noted) or () for each in part]
        if not noted:
            return {}
        num_valid = torch.stack([each.num_valid for each in noted]).sum()
        means = torch.stack([each.sums for each in noted]).sum(0) / num_valid.clamp(min=1)
        maxima = torch.stack([each.maxima for each in noted]).amax(0)
        weights = torch.stack([each.weight for each in noted])
        losses = torch.stack([each.loss for each in noted])
        stats = dict(zip(noted[0].names, means.unbind(), strict=True))
        largest = zip(self._with_maximum, maxima.unbind(), strict=True)
        stats |= {f"{name}_max": value for name, value in largest}
        stats["mean_loss"] = (losses * weights).sum() / weights.sum().clamp(min=1)
        stats["n_valid_tokens"] = num_valid
        stats["n_tokens"] = torch.stack([each.num_tokens for each in noted]).sum()
        return stats


@dataclass(frozen=True)
class _Sums:
    """Sums of one micro-batch, still on its device: reporting must not wait for the accelerator."""

    names: tuple[str, ...]
    sums: torch.Tensor
    maxima: torch.Tensor
    num_tokens: torch.Tensor
    num_valid: torch.Tensor
    loss: torch.Tensor
    weight: torch.Tensor

    def cpu(self) -> _Sums:
        """Return a copy in host memory, as it goes to another process."""
        moved = {name: value.cpu() for name, value in vars(self).items() if torch.is_tensor(value)}
        return replace(self, **moved)
