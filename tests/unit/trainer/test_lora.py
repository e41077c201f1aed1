"""Runs that train an adapter: what they compute, what they leave on disk, and what servers get."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from areal.api.cli_args import GRPOConfig, load_expr_config
from areal.api.errors import ConfigError
from areal.engine.training.engine import HFTrainEngine
from areal.infra.launch import SERVERS_VARIABLE
from areal.trainer.evaluation import find_checkpoint, run_evaluation
from areal.trainer.ppo import PPOTrainer
from areal.trainer.run import run_training
from areal.trainer.runtime import make_tokenizer, make_weights
from tests.fake_servers import FakeServer, FakeSGLang, FakeVLLM
from tests.tiny_runs import rl_yaml, sft_yaml, train_stats
from tests.unit.trainer.test_servers import numbers, running_server

pytestmark = pytest.mark.usefixtures("short_runs")
ADAPTER = {"adapter_config.json", "adapter_model.safetensors"}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of the tiny model of runs."""
    folder = tmp_path_factory.mktemp("base")
    config, _ = load_expr_config(["--config", str(rl_yaml(folder))], GRPOConfig)
    tokenizer = make_tokenizer(config, config.actor)
    make_weights(config, config.actor, tokenizer).lm.write(folder, tokenizer)
    return folder


def lora(base: Path, **options: Any) -> dict[str, Any]:
    found = {"path": str(base), "use_lora": True, "lora_rank": 4, "lora_alpha": 8, **options}
    return found | {"optimizer": {"lr": 0.05, "warmup_steps": 0}}


def grpo(folder: Path, base: Path, **sections: Any) -> list[str]:
    sections["actor"] = lora(base, **sections.get("actor", {}))
    sections["rollout"] = {"deterministic_sampling": True, **sections.get("rollout", {})}
    return ["--config", str(rl_yaml(folder, **sections))]


def adapter(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "adapter_model.safetensors")


@torch.no_grad()
def logits(model: Any) -> torch.Tensor:
    return model.eval()(input_ids=torch.tensor([[3, 4, 5, 6]]), use_cache=False).logits


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, base: Path, short_runs: None) -> Path:
    """Returns the folder of a finished run of policy optimisation with the embedded engine."""
    folder = tmp_path_factory.mktemp("trained")
    run_training(grpo(folder, base, saver={"freq_steps": 2}, recover={"freq_steps": 1}))
    return folder


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # peft asks for it
def test_a_run_leaves_a_whole_model_and_its_adapter(trained: Path, base: Path) -> None:
    run = trained / "e/t"
    whole: Any = AutoModelForCausalLM.from_pretrained(run / "model", dtype=torch.float32)
    plain: Any = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    before = logits(plain)
    adapted: Any = PeftModel.from_pretrained(plain, run / "adapter")
    assert (logits(whole) - before).abs().max() > 0.01
    torch.testing.assert_close(logits(adapted), logits(whole), atol=1e-5, rtol=0)
    assert len(AutoTokenizer.from_pretrained(run / "model")) == whole.config.vocab_size
    assert not (run / "model/adapter_config.json").exists()  # transformers would look for its base
    for stats in train_stats(trained):
        assert stats["logp_abs_diff"] < 1e-5


def test_no_checkpoint_of_a_run_has_the_weights_of_the_model(trained: Path) -> None:
    run = trained / "e/t"
    (recover,) = (run / "recover").glob("step_*/model")
    assert {path.name for path in recover.iterdir()} == {*ADAPTER, "training_state"}
    assert {path.name for path in (run / "checkpoints/step_00000002").iterdir()} > ADAPTER
    assert not [*(run / "checkpoints").rglob("model*.safetensors")]


