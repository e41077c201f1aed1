"""What all models inherit, shown on Qwen3."""

from dataclasses import dataclass, field

import pytest
import torch
from torch import nn
from transformers import MixtralConfig, Qwen3Config

from areal.api.errors import ConfigError
from areal.experimental.models.archon import get_model_spec
from areal.experimental.models.archon.base import BaseModelArgs, keep_tokens
from areal.experimental.models.archon.layers.rope import RopeArgs
from areal.experimental.models.archon.moe import MoEArgs

SPEC = get_model_spec("qwen3")
SIZES = {
    "dim": 16,
    "n_layers": 1,
    "n_heads": 2,
    "n_kv_heads": 1,
    "head_dim": 8,
    "hidden_dim": 24,
    "vocab_size": 50,
    "rope": RopeArgs(8),
    "windows": [None],
}


def make(**changes):
    return SPEC.model_class(SPEC.model_args_class(**{**SIZES, **changes}))


def call(model, **kwargs):
    cu_seqlens = torch.tensor([0, 4, 7])
    positions = torch.tensor([[0, 1, 2, 3, 0, 1, 2]])
    return model(torch.arange(7)[None], positions, cu_seqlens, 4, **kwargs)


def test_a_model_built_on_meta_is_filled_with_finite_values():
    with torch.device("meta"):
        model = make()
    model.to_empty(device="cpu")
    for parameter in model.parameters():
        nn.init.constant_(parameter, torch.nan)
    model.tie_weights()
    model.init_weights()
    model.init_buffers("cpu")
    assert call(model).isfinite().all()
    weight = model.layers["0"].attention.wq.weight
    assert 0.01 < weight.std() < 0.03
    assert torch.equal(model.norm.weight, torch.ones(16))


def test_parameters_outside_of_layers_are_filled_too():
    model = make()
    block = model.layers["0"]
    block.sinks = nn.Parameter(torch.full((2,), torch.nan))
    block.experts = nn.Parameter(torch.full((3, 40, 40), torch.nan))
    model.init_weights()
    assert torch.equal(block.sinks, torch.zeros(2))
    assert 0.01 < block.experts.std() < 0.03


def test_tied_weights_are_one_tensor():
    tied, free = make(enable_weight_tying=True), make()
    assert tied.output.weight is tied.tok_embeddings.weight
    assert free.output.weight is not free.tok_embeddings.weight
    tied.output.weight = nn.Parameter(torch.zeros(50, 16))
    tied.tie_weights()
    assert tied.output.weight is tied.tok_embeddings.weight


def test_a_critic_scores_each_token():
    critic = make(is_critic=True, num_labels=3)
    critic.init_weights()
    assert call(critic).shape == (1, 7, 3)
    assert critic.output is None
    assert make().score is None


def test_logits_of_some_tokens_are_those_of_all():
    model = make()
    model.init_weights()
    keep = torch.tensor([6, 2])
    torch.testing.assert_close(call(model, logits_to_keep=keep), call(model)[0, keep])
    hidden = torch.randn(1, 7, 16)
    assert keep_tokens(hidden, None) is hidden


def test_stages_of_a_pipeline_pass_hidden_states_on():
    torch.manual_seed(0)
    model = make()
    model.init_weights()
    expected = call(model)
    head = {name: getattr(model, name) for name in ("norm", "output")}
    model.norm = model.output = None
    hidden = call(model)
    assert hidden.shape == (1, 7, 16)
    logits = head["output"](head["norm"](hidden))
    torch.testing.assert_close(logits, expected)
    for name, module in head.items():
        setattr(model, name, module)
    embedded = model.tok_embeddings(torch.arange(7)[None])
    model.tok_embeddings = None
    later = model(embedded, torch.tensor([[0, 1, 2, 3, 0, 1, 2]]), torch.tensor([[0, 4, 7]]), 4)
    torch.testing.assert_close(later, expected)


def test_a_tree_of_sequences_is_refused():
    with pytest.raises(ConfigError, match="tree attention"):
        call(make(), tree_attn_meta=object())


def test_the_rotary_base_is_found_where_any_version_keeps_it():
    class Config:
        rope_parameters = None
        rope_theta = None

    config = Config()
    assert BaseModelArgs._get_rope_theta(config) == 10000.0
    config.rope_theta = 5e5
    assert BaseModelArgs._get_rope_theta(config) == 5e5
    config.rope_parameters = {"rope_theta": 7.0}
    assert BaseModelArgs._get_rope_theta(config) == 7.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_heads": 3, "n_kv_heads": 2}, "3 query heads do not share 2"),
        ({"attn_type": "varln"}, "did you mean 'varlen'"),
    ],
)
def test_arguments_that_no_model_has_are_refused_before_it_is_built(change, message):
    with pytest.raises(ConfigError, match=message):
        SPEC.model_args_class(**{**SIZES, **change})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("is_causal", False),
        ("is_causal", None),  # transformers asks for the truth of what is stated
        ("is_causal", 0),
        ("per_layer_config", {0: {"intermediate_size": 8}}),
    ],
)
def test_what_no_model_has_is_refused_by_name(field, value):
    with pytest.raises(ConfigError, match=field):
        SPEC.model_args_class.from_hf_config(Qwen3Config(**{field: value}))


def test_the_dtype_of_a_router_goes_to_the_experts():
    moe = get_model_spec("mixtral").model_args_class
    for dtype in ("fp32", "float32", torch.float32):
        args = moe.from_hf_config(MixtralConfig(), router_dtype=dtype)
        assert args.moe_args.torch_router_dtype is torch.float32
    assert moe.from_hf_config(MixtralConfig(), router_dtype=None).moe_args.router_dtype is None
    dense = SPEC.model_args_class.from_hf_config(Qwen3Config(), router_dtype="fp32")
    assert not hasattr(dense, "moe_args")
    with pytest.raises(ConfigError, match="router_dtype 'int8'"):
        moe.from_hf_config(MixtralConfig(), router_dtype="int8")


def test_a_learned_activation_is_for_models_whose_own_is_one():
    @dataclass
    class LearnedArgs(SPEC.model_args_class):
        hidden_act: str = "xielu"
        # Defaults of some classes are no model's.
        moe_args: MoEArgs | None = field(default_factory=lambda: MoEArgs(top_k=None))

    sizes = {**SIZES, "moe_args": None}
    assert LearnedArgs.from_values(sizes, is_critic=False).hidden_act == "xielu"
    assert LearnedArgs.from_values({**sizes, "hidden_act": "silu"}, is_critic=False)
    with pytest.raises(ConfigError, match="the activation prelu has parameters"):
        LearnedArgs.from_values({**sizes, "hidden_act": "prelu"}, is_critic=False)
