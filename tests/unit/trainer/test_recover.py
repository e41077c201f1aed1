"""Resuming: the same command goes on as if nothing had happened, wherever the run was killed."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from areal.api.cli_args import DPOConfig, GRPOConfig, RWConfig, SFTConfig, load_expr_config
from areal.api.errors import ConfigError
from areal.engine.training import engine as train_engine
from areal.trainer import recover
from areal.trainer.base import BaseTrainer
from areal.trainer.cli import main
from areal.trainer.dpo import DPOTrainer
from areal.trainer.ppo import PPOTrainer
from areal.trainer.recover import find_recover
from areal.trainer.report.records import read_rows
from areal.trainer.run import run_training
from areal.trainer.rw import RWTrainer
from areal.trainer.sft import SFTTrainer
from areal.utils.dataloader import SeededSampler
from tests.tiny_archon import BACKENDS
from tests.tiny_runs import (
    DigitWorkflow,
    get_digits_rl_dataset,
    pairs_yaml,
    rl_yaml,
    sft_yaml,
    train_stats,
)

pytestmark = [pytest.mark.heavy, pytest.mark.usefixtures("short_runs")]
NUM_ROWS = 10  # two and a half batches, so that batches reach over epochs
STEPS = 7
COSINE = "actor.optimizer.lr_scheduler_type=cosine"


class Killed(BaseException):
    """Takes the place of the end of the process."""


class NumberedWorkflow(DigitWorkflow):
    """Lets each trajectory say of which row it is."""

    def finish(self, data: dict[str, Any], trajectory: dict[str, Any]) -> Any:
        return trajectory | {"row": torch.tensor([data["row"]])}


class Mortal:
    """Makes a trainer die at a step, at one of several places."""

    dies_at: tuple[str, int] | None = None

    def _die_if(self, place: str) -> None:
        if self.dies_at == (place, self.step):  # type: ignore[attr-defined]
            raise Killed

    def _save_recover(self, is_done: bool) -> None:
        super()._save_recover(is_done)  # type: ignore[misc]  # of the trainer it is mixed into
        self._die_if("after save")

    def _save_final_model(self) -> None:
        super()._save_final_model()  # type: ignore[misc]
        self._die_if("after model")

    def _train_step(self) -> Any:
        result = super()._train_step()  # type: ignore[misc]
        self._die_if("after update")
        return result


class MortalPPO(Mortal, PPOTrainer):
    """Also writes down which rows it trains on."""

    def __init__(self, config: Any, valid_dataset: Any) -> None:
        super().__init__(config, valid_dataset=valid_dataset)
        self.rows: dict[int, list[int]] = {}
        self.pending: list[int] = []

    def _update(self, batch: dict[str, Any]) -> dict[str, Any]:
        self.rows[self.step] = batch["row"].tolist()[:: self.config.gconfig.n_samples]
        return super()._update(batch)

    def close(self, status: str = "completed") -> Any:
        pending = self.rollout.workflow_executor.pending_rows()
        self.pending = [row["row"] for row in pending]
        return super().close(status)


class MortalSFT(Mortal, SFTTrainer):
    """Also remembers the settings of its optimiser, which ends with the run."""

    decay: tuple[float, float]

    def _update(self, batch: dict[str, Any]) -> dict[str, Any]:
        assert self.actor.optimizer is not None
        settings = self.actor.optimizer.param_groups[0]
        self.decay = settings["weight_decay"], settings["betas"][0]
        return super()._update(batch)


class MortalDPO(Mortal, DPOTrainer):
    """Dies too."""


class MortalRW(Mortal, RWTrainer):
    """Dies too."""


ON_PAIRS: dict[str, tuple[Any, Any]] = {"dpo": (MortalDPO, DPOConfig), "rw": (MortalRW, RWConfig)}


def run_rl(folder: Path, dies_at: tuple[str, int] | None, *overrides: str) -> MortalPPO:
    path = rl_yaml(
        folder,
        total_train_steps=STEPS,
        recover={"freq_steps": 2},
        evaluator={"freq_steps": 3},
    )
    size = f"train_dataset.dataset_kwargs={{size: {NUM_ROWS}}}"
    config, _ = load_expr_config(["--config", str(path), size, *overrides], GRPOConfig)
    trainer = MortalPPO(config, get_digits_rl_dataset("", size=3))
    trainer.dies_at = dies_at
    try:
        with trainer:
            trainer.train(NumberedWorkflow)
        assert dies_at is None
    except Killed:
        pass
    return trainer


def run_sft(folder: Path, dies_at: tuple[str, int] | None, *overrides: str) -> MortalSFT:
    path = sft_yaml(folder, total_train_steps=STEPS, recover={"freq_steps": 2})
    size = f"train_dataset.dataset_kwargs={{size: {NUM_ROWS}}}"
    config, _ = load_expr_config(["--config", str(path), size, *overrides], SFTConfig)
    trainer = MortalSFT(config)
    trainer.dies_at = dies_at
    try:
        with trainer:
            trainer.train()
    except Killed:
        pass
    return trainer


def run_pairs(folder: Path, kind: str, dies_at: tuple[str, int] | None) -> Any:
    path = pairs_yaml(folder, kind, total_train_steps=STEPS, recover={"freq_steps": 2})
    size = f"train_dataset.dataset_kwargs={{size: {NUM_ROWS}}}"
    trainer_class, config_class = ON_PAIRS[kind]
    trainer = trainer_class(load_expr_config(["--config", str(path), size], config_class)[0])
    trainer.dies_at = dies_at
    try:
        with trainer:
            trainer.train()
        assert dies_at is None
    except Killed:
        pass
    return trainer


def weights(trainer: BaseTrainer) -> list[torch.Tensor]:
    return [p.detach().clone() for e in trainer.trained.values() for p in e.module.parameters()]


def assert_same(found: BaseTrainer, expected: BaseTrainer, *folders: Path) -> None:
    """Checks that losses and weights agree to the last bit."""
    names = ["loss", "grad_norm", "reward", "lr"]
    names += [f"ppo_critic/{name}" for name in ("critic_loss", "old_value", "grad_norm", "lr")]
    losses = [[[s.get(n) for n in names] for s in train_stats(f)] for f in folders]
    assert losses[0] == losses[1]
    pairs = zip(weights(found), weights(expected), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


PLACES = [
    pytest.param(("after update", 0), marks=pytest.mark.slow),
    ("after update", 3),
    ("after save", 2),
    pytest.param(("after update", 6), marks=pytest.mark.slow),
]


CRITIC = [
    "run.algorithm=ppo",
    "critic.ppo_n_minibatches=2",
    "critic.optimizer={lr: 0.02, lr_scheduler_type: linear, warmup_steps: 2}",
    COSINE,
]


# Supervised training below goes on with every backend in every run.
@pytest.fixture(
    scope="module",
    params=[
        BACKENDS[0],
        *(pytest.param(each, marks=pytest.mark.slow) for each in BACKENDS[1:]),
        f"{BACKENDS[0]} with a critic",
        *(pytest.param(f"{each} with a critic", marks=pytest.mark.slow) for each in BACKENDS[1:]),
    ],
)
def whole_rl(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[MortalPPO, Path, list[str]]:
    folder = tmp_path_factory.mktemp("whole")
    backend, _, rest = request.param.partition(" ")
    options = [f"actor.backend={backend}", "rollout.deterministic_sampling=true"]
    options += CRITIC if rest else []
    return run_rl(folder, None, *options), folder, options


@pytest.mark.parametrize("dies_at", PLACES, ids=str)
def test_policy_optimisation_goes_on_bit_for_bit(
    tmp_path: Path, whole_rl: tuple[MortalPPO, Path, list[str]], dies_at: tuple[str, int]
) -> None:
    expected, folder, options = whole_rl
    killed = run_rl(tmp_path, dies_at, *options)
    resumed = run_rl(tmp_path, None, *options)
    assert_same(resumed, expected, tmp_path, folder)
    rows = killed.rows | resumed.rows
    assert rows == expected.rows
    assert resumed.num_sequences == expected.num_sequences == STEPS * 16
    assert {engine.get_version() for engine in resumed.trained.values()} == {STEPS}
    if resumed.critic is not None:
        rates = [stats["ppo_critic/lr"] for stats in train_stats(tmp_path)]
        assert len(set(rates)) == STEPS


@pytest.fixture(scope="module", params=BACKENDS)
def whole_sft(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[MortalSFT, Path, list[str]]:
    folder, options = tmp_path_factory.mktemp("whole"), [f"actor.backend={request.param}", COSINE]
    return run_sft(folder, None, *options), folder, options


@pytest.mark.parametrize("dies_at", PLACES, ids=str)
def test_supervised_training_goes_on_bit_for_bit(
    tmp_path: Path, whole_sft: tuple[MortalSFT, Path, list[str]], dies_at: tuple[str, int]
) -> None:
    expected, folder, options = whole_sft
    run_sft(tmp_path, dies_at, *options)
    resumed = run_sft(tmp_path, None, *options)
    assert_same(resumed, expected, tmp_path, folder)


@pytest.mark.parametrize("kind", ON_PAIRS)
def test_training_on_pairs_goes_on_bit_for_bit(tmp_path: Path, kind: str) -> None:
    expected = run_pairs(tmp_path / "whole", kind, None)
    run_pairs(tmp_path / "killed", kind, ("after update", 5))
    resumed = run_pairs(tmp_path / "killed", kind, None)
    assert_same(resumed, expected, tmp_path / "killed", tmp_path / "whole")


def test_dropout_goes_on_bit_for_bit(tmp_path: Path) -> None:
    # Killed within an epoch: going on makes an iterator that the uninterrupted run does not.
    options = ["run.model.architecture=gpt2", "train_dataset.dataset_kwargs={size: 40}"]
    # Of GPT-2's default dropouts the attention's is not available.
    made = train_engine.make_model

    def without_attention_dropout(*args: Any) -> Any:
        model = made(*args)
        for module in model.modules():
            if hasattr(module, "attn_dropout"):
                module.attn_dropout.p = 0.0
        return model

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train_engine, "make_model", without_attention_dropout)
        expected = run_sft(tmp_path / "whole", None, *options)
        run_sft(tmp_path / "killed", ("after save", 4), *options)
        resumed = run_sft(tmp_path / "killed", None, *options)
    assert_same(resumed, expected, tmp_path / "killed", tmp_path / "whole")


@pytest.mark.parametrize("offpolicyness", [0, 2])
def test_no_row_is_lost_or_trained_twice(tmp_path: Path, offpolicyness: int) -> None:
    options = [f"rollout.max_head_offpolicyness={offpolicyness}", "train_dataset.drop_last=false"]
    rows: dict[int, list[int]] = {}
    for dies_at in (("after update", 3), ("after save", 4), ("after update", 5), None):
        trainer = run_rl(tmp_path, dies_at, *options)
        rows |= trainer.rows  # steps after the last checkpoint are done again
    assert sorted(rows) == list(range(STEPS))
    trained = [row for step in range(STEPS) for row in rows[step]]
    sampler = SeededSampler(NUM_ROWS, seed=1)
    stream = [row for _ in range(20) for row in sampler]  # epoch after epoch
    read = Counter(trained) + Counter(trainer.pending)
    assert read == Counter(stream[: read.total()])
    if offpolicyness == 0:
        assert trained == stream[: len(trained)]


@pytest.mark.parametrize("option", ["recover.no_save_optim=true", "recover.no_load_optim=true"])
def test_without_the_optimiser_the_schedule_goes_on_all_the_same(
    tmp_path: Path, option: str
) -> None:
    options = [option, "actor.optimizer.lr_scheduler_type=linear", "actor.optimizer.warmup_steps=2"]
    run_sft(tmp_path / "whole", None, *options)
    run_sft(tmp_path / "killed", ("after save", 4), *options)
    run_sft(tmp_path / "killed", None, *options)
    rates = [[s["lr"] for s in train_stats(tmp_path / name)] for name in ("killed", "whole")]
    assert rates[0] == pytest.approx(rates[1])


def test_an_optimiser_goes_on_with_the_settings_of_the_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run_sft(tmp_path, ("after save", 4))
    settings = {"lr": 0.002, "weight_decay": 0.3, "beta1": 0.5}
    changed = [f"actor.optimizer.{name}={value}" for name, value in settings.items()]
    trainer = run_sft(tmp_path, None, *changed)
    assert [s["lr"] for s in train_stats(tmp_path)] == [0.01] * 4 + [0.002] * 3
    assert trainer.decay == (0.3, 0.5)
    (said,) = [text for text in caplog.messages if "actor.optimizer" in text]
    assert "lr 0.01 -> 0.002" in said


def test_a_longer_trial_goes_on_at_the_rates_of_its_new_length(tmp_path: Path) -> None:
    linear = "actor.optimizer.lr_scheduler_type=linear"
    run_sft(tmp_path, None, linear)
    run_sft(tmp_path, None, linear, "total_train_steps=9")
    found = [s["lr"] for s in train_stats(tmp_path)][STEPS:]
    assert found == pytest.approx([0.01 * (9 - step) / 9 for step in (7, 8)])


# --- the files ------------------------------------------------------------------------------------


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("run", [run_sft, run_rl])
def test_a_complete_trial_is_not_run_again(
    run: Callable[..., BaseTrainer], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run(tmp_path, None)
    before = files_of(tmp_path / "e/t")
    again = run(tmp_path, None)
    assert (again.is_complete, again.step) == (True, STEPS)
    assert "nothing to do: this trial is complete" in caplog.text
    assert files_of(tmp_path / "e/t") == before
    over = run(tmp_path, None, "recover.mode=disabled")
    assert (over.is_complete, over.step) == (False, STEPS)


def test_a_complete_trial_goes_on_where_more_steps_are_asked_for(tmp_path: Path) -> None:
    first = run_sft(tmp_path, None)
    longer = run_sft(tmp_path, None, "total_train_steps=9")
    assert (longer.is_complete, longer.step) == (False, 9)
    assert longer.run_id == first.run_id != ""
    rows = read_rows(tmp_path / "e/t/stats.jsonl")
    assert [row["step"] for row in rows if row["kind"] == "train"] == list(range(1, 10))
    ids = {row["run_id"] for row in rows if row["kind"] in ("start", "resume")}
    assert ids == {first.run_id}


def test_a_complete_trial_is_not_made_shorter(tmp_path: Path) -> None:
    run_sft(tmp_path, None)
    with pytest.raises(ConfigError, match=r"7 steps, of 7 that were planned, and 5 are asked for"):
        run_sft(tmp_path, None, "total_train_steps=5")


def test_starting_over_keeps_the_earlier_run_in_a_folder_of_its_own(tmp_path: Path) -> None:
    first = run_sft(tmp_path, None)
    before = files_of(tmp_path / "e/t")
    second = run_sft(tmp_path, None, "recover.mode=disabled")
    third = run_sft(tmp_path, None, "recover.mode=disabled")
    assert len({each.run_id for each in (first, second, third)}) == 3
    kept = {
        path.replace("/e/t.1/", "/e/t/"): data
        for path, data in files_of(tmp_path / "e/t.1").items()
    }
    assert kept == before
    ids = [
        json.loads((tmp_path / f"e/{name}/run.json").read_text())["run_id"]
        for name in ("t.1", "t.2", "t")
    ]
    assert ids == [first.run_id, second.run_id, third.run_id]
    assert not (tmp_path / "e/t/recover").exists()


def test_a_run_that_ended_before_its_first_checkpoint_is_another_run(tmp_path: Path) -> None:
    folder = tmp_path / "e/t"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{}")
    assert run_sft(tmp_path, None).step == STEPS
    assert (tmp_path / "e/t.1/run.json").read_text() == "{}"


def test_the_command_of_a_complete_trial_succeeds(tmp_path: Path) -> None:
    command = ["train", "-c", str(sft_yaml(tmp_path, recover={"mode": "on"}))]
    first, second = (CliRunner().invoke(main, command) for _ in range(2))
    assert (first.exit_code, second.exit_code) == (0, 0)
    assert "run completed" in first.output
    assert "step" not in second.output


def test_a_trial_that_says_it_is_complete_has_its_model(tmp_path: Path) -> None:
    run_sft(tmp_path, ("after model", STEPS))
    shutil.rmtree(tmp_path / "e/t/model")
    assert run_sft(tmp_path, None).step == STEPS
    assert (tmp_path / "e/t/model/model.safetensors").is_file()


def test_only_the_newest_checkpoint_is_kept(tmp_path: Path) -> None:
    run_sft(tmp_path, ("after save", 4))
    folder = tmp_path / "e/t/recover"
    assert [path.name for path in folder.iterdir()] == ["step_00000004"]


def test_leftovers_of_a_killed_write_are_cleared(tmp_path: Path) -> None:
    run_sft(tmp_path, ("after save", 4))
    folder = tmp_path / "e/t/recover"
    shutil.copytree(folder / "step_00000004", folder / ".step_00000006.staged-123")
    (folder / "step_00000005").mkdir()  # no state file: an older copy, half deleted
    assert find_recover(folder) == folder / "step_00000004"
    assert sorted(path.name for path in folder.iterdir()) == ["step_00000004"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_interrupted_trial_of_another_model_says_so(tmp_path: Path, backend: str) -> None:
    options = [f"actor.backend={backend}"]
    run_sft(tmp_path, ("after save", 4), *options)
    with pytest.raises(ConfigError, match="does not fit the model"):
        run_sft(tmp_path, None, *options, "run.model.hidden_size=16")


@pytest.mark.parametrize("had_critic", [False, True])
def test_an_interrupted_trial_keeps_its_critic_or_does_without(
    tmp_path: Path, had_critic: bool
) -> None:
    options = [["run.algorithm=decoupled_ppo"], ["run.algorithm=decoupled_ppo", "critic={}"]]
    run_rl(tmp_path, ("after save", 4), *options[had_critic])
    saved, wanted = "model and critic", "model"
    if not had_critic:
        saved, wanted = wanted, saved
    words = f"holds {saved}, and this run trains {wanted}; set critic as it was then.*trial_name"
    with pytest.raises(ConfigError, match=words):
        run_rl(tmp_path, None, *options[not had_critic])


@pytest.mark.parametrize(
    ("before", "after", "names"),
    [
        (rl_yaml, sft_yaml, ("PPOTrainer", "SFTTrainer")),
        (sft_yaml, rl_yaml, ("SFTTrainer", "PPOTrainer")),
        (sft_yaml, partial(pairs_yaml, kind="dpo"), ("SFTTrainer", "DPOTrainer")),
    ],
)
def test_a_trial_of_another_trainer_says_so(
    tmp_path: Path, before: Any, after: Any, names: tuple[str, str]
) -> None:
    run_training(["--config", str(before(tmp_path))])
    words = "this trial began with {}, and {} cannot go on with it".format(*names)
    with pytest.raises(ConfigError, match=words):
        run_training(["--config", str(after(tmp_path)), "total_train_steps=5"])


def test_an_interrupted_trial_of_other_rows_says_so(tmp_path: Path) -> None:
    run_sft(tmp_path, ("after save", 4))
    with pytest.raises(ConfigError, match="num_rows"):
        run_sft(tmp_path, None, "train_dataset.dataset_kwargs={size: 20}")


@pytest.mark.parametrize("version", [1, 99])
def test_a_checkpoint_of_another_format_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(recover, "FORMAT_VERSION", version)
        run_sft(tmp_path, ("after save", 4))
    with pytest.raises(ConfigError, match=f"has format {version}, and this version"):
        run_sft(tmp_path, None)


def _emptied(path: Path) -> None:
    path.write_bytes(b"")


def _halved(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


@pytest.mark.parametrize(
    ("damage", "file"),
    [
        (_emptied, "state.pt"),
        (_halved, "state.pt"),
        (_halved, "model/training_state/__0_0.distcp"),
        (Path.unlink, "model/training_state/.metadata"),
    ],
)
def test_a_damaged_checkpoint_says_so(
    tmp_path: Path, damage: Callable[[Path], None], file: str
) -> None:
    run_sft(tmp_path, ("after save", 4))
    checkpoint = find_recover(tmp_path / "e/t/recover")
    assert checkpoint is not None
    damage(checkpoint / file)
    with pytest.raises(ConfigError, match="its checkpoint is damaged") as caught:
        run_sft(tmp_path, None)
    text = str(caught.value)
    assert str((checkpoint / file).parent) in text
    assert "\n" not in text, "what PyTorch says besides is in the cause"


def test_a_trial_is_trained_by_one_process_at_a_time(tmp_path: Path) -> None:
    config, _ = load_expr_config(["--config", str(sft_yaml(tmp_path))], SFTConfig)
    with SFTTrainer(config) as first:
        first._start()
        with pytest.raises(ConfigError, match="another process"), SFTTrainer(config) as second:
            second.train()
    with SFTTrainer(config) as third:
        third.train()
    assert len(train_stats(tmp_path)) == 3


def test_with_recovery_off_nothing_is_written_and_a_run_starts_over(tmp_path: Path) -> None:
    run_sft(tmp_path, ("after update", 4), "recover.mode=disabled")
    assert not (tmp_path / "e/t/recover").exists()
    assert run_sft(tmp_path, None, "recover.mode=disabled").step == STEPS
    assert len(train_stats(tmp_path)) == STEPS
