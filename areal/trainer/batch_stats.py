"""What there is to say about a batch of rollouts before it is trained on."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from areal.trainer.groups import groups_with_variance
from areal.utils.data import TensorDict


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
    table = torch.stack([v.to(mask.device, torch.float64) for v in stats.values()])
    return dict(zip(stats, table.tolist(), strict=True))
