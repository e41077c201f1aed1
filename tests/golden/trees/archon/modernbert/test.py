"""Is ModernBert what transformers computes?"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import ModernBertConfig, ModernBertForSequenceClassification

from areal.experimental.models.archon.modernbert.spec import MODERNBERT_SPEC
from areal.experimental.models.archon.testing import PackedBatch, build_model, loss_of, run_split

TINY = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 80,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "max_position_embeddings": 32,
    "local_attention": 8,
    "pad_token_id": 88,
    "eos_token_id": 87,
    "bos_token_id": 86,
    "cls_token_id": 85,
    "sep_token_id": 84,
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
    config = ModernBertConfig(**TINY)
    config._attn_implementation = "eager"
    config.num_labels = 1
    theirs = ModernBertForSequenceClassification(config).eval()
    theirs.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    batch = PackedBatch.draw(config.vocab_size, LENGTHS)
    return Pair(
        theirs, build_model(MODERNBERT_SPEC, config, weights, is_critic=True), weights, batch
    )


def logits_of(pair: Pair) -> tuple[Tensor, Tensor]:
    """Returns the scores of a packed batch by both models, for each token that of its sequence."""
    rows = pair.batch.tokens.split(LENGTHS, dim=1)
    theirs = [pair.theirs(row).logits.expand(1, row.shape[1], -1) for row in rows]
    return pair.ours(*pair.batch), torch.cat(theirs, dim=1)


def test_arguments_are_those_of_the_configuration_and_of_the_trainer() -> None:
    config = ModernBertConfig(**TINY)
    chosen = {"is_critic": True, "attn_type": "sdpa", "router_dtype": torch.float32}
    args = MODERNBERT_SPEC.model_args_class.from_hf_config(config, **chosen)
    assert (args.vocab_size, args.n_layers) == (config.vocab_size, config.num_hidden_layers)
    assert (args.is_critic, args.attn_type) == (True, "sdpa")
    with pytest.raises(ValueError, match="is_critic=True"):
        MODERNBERT_SPEC.model_args_class.from_hf_config(config)
    config.is_decoder = True
    with pytest.raises(ValueError, match="is_decoder"):
        MODERNBERT_SPEC.model_args_class.from_hf_config(config, is_critic=True)


def test_a_checkpoint_has_every_parameter(pair: Pair) -> None:
    args = MODERNBERT_SPEC.model_args_class.from_hf_config(pair.theirs.config, is_critic=True)
    with torch.device("meta"):
        model = MODERNBERT_SPEC.model_class(args)
    found = MODERNBERT_SPEC.state_dict_adapter_class(pair.theirs.config).from_hf(pair.weights)
    wanted = {name: tensor.shape for name, tensor in model.state_dict().items()}
    assert {name: tensor.shape for name, tensor in found.items()} == wanted
    assert model.score is not None


def test_weights_come_back_bit_by_bit(pair: Pair) -> None:
    adapter = MODERNBERT_SPEC.state_dict_adapter_class(pair.theirs.config)
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
    split = run_split(
        MODERNBERT_SPEC, pair.theirs.config, pair.weights, pair.batch, is_critic=True, dp_shard=2
    )
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
        build_model(
            MODERNBERT_SPEC, config, pair.weights, torch.bfloat16, attn_type=kind, is_critic=True
        )
        for kind in ("varlen", "eager")
    ]
    found, wanted = (model.cuda()(*pair.batch.to("cuda")).float() for model in models)
    # bf16 has 8 bits, of which a few layers lose one or two; experts may be other ones for a token.
    distance = (found - wanted).abs().amax(-1) / wanted.std()
    assert distance.median() < 0.1
