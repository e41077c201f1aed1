"""The workflow that runs an agent against the proxy and brings back what was recorded."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import pickle
from typing import Any

from areal.api.workflow_api import RolloutWorkflow
from areal.experimental.openai.cache import EXPORT_STYLES, InteractionCache
from areal.experimental.openai.errors import RequestError
from areal.experimental.openai.proxy.http_client import get_agent_http_client
from areal.experimental.openai.proxy.wire import from_wire
from areal.experimental.openai.proxy.workers import AgentWorkers
from areal.experimental.openai.types import InteractionWithTokenLogpReward
from areal.infra import workflow_context
from areal.utils import stats_tracker
from areal.utils.perf_tracer import atrace_session_phase

logger = logging.getLogger("OpenAIProxyWorkflow")

MODES = ("inline", "subproc", "online")


class OpenAIProxyWorkflow(RolloutWorkflow):
    """Runs an agent on a row and returns its interactions with the model.

    Args:
        mode: "inline" runs the agent in this event loop, "subproc" in a process of its own,
            "online" waits for a session of an outside program.
        agent: Has a coroutine ``run(data, **extra_kwargs)``; None in online mode.
        proxy_addr: Base URL of the proxy, without ``/v1``.
        admin_api_key: Of the proxy.
        discount: Carries a reward back to the interaction before it.
        export_style: "individual": each interaction is a sequence; "concat": each conversation is.
        subproc_max_workers: Processes at most in mode subproc.
        proxy_gateway_addr: Where outside programs reach the proxy, if not at ``proxy_addr``.
        drop_retry_orphans: Forget answers that a client never read and asked for again.
        workers: Processes that several workflows share; None makes ``subproc_max_workers`` of its
            own when they are needed.

    Raises:
        TypeError: The agent has no coroutine ``run``, or cannot be pickled in mode "subproc".
        ValueError: The mode or the style is unknown.
    """

    def __init__(
        self,
        mode: str,
        agent: Any = None,
        proxy_addr: str = "",
        admin_api_key: str = "areal-admin-key",
        discount: float = 1.0,
        export_style: str = "individual",
        subproc_max_workers: int = 4,
        proxy_gateway_addr: str | None = None,
        drop_retry_orphans: bool = False,
        *,
        workers: AgentWorkers | None = None,
    ) -> None:
        if mode not in MODES:
            raise ValueError(f"unknown mode {mode!r}; known: {', '.join(MODES)}")
        if export_style not in EXPORT_STYLES:
            known = ", ".join(EXPORT_STYLES)
            raise ValueError(f"unknown export_style {export_style!r}; known: {known}")
        if mode != "online" and not inspect.iscoroutinefunction(getattr(agent, "run", None)):
            raise TypeError(
                f"{agent!r} is not an agent: it has no coroutine run(data, **extra_kwargs)"
            )
        if mode == "subproc":
            _check_can_be_sent(agent)
        self.mode = mode
        self.agent = agent
        self.proxy_addr = proxy_addr.rstrip("/")
        self.admin_api_key = admin_api_key
        self.discount = discount
        self.export_style = export_style
        self.subproc_max_workers = subproc_max_workers
        self.proxy_gateway_addr = proxy_gateway_addr
        self.drop_retry_orphans = drop_retry_orphans
        self._workers = workers

    @property
    def name_in_messages(self) -> str:
        """The agent's name, which is clearer than this class's."""
        return "online agent" if self.mode == "online" else type(self.agent).__name__

    async def arun_episode(
        self, engine: Any, data: dict[str, Any]
    ) -> dict[str, InteractionWithTokenLogpReward] | None:
        """Run one episode.

        Args:
            engine: Not used: the proxy has its own way to the model.
            data: The row, for the agent.

        Returns:
            Interactions by their ids, rewards discounted; None if there is none to train on.

        Raises:
            ValueError: The agent returned neither a float nor a dict of rewards.
            Exception: Whatever the agent raised.
        """
        if self.mode == "online":
            items = await self._wait_for_outside_session()
        else:
            items = await self._run_session(data)
        cache = from_wire(items)
        if self.drop_retry_orphans:
            cache.drop_retry_orphans()
        if not cache:
            return None
        self._record(cache)
        cache.apply_reward_discount(self.discount)
        return cache.export_interactions(self.export_style)

    def close(self) -> None:
        """End the processes of mode subproc, those shared with other workflows too."""
        if self._workers is not None:
            self._workers.close()

    @staticmethod
    def _record(cache: InteractionCache) -> None:
        scope = stats_tracker.get(workflow_context.stat_scope())
        scope.scalar(reward=cache.total_reward, num_turns=len(cache))

    # --- one session

    async def _wait_for_outside_session(self) -> list[dict[str, Any]]:
        await self._post("/grant_capacity", self.admin_api_key, n=1)
        exported = await self._post("/export_trajectories", self.admin_api_key, is_compact=True)
        items: list[dict[str, Any]] = exported["interactions"]
        return items

    async def _run_session(self, data: dict[str, Any]) -> list[dict[str, Any]]:
        context = workflow_context.get()
        session = await self._post(
            "/rl/start_session",
            self.admin_api_key,
            is_own=True,
            task_id=context.task_id,
            sample_idx=context.sample_idx,
            is_eval=context.is_eval,
        )
        key = session["api_key"]
        try:
            async with atrace_session_phase("agent"):
                result = await self._run_agent(data, key)
            exported = await self._post(
                "/export_trajectories",
                self.admin_api_key,
                is_compact=True,
                session_id=session["session_id"],
                rewards=self._rewards(result),
            )
        except BaseException:
            await asyncio.shield(self._discard(key))
            raise
        items: list[dict[str, Any]] = exported["interactions"]
        return items

    async def _discard(self, key: str) -> None:
        # In here: who is cancelled again waits for it no more, and nobody would take an error.
        with contextlib.suppress(Exception):
            await self._post("/rl/end_session", key, discard=True)

    async def _run_agent(self, data: dict[str, Any], api_key: str) -> Any:
        if self.mode == "subproc":
            if self._workers is None:
                self._workers = AgentWorkers(self.subproc_max_workers)
            return await self._workers.run(self.agent, data, self._environment(api_key))
        return await self.agent.run(
            data,
            base_url=self.proxy_addr,
            http_client=await get_agent_http_client(),
            api_key=api_key,
        )

    def _environment(self, api_key: str) -> dict[str, str]:
        return {
            "OPENAI_BASE_URL": self.proxy_addr,
            "OPENAI_API_KEY": api_key,
            "ANTHROPIC_BASE_URL": self.proxy_addr,
            "ANTHROPIC_API_KEY": api_key,
            **_without_web_proxy(),
        }

    def _rewards(self, result: Any) -> list[tuple[str | None, float]]:
        """Return rewards with the ids of their answers; None means the last one."""
        rewards = list(result.items()) if isinstance(result, dict) else [(None, result)]
        # A whole number may be a reward of one answer, but not the whole result of an agent.
        kinds = (int, float) if isinstance(result, dict) else float
        for _, reward in rewards:
            if not isinstance(reward, kinds) or isinstance(reward, bool):
                raise ValueError(
                    f"Invalid reward type {type(reward).__name__}: {type(self.agent).__name__}.run "
                    f"must return a float, or floats by the ids of answers, not {result!r}"
                )
        return rewards

    async def _post(self, path: str, api_key: str, **body: Any) -> dict[str, Any]:
        session = await workflow_context.get_aiohttp_session()
        headers = {"Authorization": f"Bearer {api_key}"}
        url = f"{self.proxy_addr}{path}"
        async with session.post(url, json=body, headers=headers) as answer:
            content: dict[str, Any] = await answer.json()
        if answer.status != 200:
            error = content["error"]
            raise RequestError(
                f"{path}: {error['message']}", status=answer.status, code=error["code"]
            )
        return content


def _check_can_be_sent(agent: Any) -> None:
    try:
        pickle.dumps(agent)
    except Exception as error:  # whatever the agent's parts raise
        raise TypeError(
            f"{type(agent).__name__} cannot be pickled, and rollout.agent.mode=subproc sends it "
            f"to a process: {error}"
        ) from error


def _without_web_proxy() -> dict[str, str]:
    """Return the variables by which SDKs reach this machine itself: its web proxy does not."""
    given = os.environ.get("no_proxy") or os.environ.get("NO_PROXY", "")
    hosts = given if given == "*" else ",".join(filter(None, [given, "127.0.0.1,localhost"]))
    return {"NO_PROXY": hosts, "no_proxy": hosts}
