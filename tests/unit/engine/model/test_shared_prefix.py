"""Tokens that sequences share: computed once, and the same as in each sequence alone."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from areal.api.cli_args import OptimizerConfig, TrainEngineConfig
from areal.api.io_struct import FinetuneSpec
from areal.engine.loading.huggingface import prepare_model
from areal.engine.model import shared_prefix
from areal.engine.model.shared_prefix import DistinctTokens, distinct_tokens
from areal.engine.model.shared_weights import SharedWeights
from areal.engine.training.engine import HFTrainEngine
from areal.utils.data import pad_sequences_to_tensors
from tests.tiny_models import random_prompts, tiny_model

PROMPTS = (7, 5, 10)
ANSWERS = (3, 1, 6, 4)


def samples() -> list[tuple[list[int], list[int]]]:
    """Returns prompts with several answers each, of which two are equal and two begin alike."""
    answers = random_prompts([*ANSWERS] * len(PROMPTS), seed=3)
    rows = []
    for i, prompt in enumerate(random_prompts(PROMPTS, seed=2)):
        own = answers[len(ANSWERS) * i : len(ANSWERS) * (i + 1)]
        rows += [(prompt, answer) for answer in [*own, own[-1], own[-1][:2] + own[0]]]
    return rows


def as_batch(rows: list[tuple[list[int], list[int]]]) -> dict[str, Tensor]:
    masks = [[0] * (len(p) - 1) + [1] * len(a) + [0] for p, a in rows]
    return pad_sequences_to_tensors(
        [
            {"input_ids": torch.tensor(p + a), "loss_mask": torch.tensor(mask)}
            for (p, a), mask in zip(rows, masks, strict=True)
        ]
    )


def alone(model: nn.Module, rows: list[tuple[list[int], list[int]]]) -> list[Tensor]:
    """Returns the log-probabilities of each answer by the model's own forward pass."""
    found = []
    for prompt, answer in rows:
        logits = model(input_ids=torch.tensor([prompt + answer]), use_cache=False).logits[0]
        labels = torch.tensor(answer)[:, None]
        found.append(logits[len(prompt) - 1 : -1].log_softmax(-1).gather(1, labels).squeeze(1))
    return found


def direction(size: int) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("largest_tree", [1, 128], ids=["sequences", "trees"])
@pytest.mark.parametrize("architecture", ["qwen3", "gemma2", "gpt_oss"])
def test_shared_prompts_change_neither_log_probabilities_nor_gradients(
    # Norms of heads; windows and soft caps; sinks and experts.
    architecture: str,
    largest_tree: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_prefix, "LARGEST_TREE", largest_tree)
    model, rows = tiny_model(architecture), samples()
    expected = torch.cat(alone(model, rows))
    (expected * direction(len(expected))).sum().backward()
    wanted = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()

    weights = SharedWeights(prepare_model(model, torch.device("cpu")))
    optimizer = OptimizerConfig(type="sgd", lr=0.0)
    engine = HFTrainEngine(TrainEngineConfig(backend="fsdp:d1", optimizer=optimizer), weights)
    engine.initialize(None, FinetuneSpec(1, 10, 1))
    computed = []
    embedding = engine.module.get_input_embeddings()
    embedding.register_forward_hook(lambda _, args, __: computed.append(args[0].numel()))
    batch = as_batch(rows)
    mask = batch["loss_mask"].bool()
    found = engine.forward_batch(batch)[mask]

    def loss_fn(logprobs: Tensor, entropy: Tensor, mb: dict[str, Tensor]) -> Tensor:
        kept = logprobs[mb["loss_mask"].bool()]
        return (kept * direction(len(kept))).sum()

    # A rate of 0 leaves the gradients where they are, and a weight of 1 the loss as it is.
    engine.config.optimizer.gradient_clipping = 1e9
    engine.train_batch(batch, loss_fn, lambda mb: torch.tensor(1.0))
    gradients = {n: p.grad for n, p in engine.module.named_parameters() if p.grad is not None}

    # Prompts once, of the answers what is not equal, and up to 15 tokens of padding.
    assert max(computed) < 0.5 * int(batch["attention_mask"].sum()) + 16
    # Sums in another order, as for packed batches without sharing.
    torch.testing.assert_close(found, expected.detach(), rtol=1e-5, atol=2e-5)
    assert gradients.keys() == wanted.keys()
    for name, want in wanted.items():
        scale = float(want.abs().max())
        torch.testing.assert_close(gradients[name], want, rtol=1e-4, atol=2e-5 * scale + 1e-6)