def test_a_run_resumes_bit_for_bit(trained: Path, base: Path, tmp_path: Path) -> None:
    argv = grpo(tmp_path, base, recover={"freq_steps": 1})
    train_step = PPOTrainer._train_step

    def one_step(self: PPOTrainer) -> Any:
        if self.step == 2:
            raise RuntimeError("enough")
        return train_step(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PPOTrainer, "_train_step", one_step)
        with pytest.raises(RuntimeError, match="enough"):
            run_training(argv)
    run_training(argv)
    assert numbers(tmp_path) == numbers(trained)
    found, expected = adapter(tmp_path / "e/t/adapter"), adapter(trained / "e/t/adapter")
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_an_adapter_of_other_sizes_is_not_resumed(
    trained: Path, base: Path, tmp_path: Path
) -> None:
    (recover,) = (trained / "e/t/recover").glob("step_*/model")
    config, _ = load_expr_config(grpo(tmp_path, base, actor={"lora_rank": 2}), GRPOConfig)
    tokenizer = make_tokenizer(config, config.actor)
    weights = make_weights(config, config.actor, tokenizer)
    with pytest.raises(ConfigError, match="does not fit: its r is 4, here 2"):
        weights.lm.read(recover)


def test_a_supervised_run_trains_an_adapter(base: Path, tmp_path: Path) -> None:
    path = sft_yaml(tmp_path, actor=lora(base, lora_alpha=64), total_train_steps=20)
    run_training(["--config", str(path)])
    stats = train_stats(tmp_path)
    assert stats[-1]["loss"] < stats[0]["loss"] - 0.1
    # A second run goes on from the first one's adapter.
    actor = lora(tmp_path / "e/t/adapter", lora_alpha=64)
    path = sft_yaml(tmp_path / "on", actor=actor, total_train_steps=1)
    run_training(["--config", str(path)])
    assert train_stats(tmp_path / "on")[0]["loss"] < stats[0]["loss"] - 0.1
    written = json.loads((tmp_path / "on/e/t/adapter/adapter_config.json").read_text())
    assert written["base_model_name_or_path"] == str(base)


def test_the_reference_of_a_run_is_its_base_model(base: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.symlink_to(base)
    found = []
    for name, ref in (("beneath", base), ("apart", copy)):
        folder = tmp_path / name
        argv = grpo(folder, base, actor={"kl_ctl": 0.5}, ref={"path": str(ref)})
        with PPOTrainer(load_expr_config(argv, GRPOConfig)[0]) as trainer:
            assert isinstance(trainer.ref, HFTrainEngine)
            assert (trainer.ref.module is trainer.actor.module) == (name == "beneath")
            trainer.train()
        found.append(numbers(folder))
    for beneath, apart in zip(*found, strict=True):
        assert beneath == pytest.approx(apart, rel=1e-4, abs=1e-5)


def test_an_adapter_is_evaluated_as_the_whole_model_is(
    trained: Path, base: Path, tmp_path: Path
) -> None:
    valid = {"path": "tests.tiny_runs.get_digits_rl_dataset", "type": "rl", "batch_size": 4}
    options = {"valid_dataset": valid, "eval_gconfig": {"max_new_tokens": 4, "greedy": True}}
    argv = grpo(tmp_path, base, **options)
    run = trained / "e/t"
    by_folder = [
        run_evaluation(argv, str(run / name)).scores["reward"] for name in ("model", "adapter")
    ]
    assert by_folder[0] == by_folder[1]
    (tmp_path / "e/t").mkdir(parents=True, exist_ok=True)
    (tmp_path / "e/t/checkpoints").symlink_to(run / "checkpoints")
    assert find_checkpoint(tmp_path / "e/t").endswith("checkpoints/step_00000002")


# --- servers


@pytest.mark.parametrize(
    ("mode", "is_served"),
    [("disk", True), pytest.param("xccl", False, marks=pytest.mark.slow)],
)
def test_a_run_over_servers_is_that_with_the_embedded_engine(
    trained: Path,
    base: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    is_served: bool,
) -> None:
    actor = {"weight_update_mode": mode}
    argv = grpo(tmp_path, base, actor=actor, rollout={"use_lora": is_served})
    with running_server(Path(argv[1]), use_lora=False) as server:
        monkeypatch.setenv(SERVERS_VARIABLE, server.url.removeprefix("http://"))
        run_training(argv)
        counts = server._receiver.counts()
        assert server.weight_version == "3"
    for found, expected in zip(numbers(tmp_path), numbers(trained), strict=True):
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)
    size = sum(tensor.nbytes for tensor in adapter(tmp_path / "e/t/adapter").values())
    if is_served:
        assert server._adapters == ["default_lora-v2", "default_lora-v3"]
        assert 4 * size <= counts["adapter"] < 4 * size + 4 * 10_000  # with names and settings
        assert counts["group"] == counts["disk"] == 0
    else:
        assert counts["adapter"] == 0
        assert counts["group"] > 4 * size


