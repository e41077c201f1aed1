"""Policy optimisation in this process with rollouts from servers, here in threads of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from areal.api.cli_args import GRPOConfig, InferenceEngineConfig, load_expr_config
from areal.engine.local.engine import LocalInferenceEngine
from areal.engine.local.server import InferenceServer
from areal.infra.launch import KEY_VARIABLE, SERVERS_VARIABLE
from areal.infra.remote_inf_engine import RemoteInfEngine
from areal.trainer.ppo import PPOTrainer
from areal.trainer.run import run_training
from areal.trainer.runtime import make_tokenizer, make_weights
from tests.tiny_runs import rl_yaml, train_stats
from tests.unit.trainer import test_agents

pytestmark = pytest.mark.usefixtures("short_runs")
AGENT = f"{test_agents.__name__}.SevensAgent"
# Which rows are decoded together is a matter of time, and moves the last bits of their
# log-probabilities. Those that the trainer computes itself are the same in every run.
COMPARABLE: dict[str, Any] = {
    "rollout": {"deterministic_sampling": True},
    "actor": {"recompute_logprob": True},
}
NUMBERS = ("actor_loss", "reward", "grad_norm", "n_valid_tokens")

Serve = Callable[..., list[InferenceServer]]


@contextmanager
def running_server(path: Path, key: str = "", **actor: Any) -> Iterator[InferenceServer]:
    config, _ = load_expr_config(["--config", str(path), "seed=9"], GRPOConfig)
    config.run.model.seed = 77  # other weights than the trainer's
    config.actor = dataclasses.replace(config.actor, **actor)
    tokenizer = make_tokenizer(config, config.actor)
    weights = make_weights(config, config.actor, tokenizer)
    engine = LocalInferenceEngine(InferenceEngineConfig(), weights, seed=5)
    engine.initialize()
    server = InferenceServer(engine, tokenizer, api_key=key)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        engine.destroy()


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Starts servers of a configuration's model and names them to trainers of this test."""
    with ExitStack() as stack:

        def start(path: Path, count: int = 1, key: str = "") -> list[InferenceServer]:
            servers = [stack.enter_context(running_server(path, key)) for _ in range(count)]
            addresses = ",".join(server.url.removeprefix("http://") for server in servers)
            monkeypatch.setenv(SERVERS_VARIABLE, addresses)
            return servers

        yield start


def numbers(folder: Path) -> list[list[float]]:
    return [[stats[name] for name in NUMBERS] for stats in train_stats(folder)]


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory, short_runs: None) -> list[list[float]]:
    """Returns the numbers of a run with the embedded engine."""
    folder = tmp_path_factory.mktemp("embedded")
    path = rl_yaml(folder, **COMPARABLE)
    run_training(["--config", str(path)])
    return numbers(folder)


@pytest.mark.heavy
@pytest.mark.parametrize("mode", ["disk", "http", "xccl"])
def test_a_run_over_two_servers_is_that_over_none(
    tmp_path: Path, serve: Serve, embedded: list[list[float]], mode: str
) -> None:
    path = rl_yaml(tmp_path, **COMPARABLE)
    servers = serve(path, count=2)
    run_training(["--config", str(path), f"actor.weight_update_mode={mode}"])
    assert all(stats["logp_abs_diff"] < 1e-5 for stats in train_stats(tmp_path))
    for found, expected in zip(numbers(tmp_path), embedded, strict=True):
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)
    way = {"xccl": "group"}.get(mode, mode)
    for server in servers:
        assert server.weight_version == "3"
        assert server._receiver.counts()[way] > 10_000
    # No server will ask for the newest version any more.
    assert not (tmp_path / "e/t/weights").exists()


def test_subclasses_of_the_trainer_find_its_servers(tmp_path: Path, serve: Serve) -> None:
    path = rl_yaml(tmp_path)
    servers = serve(path, count=2)
    with PPOTrainer(load_expr_config(["--config", str(path)], GRPOConfig)[0]) as trainer:
        assert isinstance(trainer.eval_rollout, RemoteInfEngine)
        trainer.eval_rollout.initialize()
        urls = [f"http://{address}" for address in trainer.eval_rollout.addresses]
    assert sorted(urls) == sorted(server.url for server in servers)


