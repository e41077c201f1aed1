"""Every configuration field is read, refused or ignored for a reason, and the table is true."""

from __future__ import annotations

import ast
import dataclasses
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import areal
from areal.api.cli_args import (
    AgentConfig,
    DPOConfig,
    GRPOConfig,
    NormConfig,
    OptimizerConfig,
    PPOActorConfig,
    PPOConfig,
    RWConfig,
    SchedulingSpec,
    SFTConfig,
    load_expr_config,
)
from areal.api.config import schema
from areal.api.config.field_check import (
    check_fields,
    entry_of,
    ignored_keys,
    without_own_fields,
)
from areal.api.config.field_table import FIELD_TABLE, Ignored, Read, Refused
from areal.api.errors import ConfigError

PACKAGE = Path(areal.__file__).parent
YAMLS = Path(__file__).parent / "yamls"
EXPERIMENTS = [GRPOConfig, PPOConfig, SFTConfig, RWConfig, DPOConfig]


def sections(cls: type, found: dict[type, None] | None = None) -> dict[type, None]:
    """All dataclasses that a configuration can hold, with those that they inherit from."""
    found = {} if found is None else found
    if cls in found:
        return found
    found[cls] = None
    for base in cls.__mro__[1:]:
        if dataclasses.is_dataclass(base):
            found[base] = None
    for annotation in schema.key_types(cls).values():
        for inner in (schema.section_type(annotation), schema.item_type(annotation)):
            if inner is not None:
                sections(inner, found)
    return found


def declared() -> dict[str, set[str]]:
    found: dict[type, None] = {}
    for cls in EXPERIMENTS:
        sections(cls, found)
    return {cls.__name__: set(vars(cls).get("__annotations__", ())) for cls in found}


# These go through lists of names, as getattr takes them.
READ_BY_NAME = {"areal.engine.loading.huggingface", "areal.trainer.report.trackers"}


