"""Train and rollout engines in processes of their own, behind controllers."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from areal.api import FinetuneSpec, SaveLoadMeta, WeightUpdateMeta
from areal.api.cli_args import (
    DPOEngineConfig,
    GenerationHyperparameters,
    InferenceEngineConfig,
    OptimizerConfig,
    PPOActorConfig,
    PPOCriticConfig,
    SchedulingSpec,
    TrainEngineConfig,
)
from areal.engine import RemoteLocalEngine
from areal.engine.fsdp_engine import (
    FSDPDPOEngine,
    FSDPLMEngine,
    FSDPPPOActor,
    FSDPPPOCritic,
    FSDPRWEngine,
)
from areal.experimental.engine.archon_engine import (
    ArchonDPOEngine,
    ArchonLMEngine,
    ArchonPPOActor,
    ArchonPPOCritic,
    ArchonRWEngine,
)
from areal.infra import RolloutController, TrainController
from areal.infra.controller import PPOActorController
from areal.infra.scheduler import LocalScheduler
from areal.infra.scheduler.exceptions import EngineCallError
from areal.utils import stats_tracker
from areal.utils.data import pad_sequences_to_tensors
from areal.utils.hf_utils import load_hf_tokenizer
from areal.workflow.rlvr import RLVRWorkflow
from tests.integration.areal.conftest import environment
from tests.tiny_models import tiny_model
from tests.tiny_runs import get_digits_rl_dataset

pytestmark = pytest.mark.heavy

SLOW = pytest.mark.slow
SPEC = FinetuneSpec(total_train_epochs=1, dataset_size=40, train_batch_size=4)


@pytest.fixture
def scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalScheduler]:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    made = LocalScheduler(
        experiment_name="e", trial_name="t", fileroot=str(tmp_path), startup_timeout=60
    )
    yield made
    made.close()


def actor_config(model: Path, backend: str) -> PPOActorConfig:
    return PPOActorConfig(
        experiment_name="e",
        trial_name="t",
        path=str(model),
        backend=backend,
        dtype="float32",
        optimizer=OptimizerConfig(lr=0.01, warmup_steps=0),
        ppo_n_minibatches=1,
        kl_ctl=0.0,
        scheduling_spec=(SchedulingSpec(cpu=1),),
    )


def slow(*backends: str) -> list[Any]:
    return [pytest.param(each, marks=SLOW) for each in backends]


def trajectories() -> list[dict[str, Any]]:
    """Returns groups of two answers to each of five prompts, of different lengths."""
    generator = torch.Generator().manual_seed(0)
    found = []
    for length in (5, 11, 3, 8, 6):
        rows = []
        for k in range(2):
            n = length + k
            ids = torch.randint(0, 10, (n,), generator=generator)
            mask = torch.tensor([0] * 2 + [1] * (n - 2))
            rows.append({"input_ids": ids, "loss_mask": mask, "logprobs": -2.0 * mask.float()})
        group = pad_sequences_to_tensors(rows)
        group["rewards"] = torch.rand(2, generator=generator)
        found.append(group)
    return found


@pytest.fixture(scope="module")
def two_layers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that two stages can share."""
    folder = tmp_path_factory.mktemp("two-layers")
    tiny_model("qwen3").save_pretrained(folder)
    return folder


