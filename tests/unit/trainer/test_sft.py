"""Supervised training in one process."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from areal.api.cli_args import SFTConfig, load_expr_config
from areal.api.errors import DatasetError
from areal.engine.model.checkpoint import staged_folder
from areal.trainer.recover import RecoverState
from areal.trainer.sft import SFTTrainer, num_loss_tokens, sft_loss_fn
from areal.trainer.supervised import sequence_problems
from tests.tiny_runs import sft_yaml, train_stats

pytestmark = pytest.mark.usefixtures("short_runs")


def trained(path: Path, *overrides: str, **kwargs: Any) -> SFTTrainer:
    config, _ = load_expr_config(["--config", str(path), *overrides], SFTConfig)
    with SFTTrainer(config, **kwargs) as trainer:
        trainer.train()
    return trainer


def test_the_loss_is_the_mean_over_tokens_that_carry_it() -> None:
    logprobs = torch.tensor([-1.0, -2.0, -4.0, -8.0])
    data = {"loss_mask": torch.tensor([1, 0, 1, 0])}
    assert sft_loss_fn(logprobs, logprobs, data).item() == 2.5
    assert num_loss_tokens(data).item() == 2


def test_a_model_learns_and_transformers_reads_it(tmp_path: Path) -> None:
    trained(sft_yaml(tmp_path, total_train_steps=80))
    losses = [stats["loss"] for stats in train_stats(tmp_path)]
    assert losses[0] > 2.0
    assert sum(losses[-5:]) / 5 < 0.6  # what is left is how many sevens to write
    folder = tmp_path / "e" / "t" / "model"
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModelForCausalLM.from_pretrained(folder)
    prompt = tokenizer("3=", return_tensors="pt")["input_ids"]
    answer = model.generate(prompt, max_new_tokens=1, do_sample=False)
    assert tokenizer.decode(answer[0]) == "3=7"


def test_micro_batches_change_nothing_but_the_last_bits(tmp_path: Path) -> None:
    for name, options in (("one", []), ("many", ["actor.mb_spec.n_mbs=3"])):
        trained(sft_yaml(tmp_path / name), *options)
    one, many = (train_stats(tmp_path / name) for name in ("one", "many"))
    for a, b in zip(one, many, strict=True):
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-4)
        assert a["grad_norm"] == pytest.approx(b["grad_norm"], rel=1e-3)
        assert a["n_tokens"] == b["n_tokens"]


def test_the_seed_decides_the_order_of_rows(tmp_path: Path) -> None:
    losses = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        trained(sft_yaml(tmp_path / name), f"seed={seed}")
        losses.append([stats["loss"] for stats in train_stats(tmp_path / name)])
    assert losses[0] == losses[1]
    assert losses[0] != losses[2]


def test_a_model_written_in_a_thread_is_that_of_its_step(tmp_path: Path) -> None:
    options = ["saver.freq_steps=2", "total_train_steps=5", "recover.mode=disabled"]
    saved = {}
    for mode in ("sync", "async"):
        trained(sft_yaml(tmp_path / mode), *options, f"saver.mode={mode}")
        found = (tmp_path / mode / "e/t").glob("**/model.safetensors")
        saved[mode] = {str(f.relative_to(tmp_path / mode)): f.read_bytes() for f in found}
    assert saved["async"] == saved["sync"]
    assert len(set(saved["sync"].values())) == len(saved["sync"]) == 3  # two, and the last one


def test_what_is_resumed_from_is_no_further_than_the_models_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = staged_folder
    written: list[tuple[int, bool]] = []

    @contextmanager
    def slowly(target: Path) -> Iterator[Path]:
        with sync(target) as folder:
            yield folder
            time.sleep(0.1)

    def note(folder: Path, trained: Any, state: RecoverState, has_optim: bool) -> None:
        saved = f"checkpoints/step_{state.step:08d}" if not state.extra["is_done"] else "model"
        written.append((state.step, (folder.parent / saved).is_dir()))

    monkeypatch.setattr("areal.engine.training.engine.staged_folder", slowly)
    monkeypatch.setattr("areal.trainer.base.save_recover", note)
    options = ["saver.mode=async", "saver.freq_steps=1", "recover.freq_steps=1"]
    trained(sft_yaml(tmp_path, total_train_steps=2), *options)
    assert written == [(1, True), (2, True), (2, True)]


def test_rows_without_loss_are_no_reason_to_stop(tmp_path: Path) -> None:
    silent = {"input_ids": [3, 4, 5], "loss_mask": [0, 0, 0]}
    spoken = {"input_ids": [3, 4, 5], "loss_mask": [0, 1, 1]}
    path = sft_yaml(tmp_path, total_train_steps=6)
    options = ["train_dataset.batch_size=1", "train_dataset.shuffle=false"]
    trainer = trained(path, *options, train_dataset=[silent, spoken, silent])
    steps = train_stats(tmp_path)
    assert ["loss" in stats for stats in steps] == [False, True, False] * 2
    assert trainer.weights.num_updates == 2


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (
            {"input_ids": [3, 4, 5], "loss_mask": [1]},
            "row 1 has 1 values in loss_mask",
        ),
        ({"input_ids": [3, 99], "loss_mask": [0, 1]}, "row 1 has the token 99 in input_ids"),
        ({"input_ids": [3] * 33, "loss_mask": [1] * 33}, "row 1 has 33 tokens in input_ids"),
        ({"input_ids": [3, 4]}, "row 1 has no loss_mask; it has input_ids"),
        ({"input_ids": [3, 4], "loss_mask": [0, 2]}, "row 1 has the value 2 in loss_mask"),
        ({"input_ids": [3, 4], "loss_mask": [-1, 1]}, "row 1 has the value -1 in loss_mask"),
        ({"input_ids": [3, 4], "loss_mask": [0.5, 1]}, "row 1 has the value 0.5 in loss_mask"),
        ({"input_ids": [3, 4], "loss_mask": None}, "row 1 has no list of numbers in loss_mask"),
        ({"input_ids": [3, 4], "loss_mask": [0, None]}, "row 1 has no list of numbers in loss_m"),
        (None, "row 1 is None, and no mapping of columns"),
        ({"input_ids": None, "loss_mask": None}, "row 1 has no list of token ids in input_ids"),
    ],
)
def test_a_row_that_cannot_be_trained_on_is_named(
    tmp_path: Path, row: dict[str, Any] | None, words: str
) -> None:
    good = {"input_ids": [3, 4, 5], "loss_mask": [0, 1, 1]}
    with pytest.raises(DatasetError, match=f"^train_dataset: {words}"):
        trained(sft_yaml(tmp_path), train_dataset=[good, row])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool])
def test_masks_may_be_tensors_of_any_kind(dtype: torch.dtype) -> None:
    mask = torch.tensor([0.0, 1.0]).to(dtype)
    row = {"input_ids": torch.tensor([3, 4]), "loss_mask": mask}
    assert not list(sequence_problems(row, "input_ids", ["loss_mask"], 8, 16))
    if dtype.is_floating_point:
        row["loss_mask"] = mask.requires_grad_()
        assert not list(sequence_problems(row, "input_ids", ["loss_mask"], 8, 16))


def test_tokens_may_be_of_an_unsigned_type(tmp_path: Path) -> None:
    row = {"input_ids": np.array([3, 4, 5], np.uint16), "loss_mask": np.array([0, 1, 1], np.uint8)}
    trained(sft_yaml(tmp_path, total_train_steps=1), train_dataset=[row] * 4)
    assert train_stats(tmp_path)[0]["n_tokens"] == 12


@pytest.mark.parametrize("note", ["x", 1.5, [1, 2], None])
def test_columns_that_nothing_reads_need_not_be_in_every_row(tmp_path: Path, note: Any) -> None:
    row = {"input_ids": [3, 4, 5], "loss_mask": [0, True, 1.0]}
    trained(sft_yaml(tmp_path, total_train_steps=1), train_dataset=[row, {**row, "note": note}] * 2)
    assert train_stats(tmp_path)[0]["n_tokens"] == 12


def test_a_dataset_without_rows_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="train_dataset has no rows"):
        trained(sft_yaml(tmp_path), train_dataset=[])


def test_evaluation_is_the_mean_over_all_tokens(tmp_path: Path) -> None:
    rows = [{"input_ids": [3, 4, 5, 6][:n], "loss_mask": [0, 1, 1, 1][:n]} for n in (2, 4, 3, 4, 2)]
    path = sft_yaml(tmp_path, evaluator={"freq_steps": 2, "eval_before_train": True})
    trainer = trained(path, valid_dataset=rows)
    lines = (tmp_path / "e" / "t" / "stats.jsonl").read_text().splitlines()
    found = [row for row in map(json.loads, lines) if row["kind"] == "eval"]
    assert [row["step"] for row in found] == [0, 2]
    at_end = trainer._evaluate()["loss"]
    model = trainer.weights.module
    model.set_attn_implementation("sdpa")
    total = count = 0.0
    with torch.no_grad():
        for row in rows:
            ids = torch.tensor(row["input_ids"])
            logprobs = model(input_ids=ids[None]).logits[0, :-1].log_softmax(-1)
            total -= logprobs.gather(-1, ids[1:, None]).sum().item()
            count += len(ids) - 1
    assert at_end == pytest.approx(total / count, rel=1e-5)
    assert len({at_end, *(row["stats"]["loss"] for row in found)}) == 3


def test_a_time_line_of_the_chosen_steps_is_written(tmp_path: Path) -> None:
    path = sft_yaml(tmp_path, perf_tracer={"enabled": True, "profile_steps": [1, 2]})
    trained(path)
    file = tmp_path / "e" / "t" / "perf_tracer" / "trainer-rank0.json"
    events = json.loads(file.read_text().rstrip().removesuffix(",") + "]")
    assert [event["name"] for event in events] == ["train_step"] * 2
    assert all(event["dur"] > 0 for event in events)


def test_keys_without_effect_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    trained(sft_yaml(tmp_path), "actor.attn_impl=sdpa")
    (message,) = (each for each in caplog.messages if "without effect" in each)
    assert message.endswith(": actor.attn_impl")
