"""Where a key that is read elsewhere has no effect: in which section, and in what kind of run.

``docs/en/configuration.md`` lists these beside the table of fields.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from areal.api.config.backends import allocation_of
from areal.api.config.field_table import Ignored
from areal.api.config.ppo import PPOActorConfig
from areal.api.config.train_engine import DPOEngineConfig, TrainEngineConfig

# A reference is loaded and asked for log-probabilities; the rest of its class is for training.
_FROZEN = {
    *(
        option.name
        for cls in (PPOActorConfig, DPOEngineConfig)
        for option in dataclasses.fields(cls)
    ),
} - {option.name for option in dataclasses.fields(TrainEngineConfig)}
_FROZEN |= {
    *("disable_dropout", "gradient_checkpointing", "grad_reduce_dtype", "optimizer"),
    *("use_lora", "lora_rank", "lora_alpha", "target_modules", "peft_type", "weight_update_mode"),
}
_BATCHES = ("batch_size", "drop_last", "num_workers", "pin_memory", "shuffle")
_SERVERS = ("pause_grace_period", "poll_interval", "provider_api_key", "request_retries")


class Place(NamedTuple):
    """Keys that are without effect in a kind of run.

    Attributes:
        keys: Dotted.
        ignored: Why that is harmless.
        applies: Asked of the run's configuration and the key's section.
    """

    keys: frozenset[str]
    ignored: Ignored
    applies: Callable[[Any, Any], bool]


def has_scheduler(config: Any) -> bool:
    """Return whether a scheduler of several machines places the run."""
    return config.scheduler.type in ("ray", "slurm")


def _has_rollouts(config: Any) -> bool:
    return hasattr(config, "rollout")


def _needs_processes(config: Any) -> bool:
    """Return whether servers or ranks are started for a run."""
    sections = [config.actor, getattr(config, "rollout", None)]
    is_split = any(allocation_of(section).world_size > 1 for section in sections if section)
    return is_split or has_scheduler(config)


def has_servers(config: Any) -> bool:
    """Return whether the configuration asks for rollouts from servers."""
    is_local = not _has_rollouts(config) or allocation_of(config.rollout).backend == "local"
    return _needs_processes(config) or not is_local


def _keys(section: str, *names: str) -> frozenset[str]:
    return frozenset(f"{section}.{name}" for name in names)


PLACES: tuple[Place, ...] = (
    Place(
        frozenset({"ref"}),
        Ignored("nothing keeps the policy close to a reference: actor.kl_ctl is 0"),
        lambda config, _: _has_rollouts(config) and config.actor.kl_ctl == 0,
    ),
    Place(
        _keys("ref", *_FROZEN),
        Ignored("the reference is not trained; the actor's value counts"),
        lambda *_: True,
    ),
    Place(
        _keys("critic", "temperature", "logprobs_chunk_size", "weight_update_mode"),
        Ignored("a value model has no log-probabilities, and nothing generates with it"),
        lambda *_: True,
    ),
    Place(
        frozenset({"ref.scheduling_spec", "critic.scheduling_spec"}),
        Ignored("reference and critic run in the processes of the actor"),
        lambda *_: True,
    ),
    Place(
        _keys("eval_gconfig", "drop_incomplete_group", "reward_normalization"),
        Ignored("for groups of samples, which evaluations do not have"),
        lambda *_: True,
    ),
    Place(
        _keys("valid_dataset", *_BATCHES),
        Ignored("evaluations run the episodes of all rows at once; no batches are made"),
        lambda config, _: _has_rollouts(config),
    ),
    Place(
        frozenset({"actor.weight_update_mode", "perf_tracer.session_tracer"}),
        Ignored("for rollouts, which training on given rows does not have"),
        lambda config, _: not _has_rollouts(config),
    ),
    Place(
        frozenset({"actor.archon", "ref.archon", "critic.archon"}),
        Ignored("for an engine other than that of the section's backend"),
        lambda _, section: allocation_of(section).backend != "archon",
    ),
    Place(
        frozenset({"actor.fsdp", "ref.fsdp", "critic.fsdp"}),
        Ignored("for an engine other than that of the section's backend"),
        lambda _, section: allocation_of(section).backend != "fsdp",
    ),
    Place(
        frozenset({"actor.scheduling_spec", "cluster.n_gpus_per_node", "rollout.scheduling_spec"}),
        Ignored("for runs that a scheduler places: scheduler.type is neither ray nor slurm"),
        lambda config, _: not has_scheduler(config),
    ),
    Place(
        frozenset({"recover.retries"}),
        Ignored("a run in one process ends with it; the same command resumes it"),
        lambda config, _: not _needs_processes(config),
    ),
)
# Of servers; the embedded engine is asked directly.
SERVER_KEYS = _keys("rollout", *_SERVERS, "setup_timeout") | {
    "gconfig.skip_special_tokens",
    "eval_gconfig.skip_special_tokens",
}