@cache
def names_in(module: str) -> frozenset[str]:
    """Every attribute that a module reads of anything."""
    path = PACKAGE.joinpath(*module.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            found.add(node.attr)
        elif module in READ_BY_NAME and isinstance(node, ast.Constant):
            found.add(str(node.value))
    return frozenset(found)


ENTRIES = [
    (cls, name, entry) for cls, fields in FIELD_TABLE.items() for name, entry in fields.items()
]
READ = [(cls, name, entry) for cls, name, entry in ENTRIES if isinstance(entry, Read)]


def test_the_table_has_every_field_and_nothing_else() -> None:
    assert {cls: set(fields) for cls, fields in FIELD_TABLE.items()} == declared()
    assert len(ENTRIES) > 400


def test_every_reader_reads_its_fields() -> None:
    unread = [f"{c}.{name}: {e.module}" for c, name, e in READ if name not in names_in(e.module)]
    assert unread == []


def test_a_reader_that_does_not_read_is_seen() -> None:
    assert "num_dataset_workers" not in names_in("areal.utils.dataloader")
    assert "num_workers" in names_in("areal.utils.dataloader")


def test_every_reason_is_a_sentence() -> None:
    for _, _, entry in ENTRIES:
        if isinstance(entry, Ignored):
            assert len(entry.reason.split()) > 1
        if isinstance(entry, Refused):
            assert len(entry.instead.split()) > 3


def refusals(section: Any, prefix: str = "") -> list[tuple[str, Any]]:
    """Every key that can be refused, with a value that is."""
    found: list[tuple[str, Any]] = []
    for name, annotation in schema.key_types(type(section)).items():
        entry, value = entry_of(type(section), name), getattr(section, name)
        inner = schema.section_type(annotation)
        if isinstance(entry, Refused):
            found.append((prefix + name, inner() if inner else other(value)))
            continue
        if isinstance(entry, Read):
            found += [(prefix + name, refused) for refused, _ in entry.refused]
        if inner is not None:
            found += refusals(value or inner(), f"{prefix}{name}.")
    return found


def other(value: Any) -> Any:
    """Returns what differs from a default and is of its kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, list):
        return ["something"]
    return "something"


def put(config: Any, key: str, value: Any) -> Any:
    *parents, name = key.split(".")
    section = config
    for parent in parents:
        section = schema.get_or_make(section, parent)
    setattr(section, name, value)
    return config


CASES = [(cls, key, value) for cls in EXPERIMENTS for key, value in refusals(cls())]


@pytest.mark.parametrize(("cls", "key", "value"), CASES)
def test_what_would_change_the_run_is_refused(cls: Any, key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"^{key} .*is not available here: \w+"):
        check_fields(put(cls(), key, value))


def test_the_refused_keys_are_those_that_were_silent() -> None:
    keys = {key for _, key, _ in CASES}
    assert {"teacher", "actor.enable_tree_training"} <= keys
    assert {"critic.optimizer_dtype", "critic.optimizer.type"} <= keys
    assert {"actor.optimizer_dtype", "cluster.n_nodes", "actor.optimizer.type"} <= keys


def test_all_refusals_come_in_one_message() -> None:
    config = put(put(GRPOConfig(), "cluster.n_nodes", 4), "actor.optimizer_dtype", "bfloat16")
    with pytest.raises(ConfigError) as caught:
        check_fields(config)
    first, second = str(caught.value).splitlines()
    assert first.startswith("cluster.n_nodes 4 is not available here")
    assert second.startswith("actor.optimizer_dtype 'bfloat16' is not available here")


@pytest.mark.parametrize("cls", EXPERIMENTS)
def test_defaults_are_accepted_and_none_is_ignored(cls: Any) -> None:
    check_fields(cls())
    assert ignored_keys(cls()) == []


def test_what_asks_for_nothing_else_is_accepted() -> None:
    config = put(GRPOConfig(), "scheduler.type", None)
    check_fields(put(config, "rollout.agent", AgentConfig(mode="subproc")))


@pytest.mark.parametrize(("name", "cls"), [("gsm8k_grpo", GRPOConfig), ("gsm8k_sft", SFTConfig)])
def test_single_node_files_of_areal_are_accepted(name: str, cls: Any) -> None:
    config, _ = load_expr_config(["--config", str(YAMLS / f"{name}.yaml")], cls)
    check_fields(config)


def test_a_file_that_asks_for_another_prompt_is_refused_by_its_key() -> None:
    path = str(YAMLS / "gsm8k_multi_turn.yaml")
    config, _ = load_expr_config(["--config", path], GRPOConfig)
    with pytest.raises(ConfigError) as caught:
        check_fields(config)
    named = [problem.partition(" ")[0] for problem in str(caught.value).splitlines()]
    assert named == ["rollout.agent.message_preprocessors"]
    # The file's critic and its adapter are none of them: they are trained.
    assert config.critic is not None
    assert config.critic.path == config.actor.path


def test_ignored_keys_that_were_set_are_found() -> None:
    config, _ = load_expr_config(["--config", str(YAMLS / "gsm8k_grpo.yaml")], GRPOConfig)
    found = ignored_keys(config)
    assert {"actor.attn_impl", "rollout.dump_to_file"} <= set(found)
    assert "saver.experiment_name" not in found
    assert "ref" in found, "its penalty has no weight"
    config.actor.kl_ctl = 0.1
    assert {"ref.scheduling_strategy.type", "ref.scheduling_spec"} <= set(ignored_keys(config))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        # Below a section without an effect, and of what reads it elsewhere.
        ("train_dataset.scheduling_spec.gpu", 3),
        # A reference is not trained.
        ("ref.eps_clip", 0.5),
        ("ref.optimizer", OptimizerConfig(lr=1.0)),
        ("ref.ppo_n_minibatches", 9),
        ("ref.reward_norm", NormConfig()),
        ("ref.use_lora", True),
        ("ref.gradient_checkpointing", True),
        # A value model has no log-probabilities, and nobody generates with it.
        ("critic.temperature", 0.5),
        ("critic.weight_update_mode", "http"),
        # Evaluations have no groups.
        ("eval_gconfig.drop_incomplete_group", True),
        # The settings of another engine than that of actor.backend.
        ("actor.archon.pp_first_stage_less_layers", 0),
        ("actor.archon.moe_router_dtype", None),
        ("ref.disable_dropout", True),
        # Evaluations run all rows at once.
        ("valid_dataset.batch_size", 8),
        ("valid_dataset.shuffle", True),
        # The embedded engine has no server.
        ("rollout.setup_timeout", 9.0),
        ("rollout.request_retries", 9),
        # One process on one machine is started by nobody.
        ("actor.scheduling_spec", (SchedulingSpec(gpu=1),)),
        ("critic.scheduling_spec", (SchedulingSpec(gpu=1),)),
        ("cluster.n_gpus_per_node", 8),
        ("recover.retries", 9),
        # A run has one name and one folder.
        ("saver.fileroot", "/elsewhere"),
        ("stats_logger.trial_name", "other"),
    ],
)
def test_a_key_without_effect_where_it_is_written_is_found(key: str, value: Any) -> None:
    config = GRPOConfig(experiment_name="e", trial_name="t")
    assert ignored_keys(put(config, key, value)) == [key]


@pytest.mark.parametrize("cls", [SFTConfig, RWConfig, DPOConfig])
@pytest.mark.parametrize(
    ("key", "value"),
    [("actor.weight_update_mode", "disk"), ("perf_tracer.session_tracer.enabled", True)],
)
def test_what_is_of_rollouts_is_found_where_there_are_none(cls: Any, key: str, value: Any) -> None:
    config = cls(experiment_name="e", trial_name="t")
    found = ignored_keys(put(config, key, value))
    assert found == [key.removesuffix(".enabled")]


def test_what_processes_are_started_by_has_an_effect_where_there_are_some() -> None:
    config = GRPOConfig(experiment_name="e", trial_name="t")
    for key, value in {
        "recover.retries": 9,
        "cluster.n_gpus_per_node": 8,
        "actor.scheduling_spec": (SchedulingSpec(gpu=1),),
    }.items():
        put(config, key, value)
    put(config, "rollout.backend", "local:d2")
    assert ignored_keys(config) == ["cluster.n_gpus_per_node", "actor.scheduling_spec"]
    put(config, "scheduler.type", "slurm")
    assert ignored_keys(config) == []
    remote = put(GRPOConfig(experiment_name="e", trial_name="t"), "rollout.request_retries", 9)
    assert ignored_keys(remote, asks_servers=True) == []
    assert ignored_keys(put(remote, "rollout.backend", "vllm:d1")) == []
    single = GRPOConfig(experiment_name="e", trial_name="t")
    put(put(single, "recover.retries", 9), "scheduler.type", "ray")
    assert ignored_keys(single) == []


def test_a_key_with_an_effect_there_is_not_found() -> None:
    config = GRPOConfig(experiment_name="e", trial_name="t")
    put(put(config, "ref.path", "/model"), "ref.mb_spec.n_mbs", 2)
    put(put(config, "actor.backend", "archon:d1"), "actor.archon.pp_first_stage_less_layers", 0)
    # An evaluation that has the sampling of training asks for nothing of its own.
    for section in ("gconfig", "eval_gconfig"):
        put(config, f"{section}.drop_incomplete_group", True)
    assert ignored_keys(config) == []


@dataclasses.dataclass
class OwnActor(PPOActorConfig):
    entropy_bonus: float = 0.0


@dataclasses.dataclass
class OwnSection:
    max_turns: int = 1


@dataclasses.dataclass
class OwnConfig(PPOConfig):
    actor: OwnActor = dataclasses.field(default_factory=OwnActor)
    agent: OwnSection = dataclasses.field(default_factory=OwnSection)
    has_no_default: Any = dataclasses.field(kw_only=True)


def test_what_a_scripts_own_class_adds_is_the_scripts() -> None:
    own = OwnConfig(agent=OwnSection(3), has_no_default=1)
    own.actor.entropy_bonus = 0.1
    check_fields(own)
    assert ignored_keys(own) == []
    own.actor.optimizer_dtype = "bfloat16"
    ours = without_own_fields(own)
    assert type(ours) is PPOConfig
    assert type(ours.actor) is PPOActorConfig
    for config in (own, ours):
        with pytest.raises(ConfigError, match=r"actor\.optimizer_dtype"):
            check_fields(config)
