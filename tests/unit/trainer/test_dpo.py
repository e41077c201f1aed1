"""Direct preference optimisation in one process."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from areal.api.cli_args import DPOConfig, load_expr_config
from areal.api.errors import ConfigError
from areal.trainer.dpo import DPOTrainer, compute_dpo_loss, dpo_modeling_collate_fn
from areal.trainer.runtime import load_rows, make_tokenizer
from areal.utils import stats_tracker
from tests.tiny_runs import get_digits_dpo_dataset, pairs_yaml, train_stats

pytestmark = pytest.mark.usefixtures("short_runs")
VALID = {
    "path": "tests.tiny_runs.get_digits_dpo_dataset",
    "type": "dpo",
    "batch_size": 16,
    "dataset_kwargs": {"size": 50},
}
LOSS_TYPES = ["sigmoid", "ipo"]


def trained(path: Path, *overrides: str, **kwargs: Any) -> DPOTrainer:
    config, _ = load_expr_config(["--config", str(path), *overrides], DPOConfig)
    if config.valid_dataset is not None:
        tokenizer = make_tokenizer(config, config.actor)
        kwargs["valid_dataset"] = load_rows(config.valid_dataset, tokenizer)
    with DPOTrainer(config, **kwargs) as trainer:
        trainer.train()
    return trainer


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Trains for a few steps, and returns a checkpoint that is no longer the fresh model."""
    folder = tmp_path_factory.mktemp("start")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("areal.trainer.report.run_log.draw_curve", lambda *_: False)
        trained(pairs_yaml(folder, "dpo"))
    return str(folder / "e" / "t" / "model")


def direct_loss(
    policy: list[list[float]],
    ref: list[list[float]],
    lengths: list[int],
    beta: float,
    loss_type: str,
) -> float:
    """The formulas as TRL documents them, of the summed log-probabilities of each pair's sides."""
    losses = []
    for number, (ours, theirs) in enumerate(zip(policy, ref, strict=True)):
        ratios = [a - b for a, b in zip(ours, theirs, strict=True)]
        if loss_type == "ipo":
            ratios = [r / lengths[2 * number + side] for side, r in enumerate(ratios)]
            losses.append((ratios[0] - ratios[1] - 1 / (2 * beta)) ** 2)
        else:
            losses.append(math.log1p(math.exp(-beta * (ratios[0] - ratios[1]))))
    return sum(losses) / len(losses)


@pytest.fixture
def clean_statistics() -> Iterator[None]:
    stats_tracker.export_all()
    yield
    stats_tracker.export_all()


@pytest.mark.usefixtures("clean_statistics")
@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_the_loss_is_the_formula_and_its_statistics_are_recorded(loss_type: str) -> None:
    torch.manual_seed(0)
    lengths, prompt, beta = [5, 7, 4, 3], 2, 0.3
    num_tokens = sum(lengths)
    logprobs = -torch.rand(num_tokens, requires_grad=True) * 3
    ref_logprobs = -torch.rand(num_tokens) * 3
    mask, ends, policy, ref = [], [0], [], []
    for length in lengths:
        first, last = ends[-1] + prompt, ends[-1] + length
        mask += [0] * prompt + [1] * (length - prompt)
        ends.append(last)
        # Entry t belongs to token t + 1.
        policy.append(float(logprobs[first - 1 : last - 1].detach().sum()))
        ref.append(float(ref_logprobs[first - 1 : last - 1].sum()))
    data = {
        "cu_seqlens": torch.tensor(ends, dtype=torch.int32),
        "loss_mask": torch.tensor(mask),
        "ref_logprobs": ref_logprobs,
    }
    sides = [length - prompt for length in lengths]
    pairs = [[side[i : i + 2] for i in (0, 2)] for side in (policy, ref)]
    loss = compute_dpo_loss(logprobs, None, data, beta=beta, loss_type=loss_type)
    expected = direct_loss(pairs[0], pairs[1], sides, beta, loss_type)
    assert loss.item() == pytest.approx(expected, rel=1e-6)
    rewards = [beta * (a - b) for a, b in zip(policy, ref, strict=True)]
    margins = [rewards[0] - rewards[1], rewards[2] - rewards[3]]
    found = stats_tracker.export_all()
    assert found.keys() == {
        "n_pairs",
        "loss",
        "chosen_reward",
        "rejected_reward",
        "reward_accuracy",
        "reward_margin",
    }
    assert found["n_pairs"] == 2
    assert found["chosen_reward"] == pytest.approx((rewards[0] + rewards[2]) / 2, rel=1e-5)
    assert found["rejected_reward"] == pytest.approx((rewards[1] + rewards[3]) / 2, rel=1e-5)
    assert found["reward_margin"] == pytest.approx(sum(margins) / 2, rel=1e-5)
    assert found["reward_accuracy"] == sum(margin > 0 for margin in margins) / 2


