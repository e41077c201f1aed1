"""AReaL's place for ``GroupedRolloutWorkflow``."""

from areal.infra.grouped_rollout import GroupedRolloutWorkflow

__all__ = ["GroupedRolloutWorkflow"]