def test_only_the_run_that_has_the_folder_removes_what_servers_loaded(tmp_path: Path) -> None:
    config, _ = load_expr_config(["--config", str(rl_yaml(tmp_path))], GRPOConfig)
    folder = tmp_path / "e/t/weights"
    with PPOTrainer(config) as trainer:
        trainer.train()
        folder.mkdir()
    assert not folder.exists()
    folder.mkdir()  # of a run that follows
    trainer.close()
    assert folder.exists()


def test_served_log_probabilities_have_the_temperature(tmp_path: Path, serve: Serve) -> None:
    path = rl_yaml(tmp_path, total_train_steps=1)
    serve(path)
    run_training(["--config", str(path), "actor.temperature=0.6", "gconfig.temperature=0.6"])
    assert train_stats(tmp_path)[0]["logp_abs_diff"] < 1e-5


def test_a_run_over_servers_resumes_with_its_weights(
    tmp_path: Path, serve: Serve, embedded: list[list[float]]
) -> None:
    path = rl_yaml(tmp_path, **COMPARABLE, recover={"freq_steps": 1})
    argv = ["--config", str(path), "actor.weight_update_mode=disk"]
    serve(path)

    def stop_after_two(*_: Any) -> None:
        raise RuntimeError("enough")

    with pytest.MonkeyPatch.context() as patch:
        train_step = PPOTrainer._train_step
        patch.setattr(
            PPOTrainer,
            "_train_step",
            lambda self: stop_after_two() if self.step == 2 else train_step(self),
        )
        with pytest.raises(RuntimeError, match="enough"):
            run_training(argv)
    serve(path)  # others, which know nothing of the two steps
    run_training(argv)
    for found, expected in zip(numbers(tmp_path), embedded, strict=True):
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        [],
        pytest.param(["rollout.agent.mode=subproc"], marks=pytest.mark.slow),
    ],
)
def test_agents_work_over_servers(tmp_path: Path, serve: Serve, options: list[str]) -> None:
    valid = {"path": "tests.tiny_runs.get_digits_rl_dataset", "type": "rl", "batch_size": 4}
    valid["dataset_kwargs"] = {"size": 4}
    path = rl_yaml(
        tmp_path,
        run={"workflow": AGENT, "workflow_kwargs": {"num_turns": 2}},
        valid_dataset=valid,
        evaluator={"freq_steps": 1},
        total_train_steps=2,
    )
    serve(path)
    run_training(["--config", str(path), *options])
    for stats in train_stats(tmp_path):
        assert stats["n_seqs"] == 32
        assert stats["logp_abs_diff"] < 1e-5
    assert (tmp_path / "e/t/stats.jsonl").read_text().count('"eval"') >= 2


def test_an_outside_program_is_trained_on_over_servers(tmp_path: Path, serve: Serve) -> None:
    serve(rl_yaml(tmp_path / "served"))
    test_agents.test_an_outside_program_is_trained_on(tmp_path / "run")


def test_servers_that_want_a_key_get_it(
    tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = rl_yaml(tmp_path, total_train_steps=1)
    serve(path, key="of the test")
    monkeypatch.setenv(KEY_VARIABLE, "of the test")
    run_training(["--config", str(path)])
    assert len(train_stats(tmp_path)) == 1


@pytest.mark.parametrize("mode", ["disk", "xccl"])
def test_a_missing_key_is_named(tmp_path: Path, serve: Serve, mode: str) -> None:
    path = rl_yaml(tmp_path, total_train_steps=1)
    serve(path, key="of the test")
    options = [f"actor.weight_update_mode={mode}", "rollout.setup_timeout=5"]
    with pytest.raises(RuntimeError, match="status 401"):
        run_training(["--config", str(path), *options])


def test_servers_that_are_not_there_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = rl_yaml(tmp_path, total_train_steps=1)
    monkeypatch.setenv(SERVERS_VARIABLE, "127.0.0.1:9")
    with pytest.raises(TimeoutError, match=r"127\.0\.0\.1:9"):
        run_training(["--config", str(path), "rollout.setup_timeout=1"])