def test_rows_become_chosen_and_rejected_in_turn() -> None:
    row = {
        "chosen_ids": [1, 2, 3],
        "chosen_loss_mask": [0, 1, 1],
        "rejected_ids": [1, 4],
        "rejected_loss_mask": [0, 1],
    }
    chosen, rejected = dpo_modeling_collate_fn([row])
    assert chosen["input_ids"].tolist() == [[1, 2, 3]]
    assert chosen["loss_mask"].tolist() == [[0, 1, 1]]
    assert rejected["input_ids"].tolist() == [[1, 4]]
    assert rejected["attention_mask"].tolist() == [[True, True]]


def answer_logps(model: Any, row: dict[str, Any]) -> list[float]:
    """What transformers' own forward gives the two answers, one sequence at a time."""
    sums = []
    for side in ("chosen", "rejected"):
        ids = torch.tensor(row[f"{side}_ids"])
        mask = torch.tensor(row[f"{side}_loss_mask"])[1:]
        with torch.no_grad():
            logprobs: Tensor = model(input_ids=ids[None]).logits[0, :-1].double().log_softmax(-1)
        sums.append(float((logprobs.gather(-1, ids[1:, None])[:, 0] * mask).sum()))
    return sums


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_evaluation_is_what_two_models_of_transformers_give(
    tmp_path: Path, start: str, loss_type: str
) -> None:
    path = pairs_yaml(tmp_path, "dpo", valid_dataset=VALID)
    trainer = trained(
        path, f"actor.path={start}", f"ref.path={start}", f"actor.loss_type={loss_type}"
    )
    found = trainer._evaluate()
    rows = [trainer.valid_dataset[i] for i in range(len(trainer.valid_dataset))]
    policy, ref = (
        [answer_logps(model, row) for row in rows]
        for model in map(
            AutoModelForCausalLM.from_pretrained, (tmp_path / "e" / "t" / "model", start)
        )
    )
    lengths = [sum(row[f"{side}_loss_mask"]) for row in rows for side in ("chosen", "rejected")]
    expected = direct_loss(policy, ref, lengths, 0.1, loss_type)
    assert found["dpo-eval/loss"] == pytest.approx(expected, rel=1e-6)
    assert found["loss"] == found["dpo-eval/loss"]
    assert found["dpo-eval/n_pairs"] == 50
    better = [p[0] - r[0] > p[1] - r[1] for p, r in zip(policy, ref, strict=True)]
    assert found["accuracy"] == pytest.approx(sum(better) / 50)


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_a_model_learns_to_prefer(tmp_path: Path, loss_type: str) -> None:
    path = pairs_yaml(tmp_path, "dpo", total_train_steps=30, valid_dataset=VALID)
    trainer = trained(path, f"actor.loss_type={loss_type}", "evaluator.eval_before_train=true")
    assert trainer._evaluate()["accuracy"] > 0.95
    lines = (tmp_path / "e" / "t" / "stats.jsonl").read_text().splitlines()
    (before,) = (row["stats"] for row in map(json.loads, lines) if row["kind"] == "eval")
    # Policy and reference are one model at first: no pair has a margin.
    assert (before["accuracy"], before["margin"]) == (0.0, 0.0)
    assert before["loss"] == pytest.approx(math.log(2) if loss_type == "sigmoid" else 25.0)
    assert trainer.num_sequences == 30 * 4 * 2