@pytest.mark.parametrize("backend", ["fsdp:d2", *slow("fsdp:c2", "archon:d2", "archon:p2")])
def test_controlled_processes_compute_what_one_does(
    two_layers: Path, tmp_path: Path, scheduler: LocalScheduler, backend: str
) -> None:
    family = backend.partition(":")[0]
    cls = {"fsdp": FSDPPPOActor, "archon": ArchonPPOActor}[family]
    alone = cls(actor_config(two_layers, f"{family}:d1"))
    alone.initialize(None, SPEC)
    actor = cls.as_controller(actor_config(two_layers, backend), scheduler)
    assert type(actor) is PPOActorController
    assert isinstance(actor, TrainController)
    actor.initialize("actor", SPEC)
    rows = trajectories()
    for one, other in zip(alone.compute_logp(rows), actor.compute_logp(rows), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=0)
    results = []
    for engine in (alone, actor):
        # Each process has its own, as in AReaL, so the norm over the batch is left to this one.
        batch = alone.compute_advantages(copy.deepcopy(rows))
        engine.ppo_update(batch)
        engine.step_lr_scheduler()
        engine.set_version(3)
        assert engine.get_version() == 3
        path = tmp_path / type(engine).__name__
        engine.save(SaveLoadMeta(path=str(path), weight_format="hf", with_optim=False))
        results.append(load_file(path / "model.safetensors"))
    before = load_file(two_layers / "model.safetensors")
    assert any(not before[name].equal(results[0][name]) for name in before)
    for name, expected in results[0].items():
        torch.testing.assert_close(results[1][name], expected, atol=1e-4, rtol=0)
    stats = stats_tracker.export_all()
    assert "ppo_actor/actor_loss" in stats
    assert actor.export_stats()["ppo_actor/grad_norm"] == pytest.approx(
        stats["ppo_actor/grad_norm"], abs=1e-4
    )
    assert not actor.export_stats()
    with pytest.raises(AttributeError, match="no 'compute_values'"):
        actor.compute_values(rows)
    with pytest.raises(EngineCallError, match="no_such_folder"):
        actor.load(SaveLoadMeta(str(tmp_path / "no_such_folder"), "hf", False))
    assert actor.is_data_parallel_head()
    actor.destroy()
    actor.destroy()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cls", "backend"), [(FSDPPPOCritic, "fsdp:d2"), (ArchonPPOCritic, "archon:p2")]
)
def test_a_controlled_critic_values_as_one_process_does(
    two_layers: Path, scheduler: LocalScheduler, cls: Any, backend: str
) -> None:
    def settings(backend: str) -> PPOCriticConfig:
        return PPOCriticConfig(
            experiment_name="e",
            trial_name="t",
            path=str(two_layers),
            backend=backend,
            dtype="float32",
            is_critic=True,
            optimizer=OptimizerConfig(lr=0.01, warmup_steps=0),
            ppo_n_minibatches=1,
            scheduling_spec=(SchedulingSpec(cpu=1),),
        )

    alone = cls(settings(f"{cls.backend_name}:d1"))
    alone.initialize(None, SPEC)
    critic = cls.as_controller(settings(backend), scheduler)
    critic.initialize("critic", SPEC)
    for _ in range(2):
        rows = trajectories()
        valued = [engine.compute_values(rows) for engine in (alone, critic)]
        for one, other in zip(*valued, strict=True):
            torch.testing.assert_close(one, other, atol=1e-4, rtol=0)
        for engine in (alone, critic):
            batch = copy.deepcopy(rows)
            for row, values in zip(batch, valued[0], strict=True):
                row |= {"values": values, "returns": values + 1.0}
            engine.ppo_update(batch)
    critic.destroy()


@pytest.mark.parametrize(
    ("way", "backend"),
    [("disk", "fsdp:d1"), ("xccl", "fsdp:d2"), pytest.param("http", "fsdp:d1", marks=SLOW)],
)
def test_rollouts_and_training_go_through_controllers(
    warm_model: Path, tmp_path: Path, scheduler: LocalScheduler, way: Any, backend: str
) -> None:
    rollout = RemoteLocalEngine.as_controller(
        InferenceEngineConfig(
            experiment_name="e",
            trial_name="t",
            backend="local:d2",
            consumer_batch_size=4,
            max_head_offpolicyness=0,
            setup_timeout=60,
            # Weights that follow from what was decoded together may be of any size, and rounding
            # with them.
            deterministic_sampling=True,
            scheduling_spec=(SchedulingSpec(cpu=1),),
        ),
        scheduler,
    )
    assert type(rollout) is RolloutController
    actor = FSDPPPOActor.as_controller(actor_config(warm_model, backend), scheduler)
    tokenizer = load_hf_tokenizer(str(warm_model))
    gconfig = GenerationHyperparameters(n_samples=2, max_new_tokens=4)
    workflow = RLVRWorkflow("tests.tiny_runs.sevens", gconfig, tokenizer)
    dataset = get_digits_rl_dataset("")
    rows = [dataset[i : i + 4] for i in range(0, 16, 4)]
    meta = WeightUpdateMeta.from_disk("e", "t", str(tmp_path))
    meta = dataclasses.replace(meta, type=way)
    try:
        actor.initialize("actor", SPEC)
        rollout.initialize("rollout", {"model_path": str(warm_model)})
        assert len(rollout.server_infos) == 2
        actor.connect_engine(rollout, meta)
        for step in range(3):
            batch = actor.prepare_batch(rows, workflow, group_size=2)
            versions = torch.cat([row["versions"].flatten() for row in batch])
            assert set(versions[versions >= 0].tolist()) == {step}
            actor.ppo_update(actor.compute_advantages(batch))
            actor.update_weights(meta.with_version(step + 1))
            actor.set_version(step + 1)
            rollout.set_version(step + 1)
        assert rollout.export_stats()["servers/serving"] == 2
        # What the servers hold is what was trained.
        given = trajectories()
        for row, one, other in zip(
            given, actor.compute_logp(given), rollout.compute_logp(given), strict=True
        ):
            is_answer = row["loss_mask"][:, 1:].bool()
            torch.testing.assert_close(
                one[:, :-1][is_answer], other[:, 1:][is_answer], atol=1e-5, rtol=0
            )
        folder = Path(str(meta.with_version(3).path))
        if way != "xccl":  # which keeps it in the background
            assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    finally:
        rollout.destroy()
        actor.destroy()
    with pytest.raises(NotImplementedError, match="choose one of disk, http, xccl"):
        actor.connect_engine(rollout, WeightUpdateMeta(type="awex"))


