"""Where agents and outside programs reach the model in training, and workflows that run them."""

from __future__ import annotations

import logging
import secrets
from typing import Any
from weakref import WeakValueDictionary

from areal.api.cli_args import GenerationHyperparameters
from areal.api.config.rollout import AgentConfig
from areal.api.errors import ConfigError
from areal.api.workflow_api import GenerationEngine
from areal.experimental.openai.parsing import check_parsers
from areal.experimental.openai.recorder import Recorder
from areal.infra.workflow_context import WorkflowContext
from areal.utils.network import is_loopback

try:
    import openai as _openai  # noqa: F401  (an early and clear error)

    from areal.experimental.openai.proxy.proxy_rollout_server import ProxyServer
    from areal.experimental.openai.proxy.workers import AgentWorkers
    from areal.experimental.openai.proxy.workflow import OpenAIProxyWorkflow
except ImportError as error:
    raise ImportError(
        f"agents need the packages openai and aiohttp ({error}): pip install 'areal-lite[agent]'"
    ) from error

logger = logging.getLogger("OpenAIProxy")


class AgentProxy:
    """Serves one engine to agents.

    Args:
        engine: Has ``agenerate``.
        tokenizer: With a chat template.
        config: How agents run and what is exported.
        gconfig: How to sample where a request leaves it open.
        eval_gconfig: The same in evaluation; None takes ``gconfig``.
        temperature: The only one that training may sample at; None allows any.
        host: Where to listen; programs on other machines reach an address that is not loopback.

    Raises:
        ConfigError: The configuration asks for what there is not, or contradicts itself, or others
            could reach the proxy with the key that is in public.
    """

    def __init__(
        self,
        engine: GenerationEngine,
        tokenizer: Any,
        config: AgentConfig,
        gconfig: GenerationHyperparameters | None = None,
        eval_gconfig: GenerationHyperparameters | None = None,
        temperature: float | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        check_agent_config(config)
        has_own_key = config.admin_api_key != AgentConfig().admin_api_key
        if not is_loopback(host) and not (has_own_key and config.admin_api_key):
            raise ConfigError(
                f"run.agent_host {host} is reached from other machines; set rollout.agent."
                "admin_api_key to a secret of your own, as the default one is public"
            )
        self._engine = engine
        self._tokenizer = tokenizer
        self._config = config
        self._gconfig = gconfig or GenerationHyperparameters()
        self._eval_gconfig = eval_gconfig or self._gconfig
        self._temperature = temperature
        is_known = config.mode == "online" or has_own_key
        # The default is public, and only an outside program needs to know the key.
        self._admin_api_key = config.admin_api_key if is_known else secrets.token_hex(24)
        self._server = ProxyServer(
            self._make_recorder,
            self._admin_api_key,
            config.session_timeout_seconds,
            is_online=config.mode == "online",
            host=host,
        )
        # By the agent's id, which lives as long as its workflow.
        self._workflows: WeakValueDictionary[int, OpenAIProxyWorkflow] = WeakValueDictionary()
        self._workers = AgentWorkers(config.subproc_max_workers)
        self.address = ""

    def start(self) -> str:
        """Start serving and return the base URL."""
        self.address = self._server.start()
        if self._config.mode == "online":
            logger.info("sessions of outside programs begin at %s/rl/start_session", self.address)
        return self.address

    def wrap(self, agent: Any) -> OpenAIProxyWorkflow:
        """Return the workflow of an agent, the same one for the same agent."""
        config = self._config
        workflow = self._workflows.get(id(agent))
        if workflow is None:
            workflow = OpenAIProxyWorkflow(
                config.mode,
                agent,
                self.address,
                self._admin_api_key,
                config.turn_discount,
                config.export_style,
                config.subproc_max_workers,
                drop_retry_orphans=config.drop_retry_orphans,
                workers=self._workers,
            )
            self._workflows[id(agent)] = workflow
        return workflow

    def stop(self) -> None:
        """Stop serving and end the agents' processes; a second call does nothing."""
        self._workers.close()
        self._server.stop()

    def _make_recorder(self, context: WorkflowContext) -> Recorder:
        config = self._config
        return Recorder(
            self._engine,
            self._tokenizer,
            config.tool_call_parser,
            config.reasoning_parser,
            config.engine_max_tokens,
            config.chat_template_type,
            gconfig=self._eval_gconfig if context.is_eval else self._gconfig,
            temperature=None if context.is_eval else self._temperature,
        )


def check_agent_config(config: AgentConfig) -> None:
    """Refuse settings of agents that contradict each other or that there are not.

    Raises:
        ConfigError: Names the one.
    """
    where = "rollout.agent"
    if config.export_style == "concat" and config.chat_template_type != "concat":
        raise ConfigError(f"{where}: export_style concat needs chat_template_type=concat")
    defaults = AgentConfig()
    for option in ("message_preprocessors", "prefix_matcher", "set_reward_finish_timeout"):
        if getattr(config, option) != getattr(defaults, option):
            raise ConfigError(f"{where}.{option} is not available here; leave it out")
    try:
        check_parsers(config.tool_call_parser, config.reasoning_parser)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from error
