"""Is Qwen2 what transformers computes?"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import Qwen2Config, Qwen2ForCausalLM

from areal.experimental.models.archon.qwen2.spec import QWEN2_SPEC
from areal.experimental.models.archon.testing import PackedBatch, build_model, loss_of, run_split

TINY = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 80,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32,
    "max_window_layers": 3,
    "layer_types": ["full_attention", "full_attention", "full_attention", "full_attention"],
}
LENGTHS = (7, 12, 3)


class Pair(NamedTuple):
    """Holds a model of transformers, ours with its weights, these as on the Hub, and a batch."""

    theirs: nn.Module
    ours: nn.Module
    weights: dict[str, Tensor]
    batch: PackedBatch


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    torch.manual_seed(0)
    config = Qwen2Config(**TINY)
    config._attn_implementation = "eager"
    theirs = Qwen2ForCausalLM(config).eval()
    theirs.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    batch = PackedBatch.draw(config.vocab_size, LENGTHS)
    return Pair(theirs, build_model(QWEN2_SPEC, config, weights), weights, batch)


def logits_of(pair: Pair) -> tuple[Tensor, Tensor]:
    """Returns the logits of a packed batch by both models."""
    # Alone is the truth: transformers' own packing is wrong for some families.
    rows = pair.batch.tokens.split(LENGTHS, dim=1)
    theirs = [pair.theirs(row, use_cache=False).logits for row in rows]
    return pair.ours(*pair.batch), torch.cat(theirs, dim=1)


def test_arguments_are_those_of_the_configuration_and_of_the_trainer() -> None:
    config = Qwen2Config(**TINY)
    chosen = {"is_critic": True, "attn_type": "sdpa", "router_dtype": torch.float32}
    args = QWEN2_SPEC.model_args_class.from_hf_config(config, **chosen)
    assert (args.vocab_size, args.n_layers) == (config.vocab_size, config.num_hidden_layers)
    assert (args.is_critic, args.attn_type) == (True, "sdpa")
    config.is_causal = False
    with pytest.raises(ValueError, match="is_causal"):
        QWEN2_SPEC.model_args_class.from_hf_config(config)


@pytest.mark.parametrize("is_critic", [False, True])
def test_a_checkpoint_has_every_parameter(pair: Pair, is_critic: bool) -> None:
    args = QWEN2_SPEC.model_args_class.from_hf_config(pair.theirs.config, is_critic=is_critic)
    with torch.device("meta"):
        model = QWEN2_SPEC.model_class(args)
    assert (model.output is None, model.score is None) == (is_critic, not is_critic)
    found = QWEN2_SPEC.state_dict_adapter_class(pair.theirs.config).from_hf(pair.weights)
    wanted = {name: tensor.shape for name, tensor in model.state_dict().items()}
    # The head of a critic is trained from nothing.
    assert wanted.keys() - found.keys() == ({"score.weight"} if is_critic else set())
    assert all(found[name].shape == shape for name, shape in wanted.items() if name in found)


def test_weights_come_back_bit_by_bit(pair: Pair) -> None:
    adapter = QWEN2_SPEC.state_dict_adapter_class(pair.theirs.config)
    back = adapter.to_hf(pair.ours.state_dict())
    assert back.keys() == pair.weights.keys()
    assert all(torch.equal(back[name], pair.weights[name]) for name in back)


def test_logits_are_those_of_transformers(pair: Pair) -> None:
    ours, theirs = logits_of(pair)
    assert (ours - theirs).abs().max() < 1e-5 * theirs.std()


def test_gradients_are_those_of_transformers(pair: Pair) -> None:
    for logits in logits_of(pair):
        loss_of(logits).backward()
    ours = pair.ours.tok_embeddings.weight.grad
    theirs = pair.theirs.get_input_embeddings().weight.grad
    # Both sum over the batch, in another order, so single numbers may cancel.
    assert (ours - theirs).abs().max() < 1e-4 * theirs.abs().max()


def test_two_ranks_compute_what_one_does(pair: Pair) -> None:
    logits = pair.ours(*pair.batch)
    loss_of(logits).backward()
    split = run_split(QWEN2_SPEC, pair.theirs.config, pair.weights, pair.batch, tp=2)
    assert (split.logits - logits).abs().max() < 1e-5 * logits.std()
    gradients = {n: p.grad for n, p in pair.ours.named_parameters() if p.grad is not None}
    largest = max(gradient.norm() for gradient in gradients.values())
    assert split.gradients.keys() == gradients.keys()
    for name, gradient in gradients.items():
        # What is zero but for rounding is held to the largest gradient.
        allowed = 1e-4 * (gradient.norm() + 1e-2 * largest)
        assert (split.gradients[name] - gradient).norm() < allowed, name


@pytest.mark.skipif(not torch.cuda.is_available(), reason="its kernels run on GPUs only")
def test_varlen_attention_on_a_gpu_is_near_the_eager_path(pair: Pair) -> None:
    config = pair.theirs.config
    models = [
        build_model(QWEN2_SPEC, config, pair.weights, torch.bfloat16, attn_type=kind)
        for kind in ("varlen", "eager")
    ]
    found, wanted = (model.cuda()(*pair.batch.to("cuda")).float() for model in models)
    # bf16 has 8 bits, of which a few layers lose one or two; experts may be other ones for a token.
    distance = (found - wanted).abs().amax(-1) / wanted.std()
    assert distance.median() < 0.1
