"""What the processes of ``worker.py`` run, and what one process finds for the same rows."""

from __future__ import annotations

import copy
import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor
from transformers import AutoModelForTokenClassification

from areal.api.alloc_mode import ModelAllocation
from areal.api.cli_args import (
    ArchonEngineConfig,
    FSDPEngineConfig,
    MicroBatchSpec,
    OptimizerConfig,
    TrainEngineConfig,
)
from areal.api.io_struct import FinetuneSpec, SaveLoadMeta
from areal.engine.loading.archon import build_archon_model
from areal.engine.loading.huggingface import make_scalar, prepare_model
from areal.engine.model import tensor_plan
from areal.engine.model.checkpoint import hub_tensors
from areal.engine.model.shared_weights import SharedWeights
from areal.engine.training.backends import train_engine_class
from areal.engine.training.engine import PackedTrainEngine
from areal.experimental.models.archon.state_dict.adapter import fresh_head
from areal.utils.data import pad_sequences_to_tensors
from tests.tiny_models import random_prompts, tiny_model

# Rows of each step, and of how many of them no token carries loss. Five rows do not divide over
# the processes, one leaves all but one without any, and of three the first ones have no loss.
STEPS = (([9, 4, 17, 3, 12], 0), ([11], 0), ([5, 8, 13], 1))
SPEC = FinetuneSpec(total_train_epochs=1, dataset_size=10, train_batch_size=1)
CPU = torch.device("cpu")


@dataclass
class Case:
    """One model on one split.

    Args:
        backend: The split.
        model: Its architecture, as transformers spells it.
        fields: Of the model's configuration.
        config: Of the engine.
        archon: Of the Archon engine.
        fsdp: Of the FSDP engine.
        resumes: Checkpoint of the first two steps, by others; only the third one is run.
        mistake: What is left out on purpose: "sum_values" or "sum_gradients" of a split model.
        saves: Where to write the checkpoint of the first two steps; no more are run.
    """

    backend: str
    model: str = "qwen3"
    fields: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    archon: dict[str, Any] = field(default_factory=dict)
    fsdp: dict[str, Any] = field(default_factory=dict)
    resumes: str | None = None
    saves: str | None = None
    mistake: str | None = None

    @property
    def name(self) -> str:
        extra = [f"{k}={v}" for d in (self.fields, self.config, self.archon) for k, v in d.items()]
        extra += [] if self.mistake is None else [f"without {self.mistake}"]
        extra += ["resumes"] * (self.resumes is not None) + ["saves"] * (self.saves is not None)
        return " ".join([self.model, self.backend, *extra])


def make_engine(case: Case, backend: str | None = None) -> PackedTrainEngine:
    """Makes the engine of a case, or of the same model on another split."""
    backend = backend or case.backend
    kind = ModelAllocation.from_str(backend)
    is_whole = kind.parallel.world_size == 1
    options = {"offload_params": False} if is_whole else {}
    optimizer = {"lr": 1e-3, "warmup_steps": 1, "gradient_clipping": 1.0, "weight_decay": 0.01}
    # Adam makes a step of full size of a gradient that is rounding alone, and how far that carries
    # depends on a processor's kernels: with 1e-8 log-probabilities differ by 6.5e-5 on one of them.
    optimizer["eps"] = 1e-6
    settings = {"mb_spec": MicroBatchSpec(n_mbs=2), "disable_dropout": True, **case.config}
    config = TrainEngineConfig(
        experiment_name="e",
        trial_name="t",
        backend=backend,
        optimizer=OptimizerConfig(**{**optimizer, **settings.pop("optimizer", {})}),
        archon=ArchonEngineConfig(**{"ac_mode": "none", **case.archon, **options}),
        fsdp=FSDPEngineConfig(**{**case.fsdp, **options}),
        **settings,
    )
    model = tiny_model(case.model, **case.fields)
    if config.is_critic:
        model = tiny_critic(model)
    if kind.backend == "archon":
        hf_config = copy.deepcopy(model.config)
        lm = build_archon_model(
            hf_config, torch.float32, CPU, config.archon, "a test", config.is_critic
        )
        state = lm.module.state_dict()
        with torch.no_grad():
            for name, tensor in lm.adapter.from_hf(dict(hub_tensors(model, None))).items():
                state[name].copy_(tensor)
    else:
        lm = prepare_model(model, CPU, stays_whole=is_whole)
    made = train_engine_class(backend)(config, SharedWeights(lm))
    made.initialize(None, SPEC)
    made.train()
    return made


