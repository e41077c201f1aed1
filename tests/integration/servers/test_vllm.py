"""Does the real vLLM do what its client, and the fake one, take for granted?"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from areal.api.cli_args import GenerationHyperparameters, InferenceEngineConfig
from areal.api.io_struct import ModelRequest, ModelResponse, WeightUpdateMeta
from areal.engine import RemotevLLMEngine
from tests.integration.areal.test_launch import (
    check_same,
    finish,
    has_step,
    start,
    wait_until,
)
from tests.integration.servers.conftest import START_TIMEOUT_S, VLLM, small_model
from tests.server_checks import CHECKS, PROMPT, Check
from tests.tiny_runs import rl_yaml, train_stats

pytestmark = [pytest.mark.servers, pytest.mark.timeout(2 * START_TIMEOUT_S)]

STEPS = 8
# In float32 the two implementations differ by the order of sums.
TOLERANCE = 1e-4


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_it_passes(vllm: VLLM, check: Check) -> None:
    if check.__name__ in vllm.lacks:
        pytest.skip("vLLM does not offer it")
    asyncio.run(check(vllm))


@pytest.fixture
def engine(vllm: VLLM) -> Iterator[RemotevLLMEngine]:
    """Yields an engine over the server, which has its first weights."""
    vllm.rewind()
    engine = RemotevLLMEngine(InferenceEngineConfig(backend="vllm:d1", setup_timeout=60.0))
    engine.initialize(addr=vllm.address)
    yield engine
    engine.destroy()


def ask(engine: RemotevLLMEngine, **options: Any) -> ModelResponse:
    gconfig = GenerationHyperparameters(max_new_tokens=24, ignore_eos=True).new(**options)
    return asyncio.run(engine.agenerate(ModelRequest(input_ids=PROMPT, gconfig=gconfig)))


def own_logits(seed: int, found: ModelResponse) -> torch.Tensor:
    """Returns what our forward pass has for each generated token, [T, V]."""
    ids = torch.tensor([found.input_tokens + found.output_tokens])
    with torch.no_grad():
        return small_model(seed)(ids).logits[0, found.input_len - 1 : -1]


def check_logprobs(seed: int, found: ModelResponse, temperature: float = 1.0) -> None:
    logprobs = (own_logits(seed, found) / temperature).log_softmax(-1)
    own = logprobs.gather(-1, torch.tensor(found.output_tokens)[:, None])[:, 0]
    assert found.output_logprobs == pytest.approx(own.tolist(), abs=TOLERANCE)


def test_its_log_probabilities_are_those_of_our_forward_pass(engine: RemotevLLMEngine) -> None:
    found = ask(engine, temperature=1.0, seed=5)
    assert len(set(found.output_tokens)) > 4
    check_logprobs(0, found)
    row = {
        "input_ids": torch.tensor([found.input_tokens + found.output_tokens]),
        "attention_mask": torch.ones(1, found.input_len + found.output_len),
        "loss_mask": torch.tensor([[0] * found.input_len + [1] * found.output_len]),
    }
    scores = engine.compute_logp(row)[0, found.input_len :]
    assert scores.tolist() == pytest.approx(found.output_logprobs, abs=TOLERANCE)


def test_its_log_probabilities_have_the_temperature(engine: RemotevLLMEngine) -> None:
    check_logprobs(0, ask(engine, temperature=0.5), temperature=0.5)


def test_new_weights_change_the_greedy_answer(engine: RemotevLLMEngine, vllm: VLLM) -> None:
    for version, seed in ((0, 0), (1, 1), (2, 0)):
        if version:
            meta = WeightUpdateMeta(type="disk", path=str(vllm.folder / str(seed)), version=version)
            engine.update_weights_from_disk(meta).result(60)
        found = ask(engine, greedy=True)
        assert found.output_tokens == own_logits(seed, found).argmax(-1).tolist()
        assert found.output_versions == [version] * found.output_len
        check_logprobs(seed, found)


def test_weights_that_are_not_there_cost_neither_the_server_nor_a_request(
    engine: RemotevLLMEngine, vllm: VLLM
) -> None:
    with pytest.raises(RuntimeError, match=r"/collective_rpc: status 500 \(.*Repo id"):
        engine.update_weights_from_disk(
            WeightUpdateMeta(type="disk", path=str(vllm.folder / "none"), version=1)
        ).result(60)
    engine.pause_generation()
    engine.continue_generation()  # the server goes on too, and must not be asked
    meta = WeightUpdateMeta(type="disk", path=vllm.weights, version=2)
    engine.update_weights_from_disk(meta).result(60)
    check_logprobs(1, ask(engine))
    assert vllm.process.exit_code() is None


# --- runs of the trainer


@pytest.fixture
def rl_run(vllm: VLLM, monkeypatch: pytest.MonkeyPatch) -> None:
    vllm.rewind()
    monkeypatch.setenv("AREAL_LLM_SERVER_ADDRS", vllm.address)


def begin(folder: Path, vllm: VLLM) -> Any:
    rl_yaml(
        folder,
        total_train_steps=STEPS,
        gconfig={"max_new_tokens": 300},
        actor={"path": str(vllm.folder / "0"), "optimizer": {"lr": 0.001, "warmup_steps": 0}},
        rollout={"deterministic_sampling": True, "poll_interval": 0.5},
    )
    return start(folder, "rollout.backend=vllm:d1", "actor.weight_update_mode=disk")


@pytest.fixture(scope="module")
def undisturbed(vllm: VLLM, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of a run that nothing happened to."""
    folder = tmp_path_factory.mktemp("undisturbed")
    vllm.rewind()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AREAL_LLM_SERVER_ADDRS", vllm.address)
        finish(begin(folder, vllm))
    return folder


def test_a_run_trains_on_what_it_generates(undisturbed: Path, vllm: VLLM) -> None:
    stats = train_stats(undisturbed)
    assert len(stats) == STEPS
    for step in stats:
        assert step["logp_abs_diff_max"] <= TOLERANCE
        assert step["grad_norm"] > 0
    assert asyncio.run(vllm.identity()) == (None, STEPS)


@pytest.mark.usefixtures("rl_run")
def test_a_run_goes_on_when_the_server_is_killed(
    undisturbed: Path, vllm: VLLM, tmp_path: Path
) -> None:
    process = begin(tmp_path, vllm)
    try:
        wait_until(lambda: has_step(tmp_path, 2), process, "the second step")
        wait_until(vllm.is_working, process, "the server works on the next one")
        vllm.kill()
        vllm.start()
        finish(process)
    finally:
        process.kill()
        process.wait()
    check_same(tmp_path, undisturbed)
    assert sum(step["servers/retries"] for step in train_stats(tmp_path)) > 0
    assert asyncio.run(vllm.identity()) == (None, STEPS)