def test_a_run_ends_when_its_aim_is_reached(tmp_path: Path) -> None:
    path = pairs_yaml(tmp_path, "dpo", total_train_steps=60)
    trained(path, "run.stop_at_accuracy=0.8", "total_train_steps=7")
    # Ten steps of one run in two processes' worth of it: the first seven are remembered.
    trained(path, "run.stop_at_accuracy=0.8")
    found = [stats["accuracy"] for stats in train_stats(tmp_path)]
    means = [sum(found[end - 10 : end]) / 10 for end in range(10, len(found) + 1)]
    assert means[-1] > 0.8
    assert all(mean <= 0.8 for mean in means[:-1])


@pytest.mark.parametrize("bound", ["1.0", "nan", "-0.1"])
def test_an_aim_that_is_never_or_always_reached_is_refused(tmp_path: Path, bound: str) -> None:
    with pytest.raises(ConfigError, match="stop_at_accuracy must be at least 0 and below 1"):
        trained(pairs_yaml(tmp_path, "dpo"), f"run.stop_at_accuracy={bound}")


def test_micro_batches_keep_pairs_and_change_only_the_last_bits(tmp_path: Path) -> None:
    for name, options in (("one", []), ("many", ["actor.mb_spec.max_tokens_per_mb=8"])):
        trained(pairs_yaml(tmp_path / name, "dpo"), *options)
    one, many = (train_stats(tmp_path / name) for name in ("one", "many"))
    for a, b in zip(one, many, strict=True):
        for key in ("loss", "margin", "grad_norm"):
            assert a[key] == pytest.approx(b[key], rel=1e-3, abs=1e-6)
        assert a["dpo/n_pairs"] == b["dpo/n_pairs"] == 4


def test_the_reference_may_run_on_another_engine(tmp_path: Path, start: str) -> None:
    paths = [f"actor.path={start}", f"ref.path={start}"]
    trained(pairs_yaml(tmp_path / "same", "dpo"), *paths)
    other = trained(pairs_yaml(tmp_path / "other", "dpo"), *paths, "ref.backend=archon:d1")
    assert type(other.ref) is not type(other.actor)
    same, found = (train_stats(tmp_path / name) for name in ("same", "other"))
    for a, b in zip(same, found, strict=True):
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-5)
        assert a["grad_norm"] == pytest.approx(b["grad_norm"], rel=1e-4)


def test_rows_with_log_probabilities_need_no_reference(tmp_path: Path, start: str) -> None:
    options = [f"actor.path={start}", "ref.path="]
    with_model = trained(pairs_yaml(tmp_path / "model", "dpo"), options[0], f"ref.path={start}")
    assert with_model._reference is not None
    rows = []
    for row in get_digits_dpo_dataset("", "train", with_model.tokenizer):
        logprobs = with_model._reference.compute_logp(dpo_modeling_collate_fn([row]))
        for side, values in zip(("chosen", "rejected"), logprobs, strict=True):
            length = len(row[f"{side}_ids"])
            row[f"{side}_ref_logprobs"] = values[:length].tolist()
        rows.append(row)
    without = trained(pairs_yaml(tmp_path / "rows", "dpo"), *options, train_dataset=rows)
    assert without.ref is None
    expected, found = (
        [step["loss"] for step in train_stats(tmp_path / name)] for name in ("model", "rows")
    )
    assert found == pytest.approx(expected, rel=1e-5)