def tiny_critic(model: Any) -> Any:
    """Makes a value model with the weights of a language model, and a head of its own."""
    config = copy.deepcopy(model.config)
    make_scalar(config)
    critic = AutoModelForTokenClassification.from_config(config)
    critic.load_state_dict(model.state_dict(), strict=False)
    with torch.no_grad():
        critic.score.weight.copy_(fresh_head(tuple(critic.score.weight.shape)))
    return critic.eval()


def rows_of(lengths: list[int], without_loss: int, seed: int) -> list[dict[str, Any]]:
    """Makes trajectories of one row each."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for i, prompt in enumerate(random_prompts(lengths, seed)):
        mask = (torch.rand(len(prompt), generator=generator) < 0.6).long()
        mask[-1] = 0
        mask[0] = 1
        row = {"input_ids": torch.tensor(prompt), "loss_mask": mask * (i >= without_loss)}
        found.append(pad_sequences_to_tensors([row]))
    return found


def share_of(rows: list[Any], engine: PackedTrainEngine) -> list[Any]:
    """Returns this process's rows, of which there may be none."""
    return rows[engine.data_parallel_rank :: engine.data_parallel_world_size]


def nll(outputs: Tensor, *rest: Any) -> Tensor:
    """Returns the mean loss of log-probabilities, or of a critic's values."""
    mask = rest[-1]["loss_mask"].bool()
    losses = -outputs if len(rest) > 1 else (outputs - 1.0).square()
    # Of no token it is not a number, as a mean is.
    return (losses * mask).sum() / mask.sum()


def num_tokens(data: dict[str, Any]) -> Tensor:
    return data["loss_mask"].sum()


@dataclass
class Found:
    """What an engine computed.

    Attributes:
        logprobs: Of each row of each step, before it and after the last.
        losses: Of each step, and of each evaluation before it.
        norms: Of the gradients.
        gradients: Of the first step, by name.
        weights: After the last step, by their names on the Hub.
    """

    logprobs: dict[str, list[float]] = field(default_factory=dict)
    losses: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    gradients: dict[str, Tensor] = field(default_factory=dict)
    weights: dict[str, Tensor] = field(default_factory=dict)


def run(engine: PackedTrainEngine, steps: range = range(len(STEPS))) -> Found:
    """Evaluates and trains on the steps of these numbers, this process on its share."""
    found = Found()
    for number in steps:
        lengths, without_loss = STEPS[number]
        own = share_of(rows_of(lengths, without_loss, number), engine)
        note_logprobs(found, engine, own, number)
        losses: list[tuple[Tensor, Tensor]] = []

        def loss_fn(*outputs: Any, losses: Any = losses) -> Tensor:
            loss = nll(*outputs)
            losses.append((loss.detach(), num_tokens(outputs[-1])))
            return loss

        evaluated = engine.eval_batch(own, nll, num_tokens)
        found.losses.append(float(evaluated) if evaluated is not None else math.nan)
        stats = engine.train_batch(own, loss_fn, num_tokens)
        engine.lr_scheduler_step()
        assert stats["update_successful"] == 1.0
        found.norms.append(stats["grad_norm"])
        if True:
            parts = [(float(loss * n), float(n)) for loss, n in losses if n]
            total, count = engine.sums_over_data(sum(p[0] for p in parts), sum(p[1] for p in parts))
            found.losses.append(engine.from_last_layers(total / max(count, 1)))
        if number == steps[0]:
            found.gradients = {n: whole(p.grad) for n, p in engine.lm.named_parameters()}
    note_logprobs(found, engine, own, len(STEPS))
    found.weights = {name: t.clone() for name, t in engine.full_parameters()}
    return found


