"""Training on pairs: DPO and a reward model, beside TRL's losses in a loop written by hand.

Both sides begin with the same weights and see the same pairs in the same order.
"""

from __future__ import annotations

import copy
import importlib.util
import statistics
import tempfile
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from areal.api.cli_args import DPOEngineConfig, OptimizerConfig, TrainEngineConfig
from areal.api.io_struct import FinetuneSpec
from areal.dataset.arithmetic import get_arithmetic_dpo_dataset
from areal.engine.loading.huggingface import make_model
from areal.engine.model.shared_weights import SharedWeights
from areal.engine.training.engine import HFTrainEngine
from areal.trainer.dpo import DPOEngine, dpo_modeling_collate_fn
from areal.trainer.rw import RWEngine, rw_modeling_collate_fn
from benchmarks.clock import interleaved_rates, ratio_spread, use_one_thread
from benchmarks.reference_model import SPEC, make_reference, plain_transformers_copy
from benchmarks.results import Result
from benchmarks.settings import Settings

NUM_PAIRS = 64  # of a batch
NUM_BATCHES = 4
LEARNING_RATE = 1e-4
BETA = 0.1
NOISE = 0.02  # between policy and reference
TITLES = {"dpo": "DPO step with its reference", "rw": "reward model step"}
NO_TRL = "TRL is not installed here: pip install 'areal-lite[bench]'"

Step = Callable[[list[dict[str, Any]]], float]  # from the rows of a batch to the loss


def run(settings: Settings) -> list[Result]:
    """Measure pairs per CPU second, and how far the first batch's losses are apart."""
    use_one_thread()
    _, tokenizer = make_reference()
    rows = list(
        get_arithmetic_dpo_dataset(
            tokenizer=tokenizer, size=NUM_PAIRS * NUM_BATCHES, unsure_share=0.5
        )
    )
    batches = [rows[i : i + NUM_PAIRS] for i in range(0, len(rows), NUM_PAIRS)]
    results = []
    for kind, make_sides in {"dpo": _dpo_sides, "rw": _rw_sides}.items():
        with tempfile.TemporaryDirectory(prefix="areal-bench-") as scratch:
            results += _compare(kind, make_sides(tokenizer, rows, scratch), batches, settings)
    return results


def _compare(
    kind: str, sides: dict[str, Step], batches: list[list[dict[str, Any]]], settings: Settings
) -> list[Result]:
    first = {side: step(batches[0]) for side, step in sides.items()}
    rates = interleaved_rates(
        {side: lambda s=step: _train_on(s, batches) for side, step in sides.items()},
        settings.repetitions,
    )
    theirs = rates.get("trl")
    step = Result(
        f"pairs.{kind}.step",
        f"{TITLES[kind]}, {NUM_PAIRS} pairs",
        statistics.median(rates["ours"]),
        "pairs/CPU-s",
        statistics.median(theirs) if theirs else None,
        "TRL's loss",
        note=ratio_spread(rates["ours"], theirs) if theirs else NO_TRL,
    )
    if theirs is None:
        return [step]
    apart = Result(
        f"pairs.{kind}.loss",
        f"its loss on one batch, {first['ours']:.4f}, beside TRL's",
        abs(first["ours"] - first["trl"]),
        "",
        is_higher_better=False,
    )
    return [step, apart]


def _train_on(step: Step, batches: list[list[dict[str, Any]]]) -> int:
    for rows in batches:
        step(rows)
    return len(batches) * NUM_PAIRS