def pairs(count: int) -> list[dict[str, Any]]:
    """Returns trajectories, chosen and rejected in turn, of very different lengths."""
    generator = torch.Generator().manual_seed(1)
    rows = []
    for i in range(2 * count):
        ids = torch.randint(0, 10, (1, 3 + (5 * i) % 11), generator=generator)
        mask = torch.ones_like(ids)
        rows.append({"input_ids": ids, "attention_mask": mask.bool(), "loss_mask": mask})
    return rows


@pytest.mark.parametrize(
    ("cls", "backend"),
    [
        (FSDPRWEngine, "fsdp:d2"),
        pytest.param(FSDPDPOEngine, "fsdp:d2", marks=SLOW),
        (FSDPLMEngine, "fsdp:d2"),
        pytest.param(ArchonRWEngine, "archon:d2", marks=SLOW),
        pytest.param(ArchonDPOEngine, "archon:p2", marks=SLOW),
        pytest.param(ArchonLMEngine, "archon:d2", marks=SLOW),
    ],
)
def test_given_rows_are_shared_out_whole(
    two_layers: Path, scheduler: LocalScheduler, cls: Any, backend: str
) -> None:
    kind = cls.__name__.removesuffix("Engine").removeprefix("FSDP").removeprefix("Archon").lower()
    config_class = DPOEngineConfig if kind == "dpo" else TrainEngineConfig

    def settings(backend: str) -> TrainEngineConfig:
        return config_class(
            experiment_name="e",
            trial_name="t",
            path=str(two_layers),
            backend=backend,
            dtype="float32",
            is_critic=kind == "rw",
            optimizer=OptimizerConfig(lr=0.01, warmup_steps=0),
            scheduling_spec=(SchedulingSpec(cpu=1),),
        )

    alone = cls(settings(f"{cls.backend_name}:d1"))
    alone.initialize(None, SPEC)
    several = cls.as_controller(settings(backend), scheduler)
    several.initialize("actor", SPEC)
    assert several.group_size == (1 if kind == "lm" else 2)
    results = []
    for engine in (alone, several):
        rows = pairs(4)
        if kind == "dpo":
            logprobs = engine.compute_logp(rows)
            for row, logprob in zip(rows, logprobs, strict=True):
                row["ref_logprobs"] = logprob - 0.1
        found = [getattr(engine, f"train_{kind}")(rows)]
        # Three pairs, or seven rows, are not the same number for both.
        rest = rows[:7] if kind == "lm" else rows[:6]
        found += [getattr(engine, f"evaluate_{kind}")(rest)]
        found += [getattr(engine, f"evaluate_{kind}")(rows[:2])]  # one process has none
        results.append(found)
    for one, other in zip(*results, strict=True):
        assert one.keys() == other.keys()
        for name, value in one.items():
            if "tokens" not in name:
                assert other[name] == pytest.approx(value, abs=1e-4), name
    several.destroy()