def note_logprobs(found: Found, engine: PackedTrainEngine, own: list[Any], step: int) -> None:
    """Adds the log-probabilities of this process's rows under the numbers of the rows."""
    values = engine.forward_batch(own)
    for i, row in enumerate(own):
        place = engine.data_parallel_rank + i * engine.data_parallel_world_size
        length = row["input_ids"].shape[1]
        found.logprobs[f"{step}.{place}"] = values[i, :length].tolist()


def whole(tensor: Tensor | None) -> Tensor:
    assert tensor is not None
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).clone()


def differences(found: Found, expected: Found) -> dict[str, float]:
    """Returns the largest differences of log-probabilities, losses, gradients and weights.

    Those of losses and norms are relative, those of gradients to the largest of the model.
    """
    assert found.weights.keys() == expected.weights.keys()
    scale = max(float(g.abs().max()) for g in expected.gradients.values())
    return {
        "logprobs": max(
            [
                abs(a - b)
                for place, values in found.logprobs.items()
                for a, b in zip(values, expected.logprobs[place], strict=True)
            ],
            default=0.0,
        ),
        "losses": largest(found.losses, expected.losses),
        "norms": largest(found.norms, expected.norms),
        "gradients": max(
            float((g - expected.gradients[name]).abs().max()) / scale
            for name, g in found.gradients.items()
        ),
        "weights": max(
            float((w - expected.weights[name]).abs().max()) for name, w in found.weights.items()
        ),
    }


def largest(found: list[float], expected: list[float]) -> float:
    assert len(found) == len(expected), (found, expected)
    return max(abs(a - b) / max(abs(b), 1e-6) for a, b in zip(found, expected, strict=True))


def compare(case: Case) -> dict[str, Any]:
    """Runs a case on all processes, and the same on this one."""
    left_out: AbstractContextManager[Any] = nullcontext()
    if case.mistake is not None:
        left_out = mock.patch.object(tensor_plan, case.mistake, lambda x, _: x)
    with left_out:
        engine = make_engine(case)
    check_place(engine)
    steps = range(len(STEPS))
    if case.saves is not None:
        run(engine, steps[:2])
        engine.save(checkpoint(case.saves))
        engine.stage(
            SaveLoadMeta(path=f"{case.saves}-copied", weight_format="hf", with_optim=False)
        )()
        return {}
    if case.resumes is not None:
        engine.load(checkpoint(case.resumes))
        steps = steps[2:]
    with left_out:
        found = run(engine, steps)
    whole_case = copy.deepcopy(case)
    whole_case.config.pop("gradient_checkpointing", None)
    one = make_engine(whole_case, ModelAllocation.from_str(case.backend).backend + ":d1")
    if case.resumes is not None:
        run(one, range(steps[0]))
    expected = run(one, steps)
    check_bad_step(engine)
    return differences(found, expected)


def checkpoint(path: str) -> SaveLoadMeta:
    return SaveLoadMeta(path=path, weight_format="hf", with_optim=True)


def check_place(engine: PackedTrainEngine) -> None:
    heads = dist.get_process_group_ranks(engine.context_and_model_parallel_group)
    assert dist.get_rank() in heads
    assert engine.current_data_parallel_head() == heads[0]
    assert engine.is_data_parallel_head() == (dist.get_rank() == heads[0])
    assert dist.get_backend(engine.cpu_group) == "gloo"
    assert engine.cpu_group.size() == dist.get_world_size()
    assert engine.data_parallel_group.size() * len(heads) == dist.get_world_size()


def check_bad_step(engine: PackedTrainEngine) -> None:
    """Checks that no process takes a step of which one has an infinite loss."""
    before = {name: tensor.clone() for name, tensor in engine.full_parameters()}
    own = share_of(rows_of(*STEPS[0], 0), engine)
    factor = math.inf if engine.data_parallel_rank == 0 else 1.0
    stats = engine.train_batch(own, lambda *args: nll(*args) * factor, num_tokens)
    assert stats["update_successful"] == 0.0, stats
    for name, tensor in engine.full_parameters():
        assert torch.equal(tensor, before[name]), name
