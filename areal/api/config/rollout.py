"""The engine that generates, and the agents that run on it."""

from __future__ import annotations

from dataclasses import dataclass, field

from areal.api.config.backends import allocation_of
from areal.api.config.check import above, at_least, fail, one_of
from areal.api.config.cluster import SchedulingSpec, SchedulingStrategy
from areal.api.config.defaults import ours


def _rpc_worker() -> tuple[SchedulingSpec, ...]:
    return (SchedulingSpec(cmd="python -m areal.infra.rpc.rpc_server"),)


def _agent_worker() -> tuple[SchedulingSpec, ...]:
    return (SchedulingSpec(gpu=0, cmd="python -m areal.v2.agent_service.guard"),)


@dataclass
class AgentConfig:
    """How an agent (anything with a coroutine ``run``) is run and its work exported.

    ``mode`` is "inline" (in the executor's loop), "subproc" (in worker processes) or "online" (an
    outside program drives it). ``turn_discount`` carries a reward back to earlier interactions.
    """

    agent_cls_path: str = ""
    admin_api_key: str = "areal-admin-key"
    scheduling_spec: tuple[SchedulingSpec, ...] = field(default_factory=_agent_worker)
    mode: str = "inline"
    tool_call_parser: str = "qwen"
    reasoning_parser: str = "qwen3"
    chat_template_type: str = "hf"
    engine_max_tokens: int | None = None
    turn_discount: float = 1.0
    export_style: str = "individual"
    message_preprocessors: list[str] = field(default_factory=list)
    prefix_matcher: str | None = None
    subproc_max_workers: int = 4
    drop_retry_orphans: bool = False
    session_timeout_seconds: int = 3600
    set_reward_finish_timeout: float = 0.0

    def __post_init__(self) -> None:
        one_of(self, "mode", ("inline", "subproc", "online"))
        one_of(self, "chat_template_type", ("hf", "concat"))
        one_of(self, "export_style", ("individual", "concat"))
        above(self, 0, "engine_max_tokens", "session_timeout_seconds")
        at_least(self, 1, "subproc_max_workers")
        at_least(self, 0, "set_reward_finish_timeout", "turn_discount")


def _online_agent() -> AgentConfig:
    return AgentConfig(agent_cls_path="areal.experimental.openai.proxy.online_agent._OnlineAgent")


@dataclass
class InferenceEngineConfig:
    """Describes the rollout engine and how far ahead of training it may run.

    ``consumer_batch_size``, ``max_concurrent_rollouts`` and ``queue_size`` count dataset rows (a
    row's whole group is one). ``max_head_offpolicyness`` is how many weight versions a trajectory
    may be older than the step that trains on it; 0 is synchronous. Time limits are in seconds.
    """

    experiment_name: str | None = None
    trial_name: str | None = None
    fileroot: str | None = None
    max_concurrent_rollouts: int | None = None
    queue_size: int | None = None
    consumer_batch_size: int = 1
    max_head_offpolicyness: int = 0
    enable_rollout_tracing: bool = False
    deterministic_sampling: bool = False
    serialize_group_samples: bool = False
    check_trajectory_format: bool = False
    tokenizer_path: str = ""
    dump_to_file: bool = False
    setup_timeout: float = 300.0
    workers_ready_timeout: float = 30.0
    request_timeout: float = 3600
    request_retries: int = 3
    pause_grace_period: float = 0.0
    scheduling_spec: tuple[SchedulingSpec, ...] = field(default_factory=_rpc_worker)
    backend: str = ours("rollout.backend")
    scheduling_strategy: SchedulingStrategy = field(default_factory=SchedulingStrategy)
    use_lora: bool = False
    lora_name: str = ""
    agent: AgentConfig = field(default_factory=_online_agent)
    return_routed_experts: bool = False
    _version: str = "v1"
    model: str = "default"
    routing_strategy: str = "round_robin"
    poll_interval: float = 5.0
    admin_api_key: str = "areal-admin-key"
    api_url: str | None = None
    provider_api_key: str | None = None

    def __post_init__(self) -> None:
        at_least(self, 1, "max_concurrent_rollouts", "queue_size", "consumer_batch_size")
        at_least(self, 0, "max_head_offpolicyness", "request_retries", "pause_grace_period")
        above(self, 0, "setup_timeout", "workers_ready_timeout", "request_timeout")
        above(self, 0, "poll_interval")
        one_of(self, "_version", ("v1",))
        if allocation_of(self).trains:
            fail(self, "backend", "name an inference engine (local, sglang or vllm)", self.backend)
