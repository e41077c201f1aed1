"""Run agents behind the target's own proxy: they speak HTTP, and the engine is recorded."""

from __future__ import annotations

import importlib
import pickle
from typing import Any

from unit_probe import episode_setting, kit

PROXY = "areal.experimental.openai.proxy"


def has_proxy() -> bool:
    """Return whether the target can serve its engine to agents."""
    try:
        return "AgentProxy" in dir(importlib.import_module(PROXY))
    except Exception:  # AReaL's own package may need what is not installed
        return False


class ProxiedAgent:
    """An agent as a workflow: its episodes go through the proxy to the engine they are given.

    Args:
        agent: Has a coroutine `run`.
        tokenizer: Of the model.
        gconfig: How requests sample that leave it open.
    """

    def __init__(self, agent: Any, tokenizer: Any, gconfig: Any) -> None:
        from areal.api.cli_args import AgentConfig
        from areal.experimental.openai.proxy import AgentProxy

        self.engines: dict[Any, Any] = {}
        self.proxy = AgentProxy(self, tokenizer, AgentConfig(), gconfig)
        self.proxy.start()
        self.workflow = self.proxy.wrap(agent)

    async def arun_episode(self, engine: Any, data: dict[str, Any]) -> Any:
        """Run one episode and return all its requests as one trajectory, as the trainer does."""
        from areal.utils.data import concat_padded_tensors

        # Requests come back over HTTP; the context separates them, as there is one proxy.
        episode = _episode()
        self.engines[episode] = engine
        try:
            found = await self.workflow.arun_episode(engine, data)
        finally:
            del self.engines[episode]
        if found is None:
            return None
        return concat_padded_tensors([each.to_tensor_dict() for each in found.values()])

    async def agenerate(self, req: Any) -> Any:
        """Hand a request of the proxy to the engine of the episode that it comes from."""
        return await self.engines[_episode()].agenerate(req)


def _episode() -> Any:
    from areal import workflow_context

    context = workflow_context.get()
    return context.task_id, context.sample_idx


class AgentSetting(episode_setting.TextSetting):
    """Messages in, text out, with the proxy between the agent and the engine."""

    is_one_sequence = False

    def __init__(self) -> None:
        super().__init__()
        self.running: ProxiedAgent | None = None

    def wrap(self, findings: kit.Findings, workflow: Any, known: dict[str, Any]) -> ProxiedAgent:
        """Return the agent behind a proxy of its own."""
        self.close()
        with findings.guard("proxy", "starting the proxy"):
            self.running = ProxiedAgent(workflow, self.tokenizer, known["gconfig"])
        try:
            # In the mode subproc the agent goes to another process.
            pickle.dumps(workflow)
        except Exception as error:
            text = f"{kit.describe(error)}; rollout.agent.mode=subproc needs that"
            findings.warned("pickle", f"the agent cannot be pickled: {text}")
        return self.running

    def close(self) -> None:
        """Stop the proxy."""
        if self.running is not None:
            self.running.proxy.stop()
