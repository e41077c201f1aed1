from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from areal.api import InferenceEngine, ModelRequest, TrainEngine


class Bare(InferenceEngine):
    @property
    def initialized(self) -> bool:
        return True


# From the contract: what a train engine must have, and what it has for nothing.
ABSTRACT = {
    "connect_engine",
    "context_and_model_parallel_group",
    "cpu_group",
    "create_process_group",
    "current_data_parallel_head",
    "data_parallel_group",
    "data_parallel_rank",
    "data_parallel_world_size",
    "eval_batch",
    "export_stats",
    "forward_backward_batch",
    "forward_batch",
    "get_device_stats",
    "get_version",
    "initialized",
    "is_data_parallel_head",
    "load",
    "lr_scheduler_step",
    "offload",
    "onload",
    "optimizer_step",
    "optimizer_zero_grad",
    "prepare_batch",
    "rollout_batch",
    "save",
    "set_version",
    "train",
    "train_batch",
    "update_weights",
}


def recorder(name: str) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.calls.append((name, args, kwargs))
        return self

    return method


Recording: Any = type(
    "Recording", (TrainEngine,), {name: recorder(name) for name in ABSTRACT} | {"calls": []}
)


def test_only_initialized_is_asked_of_an_inference_engine() -> None:
    assert InferenceEngine.__abstractmethods__ == {"initialized"}
    assert Bare().initialized


def test_a_missing_ability_names_engine_and_method() -> None:
    engine = Bare()
    with pytest.raises(NotImplementedError, match="Bare has no agenerate"):
        asyncio.run(engine.agenerate(ModelRequest()))
    with pytest.raises(NotImplementedError, match="Bare has no workflow_executor"):
        _ = engine.workflow_executor
    methods = {
        name: getattr(engine, name)
        for name, method in vars(InferenceEngine).items()
        if inspect.isfunction(method) and not name.startswith("_") and name != "agenerate"
    }
    assert len(methods) > 20
    for name, method in methods.items():
        required = [
            None
            for parameter in inspect.signature(method).parameters.values()
            if parameter.default is parameter.empty and parameter.kind < 2
        ]
        with pytest.raises(NotImplementedError, match=f"Bare has no {name}"):
            method(*required)


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        (
            "submit",
            "data workflow workflow_kwargs should_accept_fn group_size task_id is_eval "
            "reward_normalization drop_incomplete_group",
        ),
        ("wait", "count timeout raise_timeout"),
        ("wait_for_task", "task_id timeout raise_timeout"),
        (
            "rollout_batch",
            "data workflow workflow_kwargs group_size reward_normalization drop_incomplete_group",
        ),
        (
            "prepare_batch",
            "dataloader workflow workflow_kwargs should_accept_fn group_size dynamic_bs "
            "reward_normalization drop_incomplete_group",
        ),
    ],
)
def test_signatures_of_the_contract(method: str, parameters: str) -> None:
    signature = inspect.signature(getattr(InferenceEngine, method))
    assert list(signature.parameters) == ["self", *parameters.split()]


def test_what_a_train_engine_must_have() -> None:
    assert TrainEngine.__abstractmethods__ == ABSTRACT


def test_other_names_lead_to_the_same() -> None:
    engine = Recording()
    engine.step_lr_scheduler()
    engine.forward({"a": 1}, output_seqlens=[1])
    assert engine.eval() is engine
    engine.destroy()
    assert engine.calls == [
        ("lr_scheduler_step", (), {}),
        ("forward_batch", ({"a": 1},), {"output_seqlens": [1]}),
        ("train", (False,), {}),
    ]
    with pytest.raises(NotImplementedError, match="Recording has no initialize"):
        engine.initialize(None, None)
