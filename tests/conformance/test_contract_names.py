"""Does code that imports AReaL's modules by name find what it imports?"""

from __future__ import annotations

import ast
import importlib
import importlib.util
from pathlib import Path

import pytest

from areal.experimental.models.archon import ARCHON_MODELS

NAMES = {
    "areal": ("DPOTrainer", "RWTrainer", "RolloutController", "TrainController"),
    "areal.dataset.hhrlhf": ("get_hhrlhf_dpo_dataset", "get_hhrlhf_rw_dataset"),
    "areal.experimental.openai.proxy.proxy_gateway": (),
    "areal.experimental.openai.proxy.proxy_rollout_server": (),
    "areal.trainer.dpo": ("DPOTrainer",),
    "areal.trainer.ppo.actor": ("PPOActor", "grpo_loss_fn"),
    "areal.trainer.ppo.critic": ("PPOCritic",),
    "areal.trainer.ppo.stats": (),
    "areal.trainer.rw": ("RWTrainer",),
    "areal.utils.async_checkpoint": ("AsyncCheckpointManager",),
    "areal.utils.seqpack": ("balanced_greedy_partition", "ffd_allocate", "kk_allocate"),
    "areal.workflow.anthropic.claude_math_agent": ("MathToolAgent",),
    "areal.workflow.anthropic.math_agent": ("MathAgent",),
    "areal.workflow.langchain.math_agent": ("MathAgent", "MathToolAgent"),
    "areal.workflow.openai.math_agent": ("MathAgent", "MathToolAgent", "MultiTurnMathAgent"),
}


@pytest.mark.parametrize("module", sorted(NAMES))
def test_a_module_has_its_names(module: str) -> None:
    try:
        found = set(dir(importlib.import_module(module)))
    except ImportError:  # of an agent's own client
        spec = importlib.util.find_spec(module)
        assert spec is not None
        assert spec.origin is not None
        tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
        found = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    assert set(NAMES[module]) <= found


@pytest.mark.parametrize("model_type", sorted(ARCHON_MODELS))
def test_a_model_has_its_arguments_and_its_adapter(model_type: str) -> None:
    package = importlib.import_module(f"areal.experimental.models.archon.{model_type}")
    (args,) = (name for name in package.__all__ if name.endswith("ModelArgs"))
    stem = args.removesuffix("ModelArgs")
    assert {args, f"{stem}Model", f"{stem}StateDictAdapter"} <= set(package.__all__)


METHODS = {
    "areal.infra.controller.rollout_controller:RolloutController": (
        "abort_all_requests agenerate compute_logp config_perf_tracer continue_generation destroy "
        "dispatcher export_stats get_capacity get_proxy_addr get_version init_weights_update_group "
        "initialize offload onload pause pause_generation pause_generation_sync prepare_batch "
        "proxy_gateway_addr resume rollout_batch runner save_perf_tracer set_version "
        "staleness_manager start_proxy start_proxy_gateway submit update_weights_from_disk "
        "update_weights_from_distributed wait"
    ),
    "areal.infra.controller.train_controller:TrainController": (
        "clear_batches connect_engine create_process_group destroy eval get_version initialize "
        "load prepare_batch rollout_batch save set_version step_lr_scheduler train update_weights"
    ),
}


@pytest.mark.parametrize("place", sorted(METHODS))
def test_a_class_has_its_methods_and_not_its_instances_alone(place: str) -> None:
    module, _, name = place.partition(":")
    found = getattr(importlib.import_module(module), name)
    assert [each for each in METHODS[place].split() if not hasattr(found, each)] == []
