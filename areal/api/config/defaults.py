"""Every default that differs from AReaL's, in one table.

AReaL's defaults are made for a cluster; these make a laptop run with no further words. An explicit
value in a YAML file always wins, so a YAML file written for AReaL means the same here.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Difference(NamedTuple):
    """One default that is not AReaL's."""

    areal: Any
    ours: Any
    reason: str


DIFFERENT_DEFAULTS: dict[str, Difference] = {
    "actor.attn_impl": Difference("flash_attention_2", "auto", "by device: sdpa on a CPU"),
    "actor.backend": Difference("???", "fsdp:d1", "one process"),
    "actor.dtype": Difference("bfloat16", "auto", "by device: float32 on a CPU"),
    "cluster.n_gpus_per_node": Difference(8, 1, "one machine"),
    "cluster.n_nodes": Difference(32, 1, "one machine"),
    "critic.is_critic": Difference(False, True, "a critic gives values and no log-probabilities"),
    "recover.mode": Difference("disabled", "auto", "a killed run continues where it was"),
    "rollout.backend": Difference("???", "local:d1", "the embedded engine"),
    "scheduler.type": Difference(None, "local", "one machine"),
    "stats_logger.tensorboard.path": Difference(None, "auto", "below the run's log folder"),
}


def ours(key: str) -> Any:
    """Return the default of a key of the table."""
    return DIFFERENT_DEFAULTS[key].ours
