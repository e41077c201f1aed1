"""The train engine: packed batches give the losses and gradients of a plain loop over sequences."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from areal.api.alloc_mode import ParallelStrategy
from areal.api.cli_args import (
    FSDPEngineConfig,
    MicroBatchSpec,
    OptimizerConfig,
    TrainEngineConfig,
)
from areal.api.errors import ConfigError
from areal.api.io_struct import FinetuneSpec, SaveLoadMeta
from areal.engine.loading.huggingface import prepare_model
from areal.engine.model.shared_weights import SharedWeights
from areal.engine.training.archon import ArchonTrainEngine
from areal.engine.training.backends import train_engine_class
from areal.engine.training.engine import HFTrainEngine, PackedTrainEngine
from areal.utils.data import pad_sequences_to_tensors
from tests.tiny_archon import BACKENDS, archon_of, known, named_gradients
from tests.tiny_models import random_prompts, tiny_model

LENGTHS = [9, 4, 17, 1, 12, 6]
SPEC = FinetuneSpec(total_train_epochs=1, dataset_size=10, train_batch_size=1)


def engine(
    model: nn.Module | str = "qwen3", backend: str = "fsdp:d1", **fields: Any
) -> PackedTrainEngine:
    if isinstance(model, str):
        model = tiny_model(model)
    optimizer = {"type": "sgd", "lr": 0.1, "gradient_clipping": 1e9, "warmup_steps": 0}
    optimizer["weight_decay"] = 0.0
    optimizer |= fields.pop("optimizer", {})
    config = TrainEngineConfig(
        experiment_name="e",
        trial_name="t",
        backend=backend,
        optimizer=OptimizerConfig(**optimizer),
        **fields,
    )
    is_archon = backend == "archon:d1"
    lm = archon_of(model) if is_archon else prepare_model(model, torch.device("cpu"))
    made = train_engine_class(backend)(config, SharedWeights(lm))
    made.initialize(None, SPEC)
    return made


def batch(lengths: list[int] = LENGTHS, seed: int = 0) -> dict[str, Any]:
    """Makes sequences with loss on some predictions; the third sequence carries none."""
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for i, prompt in enumerate(random_prompts(lengths, seed)):
        mask = (torch.rand(len(prompt), generator=generator) < 0.6).long()
        mask[-1] = 0  # nothing follows the last token
        rows.append({"input_ids": prompt, "loss_mask": (mask * (i != 2)).tolist()})
    return pad_sequences_to_tensors([{k: torch.tensor(v) for k, v in r.items()} for r in rows])


def nll(logprobs: Tensor, entropy: Tensor, data: dict[str, Any]) -> Tensor:
    mask = data["loss_mask"].bool()
    return -(logprobs * mask).sum() / mask.sum().clamp(min=1)


def num_tokens(data: dict[str, Any]) -> Tensor:
    return data["loss_mask"].sum()


def rows_of(data: dict[str, Any]) -> list[tuple[Tensor, Tensor]]:
    lengths = data["attention_mask"].sum(1).tolist()
    return [
        (ids[:n], mask[:n].bool())
        for ids, mask, n in zip(data["input_ids"], data["loss_mask"], lengths, strict=True)
    ]


def reference_logprobs(model: nn.Module, ids: Tensor, temperature: float = 1.0) -> Tensor:
    """Returns the log-probability of each next token of one sequence, 0.0 at its end."""
    logits = model(input_ids=ids[None].long(), use_cache=False).logits[0] / temperature
    picked = logits[:-1].log_softmax(-1).gather(-1, ids[1:, None].long()).squeeze(-1)
    return torch.cat([picked, torch.zeros(1)])


def reference_gradients(architecture: str, data: dict[str, Any]) -> tuple[float, dict[str, Tensor]]:
    model = tiny_model(architecture)
    total = sum(-reference_logprobs(model, ids)[mask].sum() for ids, mask in rows_of(data))
    loss = total / data["loss_mask"].sum()
    loss.backward()
    return loss.item(), {name: p.grad for name, p in model.named_parameters()}


def assert_gradients(found: PackedTrainEngine, expected: dict[str, Tensor]) -> None:
    gradients = named_gradients(found.lm)
    assert gradients.keys() == expected.keys()
    for name, gradient in gradients.items():
        want = expected[name]
        scale = want.abs().max().item()
        # fp32 sums in another order.
        torch.testing.assert_close(gradient, want, rtol=1e-4, atol=2e-5 * scale + 1e-7)


TRAINED = ("llama", "qwen3", "mistral", "gemma2", "gemma3_text", "gpt_oss", "qwen3_moe")
CASES = [("fsdp:d1", name) for name in TRAINED]
CASES += [("archon:d1", name) for name in known(*TRAINED, "qwen2", "gpt_oss", "olmo2")]


@pytest.mark.parametrize(("backend", "architecture"), CASES)
def test_a_packed_batch_trains_like_a_loop_over_its_sequences(
    backend: str, architecture: str
) -> None:
    data = batch()
    loss, gradients = reference_gradients(architecture, data)
    made = engine(architecture, backend)
    before = {name: p.detach().clone() for name, p in made.module.named_parameters()}
    assert made.eval_batch(data, nll, num_tokens).item() == pytest.approx(loss, rel=1e-5)
    stats = made.train_batch(data, nll, num_tokens)
    assert_gradients(made, gradients)
    norm = math.sqrt(sum(g.square().sum().item() for g in gradients.values()))
    assert stats["grad_norm"] == pytest.approx(norm, rel=1e-4)
    assert (stats["update_successful"], stats["lr"]) == (1.0, 0.1)
    for name, parameter in made.module.named_parameters():
        torch.testing.assert_close(parameter, before[name] - 0.1 * parameter.grad)


@pytest.mark.parametrize("architecture", known("gemma3_text", "qwen3"))
def test_an_archon_head_runs_by_chunks_where_there_are_more_tokens(architecture: str) -> None:
    data = batch()
    loss, gradients = reference_gradients(architecture, data)
    made = engine(architecture, "archon:d1", logprobs_chunk_size=4)
    rows: list[int] = []
    output = made.lm.module.output
    output.register_forward_hook(lambda module, args, out: rows.append(out[..., 0].numel()))
    assert made.eval_batch(data, nll, num_tokens).item() == pytest.approx(loss, rel=1e-5)
    made.train_batch(data, nll, num_tokens)
    assert_gradients(made, gradients)
    assert max(rows) == 4


@pytest.mark.parametrize(
    "mb_spec",
    [
        {"n_mbs": 2},
        {"n_mbs": 6},
        {"max_tokens_per_mb": 17},
        {"n_mbs": 3, "packing_algorithm": "kk"},
        {"n_mbs": 2, "granularity": 2},
    ],
)
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_micro_batches_and_checkpointing_change_no_gradient(
    mb_spec: dict[str, Any], checkpointing: bool, backend: str
) -> None:
    data = batch()
    _, gradients = reference_gradients("qwen3", data)
    made = engine(
        "qwen3", backend, mb_spec=MicroBatchSpec(**mb_spec), gradient_checkpointing=checkpointing
    )
    made.train()
    made.train_batch(data, nll, num_tokens)
    assert_gradients(made, gradients)
    assert len(made._split(data)) >= (mb_spec.get("n_mbs") or 2)


def test_a_list_of_trajectories_is_a_batch() -> None:
    data = batch()
    parts = [{k: v[i : i + 1] for k, v in data.items()} for i in range(len(LENGTHS))]
    made = engine()
    expected = made.eval_batch(data, nll, num_tokens)
    torch.testing.assert_close(made.eval_batch(parts, nll, num_tokens), expected)


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_the_loss_function_gets_packed_tensors(temperature: float) -> None:
    data = batch()
    data |= {"extra": data["input_ids"] * 10, "weight": torch.arange(6.0)}
    seen: list[dict[str, Any]] = []

    def loss_fn(logprobs: Tensor, entropy: Tensor, packed: dict[str, Any]) -> Tensor:
        seen.append({**packed, "found": logprobs.detach(), "entropy": entropy})
        return logprobs.sum() * 0

    made = engine(temperature=temperature)
    made.train_batch(data, loss_fn, num_tokens)
    (packed,) = seen
    lengths = packed["cu_seqlens"].diff().tolist()
    assert sorted(lengths) == sorted(LENGTHS)
    assert packed["extra"].tolist() == (packed["input_ids"] * 10).tolist()
    assert packed["weight"].shape == (6,)
    reference = tiny_model()
    pieces = zip(
        *(packed[k].split(lengths) for k in ("input_ids", "loss_mask", "found", "entropy")),
        strict=True,
    )
    for ids, mask, found, entropy in pieces:
        with torch.no_grad():
            logits = reference(input_ids=ids[None].long()).logits[0] / temperature
            expected = reference_logprobs(reference, ids, temperature) * mask
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
        spread = torch.distributions.Categorical(logits=logits).entropy() * mask
        torch.testing.assert_close(entropy, spread, rtol=1e-4, atol=1e-5)
        assert not entropy.requires_grad


@pytest.mark.parametrize("n_mbs", [1, 4])
@pytest.mark.parametrize("backend", BACKENDS)
def test_log_probabilities_come_back_in_the_shape_of_the_batch(n_mbs: int, backend: str) -> None:
    data = batch()
    made = engine(backend=backend, mb_spec=MicroBatchSpec(n_mbs=n_mbs))
    masked = made.forward_batch(data)
    full = made.forward_batch({k: v for k, v in data.items() if k != "loss_mask"})
    reference = tiny_model()
    assert masked.shape == full.shape == data["input_ids"].shape
    assert not masked.requires_grad
    for i, (ids, mask) in enumerate(rows_of(data)):
        with torch.no_grad():
            expected = reference_logprobs(reference, ids)
        torch.testing.assert_close(full[i, : len(ids)], expected, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(masked[i, : len(ids)], expected * mask, rtol=1e-5, atol=1e-5)
        assert not full[i, len(ids) :].any()
    assert all(p.grad is None for p in made.module.parameters())


def test_packed_batches_may_be_longer_than_the_model_has_positions() -> None:
    made = engine(tiny_model("gpt2", max_position_embeddings=20))
    data = batch([20, 3, 20])
    reference = tiny_model("gpt2", max_position_embeddings=20)
    found = made.forward_batch({k: v for k, v in data.items() if k != "loss_mask"})
    for i, (ids, _) in enumerate(rows_of(data)):
        with torch.no_grad():
            expected = reference_logprobs(reference, ids)
        torch.testing.assert_close(found[i, : len(ids)], expected, rtol=1e-5, atol=1e-5)


# --- steps ------------------------------------------------------------------------------------


def state(made: PackedTrainEngine) -> list[Tensor]:
    values = [p.detach().clone() for p in made.module.parameters()]
    for entry in made.optimizer.state.values():
        values += [v.clone() for v in entry.values() if torch.is_tensor(v)]
    return values


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_step_with_bad_gradients_changes_nothing_and_says_so(bad: float, backend: str) -> None:
    made = engine(backend=backend, optimizer={"type": "adam", "lr": 1e-3})
    made.train_batch(batch(), nll, num_tokens)
    made.lr_scheduler_step()
    before, updates = state(made), made.weights.num_updates
    stats = made.train_batch(batch(), lambda *args: nll(*args) * bad, num_tokens)
    made.lr_scheduler_step()
    assert stats["update_successful"] == 0.0
    assert not math.isfinite(stats["grad_norm"])
    assert made.weights.num_updates == updates
    assert all(torch.equal(a, b) for a, b in zip(state(made), before, strict=True))
    stats = made.train_batch(batch(), nll, num_tokens)
    assert stats["update_successful"] == 1.0
    assert made.weights.num_updates == updates + 1


def test_a_bad_first_step_is_no_reason_to_warn() -> None:
    made = engine()
    made.train_batch(batch(), lambda *args: nll(*args) * math.nan, num_tokens)
    made.lr_scheduler_step()  # warnings are errors here


def test_gradients_are_clipped_to_the_norm() -> None:
    made = engine(optimizer={"gradient_clipping": 0.01})
    before = [p.detach().clone() for p in made.module.parameters()]
    stats = made.train_batch(batch(), nll, num_tokens)
    assert stats["grad_norm"] > 0.1  # before clipping
    moved = sum(
        (p - b).detach().square().sum().item()
        for p, b in zip(made.module.parameters(), before, strict=True)
    )
    assert math.sqrt(moved) == pytest.approx(0.1 * 0.01, rel=1e-3)


def test_a_batch_without_loss_is_an_error_that_says_why() -> None:
    data = batch()
    data["loss_mask"] = torch.zeros_like(data["loss_mask"])
    made = engine()
    with pytest.raises(ValueError, match="loss_mask"):
        made.train_batch(data, nll, num_tokens)
    assert made.eval_batch(data, nll, num_tokens) is None


def test_a_share_without_rows_has_a_result_without_rows() -> None:
    made = engine()
    empty = {name: value[:0] for name, value in batch().items()}
    assert made.forward_batch(empty).shape == (0, 17)
    assert made.forward_batch([]).shape == (0, 0)
    assert made.eval_batch(empty, nll, num_tokens) is None
    with pytest.raises(ValueError, match="loss_mask"):
        made.train_batch([], nll, num_tokens)


def test_training_makes_the_loss_smaller() -> None:
    made = engine(optimizer={"type": "adam", "lr": 0.01, "gradient_clipping": 1.0})
    losses = []
    for _ in range(15):
        losses.append(made.eval_batch(batch(), nll, num_tokens).item())
        made.train_batch(batch(), nll, num_tokens)
        made.lr_scheduler_step()
    assert losses[-1] < 0.3 * losses[0]


def test_dropout_can_be_turned_off_without_losing_checkpointing() -> None:
    dropouts = {"resid_pdrop": 0.5, "embd_pdrop": 0.5, "attn_pdrop": 0.5}
    data = batch()
    _, gradients = reference_gradients("gpt2", data)
    made = engine(tiny_model("gpt2", **dropouts), disable_dropout=True, gradient_checkpointing=True)
    made.train()
    made.train_batch(data, nll, num_tokens)
    assert_gradients(made, gradients)
    # Hugging Face models checkpoint in training mode only.
    assert made.module.training


def test_attention_dropout_names_the_key_that_turns_it_off() -> None:
    made = engine(tiny_model("llama", attention_dropout=0.1))
    made.train()
    with pytest.raises(ConfigError, match="disable_dropout"):
        made.train_batch(batch(), nll, num_tokens)


def test_what_needs_an_optimiser_says_so() -> None:
    config = TrainEngineConfig(experiment_name="e", trial_name="t")
    made = HFTrainEngine(config, SharedWeights(prepare_model(tiny_model(), torch.device("cpu"))))
    made.initialize(None, None)
    assert made.initialized
    assert made.forward_batch(batch()).shape == (6, 17)
    with pytest.raises(RuntimeError, match=r"actor\.optimizer"):
        made.train_batch(batch(), nll, num_tokens)


@pytest.mark.parametrize(("backend", "count"), [("fsdp:d2", 2), ("fsdp:d2t2", 4)])
def test_several_processes_must_have_been_started(backend: str, count: int) -> None:
    with pytest.raises(ConfigError, match=f"takes {count} processes and 1 runs.*torchrun"):
        engine(backend=backend)


def test_one_process_has_no_shards_to_offload() -> None:
    with pytest.raises(ConfigError, match=r"fsdp\.offload_params"):
        engine(fsdp=FSDPEngineConfig(offload_params=True))


def test_a_hugging_face_model_is_not_trained_as_an_archon_model() -> None:
    weights = SharedWeights(prepare_model(tiny_model(), torch.device("cpu")))
    with pytest.raises(ConfigError, match="Qwen3ForCausalLM is Hugging Face's"):
        ArchonTrainEngine(TrainEngineConfig(backend="archon:d1"), weights)


def test_a_strategy_that_is_not_the_backends_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"takes 2 processes and actor\.backend 'fsdp:d1' 1"):
        engine().create_process_group(ParallelStrategy(data_parallel_size=2))


# --- files ------------------------------------------------------------------------------------


def logits(model: nn.Module) -> Tensor:
    with torch.no_grad():
        return model(input_ids=torch.tensor(random_prompts([7])), use_cache=False).logits[0]


def own_logits(made: PackedTrainEngine) -> Tensor:
    with torch.no_grad():
        return made.lm.logits(torch.tensor(random_prompts([7])[0]), torch.arange(7), [7])


SAVED = ("llama", "qwen2", "qwen3", "mistral", "gemma3_text", "qwen3_moe", "gpt2")
SAVED_CASES = [("fsdp:d1", name) for name in SAVED]
SAVED_CASES += [("archon:d1", name) for name in known(*SAVED, "mixtral", "gpt_oss", "deepseek_v3")]


@pytest.mark.parametrize(("backend", "architecture"), SAVED_CASES)
@pytest.mark.parametrize("tied", [True, False])
def test_a_saved_model_is_one_that_transformers_reads(
    backend: str, architecture: str, tied: bool, tmp_path: Path
) -> None:
    made = engine(tiny_model(architecture, tie_word_embeddings=tied), backend)
    made.train_batch(batch(), nll, num_tokens)
    made.save(SaveLoadMeta(path=str(tmp_path / "m"), weight_format="hf", with_optim=False))
    expected = {name: value.clone() for name, value in made.module.state_dict().items()}
    other = engine(tiny_model(architecture, seed=5, tie_word_embeddings=tied), backend)
    other.load(SaveLoadMeta(path=str(tmp_path / "m"), weight_format="hf", with_optim=False))
    for name, value in other.module.state_dict().items():
        assert torch.equal(value, expected[name]), name
    again: Any = AutoModelForCausalLM.from_pretrained(tmp_path / "m")
    torch.testing.assert_close(logits(again), own_logits(made), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["adam", "sgd"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_training_goes_on_bit_for_bit_after_loading(
    kind: str, backend: str, tmp_path: Path
) -> None:
    options = {"type": kind, "lr": 1e-2, "lr_scheduler_type": "cosine"}

    def train(made: PackedTrainEngine, seeds: range) -> None:
        for seed in seeds:
            made.train_batch(batch(seed=seed), nll, num_tokens)
            made.lr_scheduler_step()

    meta = SaveLoadMeta(path=str(tmp_path / "m"), weight_format="hf", with_optim=True)
    first = engine(backend=backend, optimizer=options)
    train(first, range(3))
    first.save(meta)
    train(first, range(3, 6))
    second = engine(tiny_model(seed=8), backend, optimizer=options)
    second.load(meta)
    train(second, range(3, 6))
    assert first.lr_scheduler.get_last_lr() == second.lr_scheduler.get_last_lr()
    assert all(torch.equal(a, b) for a, b in zip(state(first), state(second), strict=True))