@pytest.fixture(params=[FakeSGLang, FakeVLLM])
def fake(request: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    server = request.param()
    # The tiny model has no more.
    monkeypatch.setattr("tests.fake_servers.NUM_TOKENS", 13)
    try:
        monkeypatch.setenv(SERVERS_VARIABLE, server.start())
        yield server
    finally:
        server.stop()


def test_servers_get_the_adapter_under_a_name_for_each_version(
    fake: FakeServer, base: Path, tmp_path: Path
) -> None:
    name = "sglang" if isinstance(fake, FakeSGLang) else "vllm"
    rollout = {"backend": f"{name}:d1", "use_lora": True, "deterministic_sampling": False}
    argv = grpo(
        tmp_path,
        base,
        actor={"weight_update_mode": "disk"},
        rollout=rollout,
        gconfig={"lora_name": "mine", "max_new_tokens": 4, "n_samples": 4},
        total_train_steps=4,
    )
    run_training(argv)
    # Two versions more than the off-policyness that is allowed, which is none.
    assert [*fake.adapters] == ["mine-v3", "mine-v4"]
    assert all(set(files) >= ADAPTER for files in fake.adapters.values())
    assert all("model.safetensors" not in files for files in fake.adapters.values())
    key = "lora_path" if name == "sglang" else "model"
    generations = {"sglang": "/generate", "vllm": "/v1/completions"}[name]
    asked = [s.payload[key] for s in fake.seen if s.endpoint == generations]
    assert [*dict.fromkeys(asked)] == [f"mine-v{version}" for version in range(4)]


def test_merged_weights_go_to_servers_that_hold_no_adapter(
    fake: FakeServer,
    base: Path,
    trained: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    close = PPOTrainer.close

    def keep_and_close(trainer: PPOTrainer, *status: str) -> Any:
        # What was sent is gone after the run.
        shutil.copytree(tmp_path / "e/t/weights", tmp_path / "sent")
        return close(trainer, *status)

    monkeypatch.setattr(PPOTrainer, "close", keep_and_close)
    name = "sglang" if isinstance(fake, FakeSGLang) else "vllm"
    argv = grpo(
        tmp_path,
        trained / "e/t/adapter",
        actor={"weight_update_mode": "disk"},
        rollout={"backend": f"{name}:d1", "deterministic_sampling": False},
        total_train_steps=1,
    )
    run_training(argv)
    (folder,) = (tmp_path / "sent").iterdir()
    sent, whole, plain = (
        logits(AutoModelForCausalLM.from_pretrained(each, dtype=torch.float32))
        for each in (folder, tmp_path / "e/t/model", base)
    )
    assert torch.equal(sent, whole)
    assert (sent - plain).abs().max() > 0.01
    assert fake.adapters == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["actor.use_lora=false", "rollout.use_lora=true"], "rollout.use_lora"),
        (
            ["rollout.use_lora=true", "rollout.backend=local:d2"],
            "actor.weight_update_mode is 'xccl'",
        ),
        (["rollout.use_lora=true", "eval_gconfig.lora_name=other"], "eval_gconfig.lora_name"),
        (["actor.backend=archon:d1"], "actor.backend is 'archon:d1'"),
        (["actor.path="], "name it in actor.path"),
        (["actor.target_modules=[nothing]"], "'nothing' is nothing in the model"),
    ],
)
def test_what_would_train_something_else_is_refused(
    base: Path, tmp_path: Path, options: list[str], message: str
) -> None:
    config, _ = load_expr_config([*grpo(tmp_path, base), *options], GRPOConfig)
    with pytest.raises(ConfigError, match=message):
        PPOTrainer(config)