def whole_sequences(found: DistinctTokens) -> list[list[int]]:
    """Returns for each token whose logits are wanted the tokens that it sees, and itself."""
    seen = []
    if found.places is not None:
        tokens, positions = found.tokens_U[found.places], found.positions_U[found.places]
        starts = [0, *torch.tensor(found.lengths).cumsum(0).tolist()]
        for place in found.keep_N.tolist():
            at = int((found.places == place).nonzero()[0])
            start = max(s for s in starts if s <= at)
            assert positions[start : at + 1].tolist() == list(range(at + 1 - start))
            seen.append(tokens[start : at + 1].tolist())
        return seen
    assert found.distances_UC is not None
    firsts = torch.tensor(found.lengths).cumsum(0) - torch.tensor(found.lengths)
    first_U = firsts.repeat_interleave(torch.tensor(found.lengths))
    for place in found.keep_N.tolist():
        distances = found.distances_UC[place]
        columns = (distances >= 0).nonzero().flatten()
        order = distances[columns].argsort(descending=True)
        places = first_U[place] + columns[order]
        assert distances[columns[order]].tolist() == list(range(len(columns)))[::-1]
        assert found.positions_U[places].tolist() == list(range(len(columns)))
        seen.append(found.tokens_U[places].tolist())
    return seen


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=9), min_size=1, max_size=9),
    st.integers(1, 2),
    st.randoms(use_true_random=False),
    st.sampled_from([1, 12, 128]),
)
def test_every_wanted_token_sees_its_own_sequence(rows, copies, random, largest_tree) -> None:
    rows = [row for row in rows for _ in range(copies)]
    is_kept = [random.random() < 0.6 for row in rows for _ in row]
    keep_N = torch.tensor(is_kept).nonzero().flatten()
    tokens_T = torch.tensor([token for row in rows for token in row])
    if not len(keep_N):
        return
    before, shared_prefix.LARGEST_TREE = shared_prefix.LARGEST_TREE, largest_tree
    try:
        found = distinct_tokens(tokens_T, [len(row) for row in rows], keep_N)
    finally:
        shared_prefix.LARGEST_TREE = before
    if found is None:
        return
    expected = [row[: i + 1] for row in rows for i in range(len(row))]
    assert whole_sequences(found) == [expected[i] for i in keep_N.tolist()]
    assert len(found.tokens_U) <= (1 - shared_prefix.MIN_SAVED) * len(tokens_T)


def test_samples_of_a_prompt_have_its_tokens_once() -> None:
    rows = samples()[:4]  # one prompt, four answers that differ from the first token on
    tokens = torch.tensor([t for prompt, answer in rows for t in prompt + answer])
    keep = torch.tensor(
        [i >= len(p) - 1 and i < len(p) + len(a) - 1 for p, a in rows for i in range(len(p + a))]
    ).nonzero()[:, 0]
    found = distinct_tokens(tokens, [len(p + a) for p, a in rows], keep)
    assert found is not None
    assert len({a[0] for _, a in rows}) == 4
    assert len(found.tokens_U) == PROMPTS[0] + sum(ANSWERS) - len(ANSWERS)
    assert found.lengths == [len(found.tokens_U)]


def test_other_batches_stay_as_they_are() -> None:
    lengths = [30, 40, 50]
    tokens = torch.cat([torch.tensor(p) for p in random_prompts(lengths)])
    assert distinct_tokens(tokens, lengths, torch.arange(len(tokens) - 1)) is None