def _dpo_sides(tokenizer: Any, rows: list[dict[str, Any]], folder: str) -> dict[str, Step]:
    policy, _ = make_reference()
    reference, _ = make_reference()
    with torch.no_grad():  # at equal weights the loss is log 2, whatever the formula
        generator = torch.Generator().manual_seed(1)
        for parameter in reference.module.parameters():
            parameter += NOISE * torch.randn(parameter.shape, generator=generator)
    copies = [plain_transformers_copy(each.module) for each in (policy, reference)]
    config = DPOEngineConfig(backend="fsdp:d1", beta=BETA, optimizer=_optimizer())
    ours, ref = DPOEngine(_engine(config, policy)), DPOEngine(_engine(config, reference))

    def step(batch: list[dict[str, Any]]) -> float:
        data = dpo_modeling_collate_fn(batch)
        logprobs = ref.compute_logp(data)
        for row, each in zip(logprobs, data, strict=True):
            each["ref_logprobs"] = row[None, : each["input_ids"].shape[1]]
        return ours.train_dpo(data)["dpo/loss"]

    sides: dict[str, Step] = {"ours": step}
    if importlib.util.find_spec("trl") is not None:
        from trl import DPOConfig, DPOTrainer

        trainer = DPOTrainer(
            model=copies[0],
            ref_model=copies[1],
            args=DPOConfig(output_dir=folder, beta=BETA, **_trl_options()),
            train_dataset=_texts(),
            processing_class=tokenizer,
        )
        sides["trl"] = _trl_step(trainer, _prompted)
    return sides


def _rw_sides(tokenizer: Any, rows: list[dict[str, Any]], folder: str) -> dict[str, Step]:
    model = make_model(SPEC, tokenizer, torch.float32, torch.device("cpu"), is_critic=True)
    theirs = _sequence_classifier(model)
    config = TrainEngineConfig(backend="fsdp:d1", is_critic=True, optimizer=_optimizer())
    ours = RWEngine(_engine(config, SharedWeights(model)))
    sides: dict[str, Step] = {
        "ours": lambda batch: ours.train_rw(rw_modeling_collate_fn(batch))["rw/loss"]
    }
    if importlib.util.find_spec("trl") is not None:
        from trl import RewardConfig, RewardTrainer

        trainer = RewardTrainer(
            model=theirs,
            args=RewardConfig(output_dir=folder, **_trl_options()),
            train_dataset=_texts(),
            processing_class=tokenizer,
        )
        sides["trl"] = _trl_step(trainer, lambda row: row)
    return sides


def _engine(config: TrainEngineConfig, weights: SharedWeights) -> HFTrainEngine:
    engine = HFTrainEngine(config, weights)
    engine.initialize(
        None, FinetuneSpec(total_train_epochs=1, dataset_size=1000, train_batch_size=1)
    )
    return engine


def _optimizer() -> OptimizerConfig:
    return OptimizerConfig(lr=LEARNING_RATE, lr_scheduler_type="constant")


def _sequence_classifier(model: Any) -> nn.Module:
    from transformers import AutoModelForSequenceClassification

    theirs = AutoModelForSequenceClassification.from_config(
        copy.deepcopy(model.config), dtype=torch.float32, attn_implementation="sdpa"
    )
    theirs.load_state_dict(model.state_dict())
    return theirs


def _texts() -> Any:
    """Return rows that TRL's trainers take apart when they are made, and that nothing reads."""
    from datasets import Dataset

    return Dataset.from_list([{"prompt": "1+1=", "chosen": "2", "rejected": "3"}])


def _trl_options() -> dict[str, Any]:
    return {
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "disable_tqdm": True,
        "report_to": "none",
    }


def _trl_step(trainer: Any, to_trl: Callable[[dict[str, Any]], dict[str, Any]]) -> Step:
    """Return a step on TRL's batch and loss, as one writes it by hand."""
    model = trainer.model
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)

    def step(batch: list[dict[str, Any]]) -> float:
        inputs: dict[str, Tensor] = trainer.data_collator([to_trl(row) for row in batch])
        optimizer.zero_grad(set_to_none=True)
        loss = trainer.compute_loss(model, inputs)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return step


def _prompted(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with what both sides begin with apart, where no loss is."""
    length = list(row["chosen_loss_mask"]).index(1)
    return {
        "prompt_ids": list(row["chosen_ids"][:length]),
        "chosen_ids": list(row["chosen_ids"][length:]),
        "rejected_ids": list(row["rejected_ids"][length:]),
    }
