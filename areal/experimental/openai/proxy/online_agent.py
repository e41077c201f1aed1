"""What takes an agent's place where an outside program is the agent."""

from __future__ import annotations

from typing import Any


class _OnlineAgent:
    """The default of ``rollout.agent.agent_cls_path``; online mode has no agent to run."""

    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> float:
        """Raise RuntimeError: the outside program runs itself."""
        raise RuntimeError(
            "in online mode an outside program drives the sessions; with "
            "rollout.agent.mode=inline name an agent in run.workflow"
        )
