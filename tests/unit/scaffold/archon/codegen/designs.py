"""Designs written by hand, for the tests of what is written from them."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

LLAMA_STEPS: list[Json] = [
    {"out": "n", "call": "attention_norm", "in": "x"},
    {"out": "a", "call": "attention", "in": "n"},
    {"out": "h", "sum": [["x", 1.0], ["a", 1.0]]},
    {"out": "m", "call": "ffn_norm", "in": "h"},
    {"out": "f", "call": "feed_forward", "in": "m"},
    {"out": "y", "sum": [["h", 1.0], ["f", 1.0]]},
]
WINDOWS = (
    "tuple(hf_config.sliding_window if kind == 'sliding_attention' else None "
    "for kind in hf_config.layer_types)"
)


def arg(name: str) -> Json:
    return {"arg": name}


def layer_arg(name: str) -> Json:
    return {"layer_arg": name}


def expr(text: str) -> Json:
    return {"expr": text}


def rms(dim: Any = None, **options: Any) -> Json:
    return {"kind": "rms", "dim": dim or arg("dim"), "eps": arg("norm_eps"), **options}


def layer_norm(dim: Any = None, **options: Any) -> Json:
    return {"kind": "layer", "dim": dim or arg("dim"), "eps": arg("norm_eps"), **options}


def norm_module(name: str, norm: Json) -> Json:
    return {"name": name, "kind": "norm", "norm": norm}


def field(name: str, kind: str, default: Any, text: str, doc: str) -> Json:
    return {"name": name, "type": kind, "default": default, "expr": text, "doc": doc}


def common_args(
    eps: str = "rms_norm_eps",
    kv_heads: str = "hf_config.num_key_value_heads",
    head_dim: str = "hf_config.head_dim",
    tied: bool = False,
) -> list[Json]:
    """Returns the fields that every model has, in their order."""
    return [
        field("dim", "int", 64, "hf_config.hidden_size", "Width of the residual stream."),
        field("n_layers", "int", 4, "hf_config.num_hidden_layers", "Blocks."),
        field("n_heads", "int", 4, "hf_config.num_attention_heads", "Heads of queries."),
        field("n_kv_heads", "int", 2, kv_heads, "Heads of keys and values."),
        field("head_dim", "int", 16, head_dim, "Dimensions of a head."),
        field("hidden_dim", "int", 128, "hf_config.intermediate_size", "Width of a feed-forward."),
        field("vocab_size", "int", 512, "hf_config.vocab_size", "Tokens that there are."),
        field("norm_eps", "float", 1e-6, f"hf_config.{eps}", "Added to mean squares by norms."),
        field("max_seq_len", "int", 256, "hf_config.max_position_embeddings", "Trained context."),
        field(
            "enable_weight_tying",
            "bool",
            tied,
            "hf_config.tie_word_embeddings",
            "Whether the output layer is the embedding.",
        ),
        field(
            "eos_id",
            "int | list[int] | None",
            None,
            "hf_config.eos_token_id",
            "Token that ends a text.",
        ),
    ]


def renames(pairs: dict[str, str]) -> list[Json]:
    return [{"rule": "Rename", "hub": hub, "archon": archon} for archon, hub in pairs.items()]


LLAMA_NAMES = {
    "tok_embeddings.weight": "model.embed_tokens.weight",
    "layers.{}.attention.wq.weight": "model.layers.{}.self_attn.q_proj.weight",
    "layers.{}.attention.wk.weight": "model.layers.{}.self_attn.k_proj.weight",
    "layers.{}.attention.wv.weight": "model.layers.{}.self_attn.v_proj.weight",
    "layers.{}.attention.wo.weight": "model.layers.{}.self_attn.o_proj.weight",
    "layers.{}.attention_norm.weight": "model.layers.{}.input_layernorm.weight",
    "layers.{}.ffn_norm.weight": "model.layers.{}.post_attention_layernorm.weight",
    "layers.{}.feed_forward.w1.weight": "model.layers.{}.mlp.gate_proj.weight",
    "layers.{}.feed_forward.w2.weight": "model.layers.{}.mlp.down_proj.weight",
    "layers.{}.feed_forward.w3.weight": "model.layers.{}.mlp.up_proj.weight",
    "norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
TIED: Json = {"rule": "Tied", "hub": "lm_head.weight", "source": "model.embed_tokens.weight"}
TINY: Json = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
}


def gqa(**options: Any) -> Json:
    """Returns an attention with grouped queries, rotary positions and no biases."""
    return {
        "kind": "gqa",
        "n_heads": arg("n_heads"),
        "n_kv_heads": arg("n_kv_heads"),
        "head_dim": arg("head_dim"),
        "rope": {},
        "scale": expr("args.head_dim**-0.5"),
        **options,
    }


def source_of(folder: str, prefix: str) -> Json:
    return {
        "transformers": "5.23.0",
        "file": f"models/{folder}/modeling_{folder}.py",
        "config_class": f"{prefix}Config",
        "model_class": f"{prefix}ForCausalLM",
    }


def qwen3() -> Json:
    bias = arg("attention_bias")
    attention = gqa(
        q_bias=bias,
        k_bias=bias,
        v_bias=bias,
        o_bias=bias,
        q_norm=rms(arg("head_dim"), over="head"),
        k_norm=rms(arg("head_dim"), over="head"),
        window=layer_arg("windows"),
    )
    biases = {
        f"layers.{{}}.attention.w{our}.bias": f"model.layers.{{}}.self_attn.{our}_proj.bias"
        for our in "qkvo"
    }
    norms = {
        f"layers.{{}}.attention.{name}.weight": f"model.layers.{{}}.self_attn.{name}.weight"
        for name in ("q_norm", "k_norm")
    }
    return {
        "schema": 1,
        "model_type": "qwen3",
        "class_prefix": "Qwen3",
        "source": source_of("qwen3", "Qwen3"),
        "args": [
            *common_args(),
            field("attention_bias", "bool", False, "hf_config.attention_bias", "Biases."),
            field("hidden_act", "str", "silu", "hf_config.hidden_act", "Activation."),
            field("windows", "tuple[int | None, ...]", [None] * 4, WINDOWS, "Keys in sight."),
        ],
        "refusals": [],
        "ropes": {"rope": {"expr": "RopeArgs.from_hf(hf_config)", "default": "RopeArgs(dim=16)"}},
        "block": {
            "modules": [
                norm_module("attention_norm", rms()),
                {"name": "attention", "kind": "attention"},
                norm_module("ffn_norm", rms()),
                {"name": "feed_forward", "kind": "mlp"},
            ],
            "variants": [{"steps": LLAMA_STEPS}],
        },
        "attention": attention,
        "mlp": {"gated": True, "activation": arg("hidden_act"), "hidden_dim": arg("hidden_dim")},
        "head": {"norm": rms(), "tied": arg("enable_weight_tying")},
        "weights": [*renames({**LLAMA_NAMES, **norms, **biases}), TIED],
        "tiny": {
            **TINY,
            "use_sliding_window": True,
            "sliding_window": 5,
            "max_window_layers": 1,
            "attention_bias": True,
        },
    }


def lfm2() -> Json:
    """A hybrid: some layers attend, the others run a convolution of transformers."""
    base = qwen3()
    attends = "kind == 'full_attention' for kind in hf_config.layer_types"
    convolves = "kind != 'full_attention' for kind in hf_config.layer_types"
    kinds = "tuple[bool, ...]"
    common = common_args(
        eps="norm_eps",
        head_dim="hf_config.hidden_size // hf_config.num_attention_heads",
    )
    steps = [
        {**step, "call": ["attention", "mixer"]} if step.get("call") == "attention" else step
        for step in LLAMA_STEPS
    ]
    names = {
        **LLAMA_NAMES,
        "layers.{}.attention.wo.weight": "model.layers.{}.self_attn.out_proj.weight",
        "layers.{}.attention.q_norm.weight": "model.layers.{}.self_attn.q_layernorm.weight",
        "layers.{}.attention.k_norm.weight": "model.layers.{}.self_attn.k_layernorm.weight",
        "layers.{}.attention_norm.weight": "model.layers.{}.operator_norm.weight",
        "layers.{}.ffn_norm.weight": "model.layers.{}.ffn_norm.weight",
        "norm.weight": "model.embedding_norm.weight",
    }
    names |= {
        f"layers.{{}}.feed_forward.w{n}.weight": f"model.layers.{{}}.feed_forward.w{n}.weight"
        for n in (1, 2, 3)
    }
    names |= {
        f"layers.{{}}.mixer.inner.{n}.weight": f"model.layers.{{}}.conv.{n}.weight"
        for n in ("conv", "in_proj", "out_proj")
    }
    modules = [
        {**module, "when": layer_arg("has_attention")} if module["kind"] == "attention" else module
        for module in base["block"]["modules"]
    ]
    mixer = {"name": "mixer", "kind": "mixer", "when": layer_arg("has_mixer")}
    norms = {key: rms(arg("head_dim"), over="head") for key in ("q_norm", "k_norm")}
    return {
        **base,
        "model_type": "lfm2",
        "class_prefix": "Lfm2",
        "source": source_of("lfm2", "Lfm2"),
        "args": [
            *common,
            field("has_attention", kinds, [False, True], f"tuple({attends})", "Attends."),
            field("has_mixer", kinds, [True, False], f"tuple({convolves})", "Convolves."),
        ],
        "block": {"modules": [*modules, mixer], "variants": [{"steps": steps}]},
        "attention": gqa(**norms),
        "mixer": {
            "class": "transformers.models.lfm2.modeling_lfm2:Lfm2ShortConv",
            "by_layer": True,
        },
        "mlp": {"gated": True, "activation": "silu", "hidden_dim": arg("hidden_dim")},
        "weights": [*renames(names), TIED],
        "tiny": {
            **{key: value for key, value in TINY.items() if key != "head_dim"},
            "layer_types": ["conv", "full_attention", "conv"],
            "block_auto_adjust_ff_dim": False,
        },
    }


def modernbert() -> Json:
    """An encoder: windows on both sides, a rope for each, and one score for a sequence."""
    flags = "tuple[bool, ...]"
    kinds = "tuple(hf_config.layer_types[i] for i in range(n_layers))"
    windows = (
        "tuple(hf_config.local_attention // 2 + 1 if hf_config.layer_types[i] != 'full_attention'"
        " else None for i in range(n_layers))"
    )
    norm = layer_norm(bias=arg("norm_bias"))
    bias = arg("attention_bias")
    steps = {step["out"]: step for step in LLAMA_STEPS}
    first = [{**steps["a"], "in": "x"}, *(steps[name] for name in "hmfy")]
    by_type = {
        f"rope_{kind}": {
            "expr": f"RopeArgs.from_hf(hf_config, layer_type='{kind}', dim={{head_dim}})",
            "layer_type": kind,
            "in_fp32": "products",
        }
        for kind in ("full_attention", "sliding_attention")
    }
    names = {
        "tok_embeddings.weight": "model.embeddings.tok_embeddings.weight",
        "embedding_norm.weight": "model.embeddings.norm.weight",
        "layers.{}.attention_norm.weight": "model.layers.{}.attn_norm.weight",
        "layers.{}.attention.wo.weight": "model.layers.{}.attn.Wo.weight",
        "layers.{}.ffn_norm.weight": "model.layers.{}.mlp_norm.weight",
        "layers.{}.feed_forward.w2.weight": "model.layers.{}.mlp.Wo.weight",
        "norm.weight": "model.final_norm.weight",
        "head_dense.weight": "head.dense.weight",
        "head_norm.weight": "head.norm.weight",
        "score.weight": "classifier.weight",
        "score.bias": "classifier.bias",
    }
    fused = {
        "attn.Wqkv": [f"layers.{{}}.attention.w{n}.weight" for n in "qkv"],
        "mlp.Wi": [f"layers.{{}}.feed_forward.w{n}.weight" for n in (1, 3)],
    }
    return {
        "model_type": "modernbert",
        "class_prefix": "ModernBert",
        "encoder": True,
        "source": {
            **source_of("modernbert", "ModernBert"),
            "model_class": "ModernBertForSequenceClassification",
        },
        "args": [
            *(
                each
                for each in common_args(
                    eps="norm_eps",
                    kv_heads="hf_config.num_attention_heads",
                    head_dim="hf_config.hidden_size // hf_config.num_attention_heads",
                )
                if each["name"] not in ("enable_weight_tying", "eos_id")
            ),
            field("norm_bias", "bool", False, "hf_config.norm_bias", "Bias of norms."),
            field("pad_token_id", "int | None", None, "hf_config.pad_token_id", "Padding."),
            field(
                "is_first", flags, [True, False, False, False],
                "tuple(i == 0 for i in range(n_layers))", "Has no norm before attention.",
            ),
            field(
                "has_attention_norm", flags, [False, True, True, True],
                "tuple(i != 0 for i in range(n_layers))", "Norms.",
            ),
            field("attention_bias", "bool", False, "hf_config.attention_bias", "Biases."),
            field("windows", "tuple[int | None, ...]", [None, 65, 65, None], windows, "Windows."),
            field("hidden_activation", "str", "gelu", "hf_config.hidden_activation", "Activation."),
            field("mlp_bias", "bool", False, "hf_config.mlp_bias", "Biases."),
            field(
                "layer_types", "tuple[str, ...]",
                ["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
                kinds, "Kinds.",
            ),
            field("classifier_pooling", "str", "cls", "hf_config.classifier_pooling", "Pooling."),
            field(
                "classifier_activation", "str", "gelu", "hf_config.classifier_activation",
                "The non-linear activation function before the score.",
            ),
            field(
                "classifier_bias", "bool", False, "hf_config.classifier_bias",
                "Whether to use a bias in the layer before the score.",
            ),
        ],
        "embedding": {"norm": norm, "padding_idx": arg("pad_token_id")},
        "block": {
            "modules": [
                {"name": "attention_norm", "kind": "norm", "norm": norm,
                 "when": layer_arg("has_attention_norm")},
                {"name": "attention", "kind": "attention"},
                norm_module("ffn_norm", norm),
                {"name": "feed_forward", "kind": "mlp"},
            ],
            "variants": [
                {"when": layer_arg("is_first"), "steps": first},
                {"steps": LLAMA_STEPS},
            ],
        },
        "attention": gqa(
            q_bias=bias, k_bias=bias, v_bias=bias, o_bias=bias,
            rope={"when": True, "key": layer_arg("layer_types")},
            window=layer_arg("windows"), causal=False,
        ),
        "mlp": {
            "gated": True, "activation": arg("hidden_activation"), "hidden_dim": arg("hidden_dim"),
            "gate_bias": arg("mlp_bias"), "up_bias": arg("mlp_bias"), "down_bias": arg("mlp_bias"),
        },
        "ropes": by_type,
        "head": {
            "norm": norm,
            "pooling": arg("classifier_pooling"),
            "bias": True,
            "transform": {
                "when": True, "activation": arg("classifier_activation"),
                "bias": arg("classifier_bias"), "norm": norm,
            },
        },
        "weights": [
            *renames(names),
            *({"rule": "Fused", "hub": f"model.layers.{{}}.{hub}.weight", "archon": parts}
              for hub, parts in fused.items()),
            {"rule": "Ignored", "hub": "decoder.bias"},
            {"rule": "Ignored", "hub": "decoder.weight"},
        ],
        "tiny": {
            "vocab_size": 96, "hidden_size": 64, "intermediate_size": 80, "num_hidden_layers": 4,
            "num_attention_heads": 4, "max_position_embeddings": 32, "local_attention": 8,
            "pad_token_id": 88, "eos_token_id": 87, "bos_token_id": 86, "cls_token_id": 85,
            "sep_token_id": 84,
        },
    }  # fmt: skip


def gemma2() -> Json:
    """Softcaps, norms before and after, windows, a factor on the embedding, offsets of norms."""

    def norm(**options: Any) -> Json:
        return rms(offset=1.0, **options)

    steps = [
        {"out": "n", "call": "attention_norm", "in": "x"},
        {"out": "a", "call": "attention", "in": "n"},
        {"out": "p", "call": "attention_post_norm", "in": "a"},
        {"out": "h", "sum": [["x", 1.0], ["p", 1.0]]},
        {"out": "m", "call": "ffn_norm", "in": "h"},
        {"out": "f", "call": "feed_forward", "in": "m"},
        {"out": "q", "call": "ffn_post_norm", "in": "f"},
        {"out": "y", "sum": [["h", 1.0], ["q", 1.0]]},
    ]
    attention = gqa(
        scale=expr("args.query_pre_attn_scalar**-0.5"),
        softcap=arg("attn_logit_softcapping"),
        window=layer_arg("windows"),
    )
    names = {
        **LLAMA_NAMES,
        "layers.{}.attention_post_norm.weight": "model.layers.{}.post_attention_layernorm.weight",
        "layers.{}.ffn_norm.weight": "model.layers.{}.pre_feedforward_layernorm.weight",
        "layers.{}.ffn_post_norm.weight": "model.layers.{}.post_feedforward_layernorm.weight",
    }
    return {
        **qwen3(),
        "model_type": "gemma2",
        "class_prefix": "Gemma2",
        "source": source_of("gemma2", "Gemma2"),
        "args": [
            *common_args(tied=True),
            field(
                "hidden_activation", "str", "gelu_pytorch_tanh", "hf_config.hidden_activation", "A."
            ),
            field("query_pre_attn_scalar", "float", 16, "hf_config.query_pre_attn_scalar", "Q."),
            field(
                "attn_logit_softcapping",
                "float | None",
                50.0,
                "hf_config.attn_logit_softcapping",
                "Bound of the attention's scores; None for none.",
            ),
            field(
                "final_logit_softcapping",
                "float | None",
                30.0,
                "hf_config.final_logit_softcapping",
                "Bound of the logits; None for none.",
            ),
            field("embedding_multiplier", "float", 8.0, "hf_config.hidden_size**0.5", "Factor."),
            field("windows", "tuple[int | None, ...]", [4096, None] * 2, WINDOWS, "Keys in sight."),
        ],
        "refusals": [
            {
                "condition": "hf_config.attention_bias",
                "message": "attention_bias {hf_config.attention_bias} is not implemented",
            }
        ],
        "embedding": {"multiplier": arg("embedding_multiplier")},
        "block": {
            "modules": [
                norm_module("attention_norm", norm()),
                {"name": "attention", "kind": "attention"},
                norm_module("attention_post_norm", norm()),
                norm_module("ffn_norm", norm()),
                {"name": "feed_forward", "kind": "mlp"},
                norm_module("ffn_post_norm", norm()),
            ],
            "variants": [{"steps": steps}],
        },
        "attention": attention,
        "mlp": {
            "gated": True,
            "activation": arg("hidden_activation"),
            "hidden_dim": arg("hidden_dim"),
        },
        "head": {
            "norm": norm(),
            "softcap": arg("final_logit_softcapping"),
            "tied": arg("enable_weight_tying"),
        },
        "weights": [*renames(names), TIED],
        "tiny": {**TINY, "sliding_window": 5, "query_pre_attn_scalar": 12},
    }


def gpt_neox() -> Json:
    """Layer norms, one sum or two, rotation of a part of the head, biases, fused weights."""
    parallel = [
        *LLAMA_STEPS[:2],
        {"out": "m", "call": "ffn_norm", "in": "x"},
        {"out": "f", "call": "feed_forward", "in": "m"},
        {"out": "y", "sum": [["x", 1.0], ["a", 1.0], ["f", 1.0]]},
    ]
    bias = arg("attention_bias")
    attention = gqa(n_kv_heads=arg("n_heads"), q_bias=bias, k_bias=bias, v_bias=bias, o_bias=bias)
    names = {
        "tok_embeddings.weight": "gpt_neox.embed_in.weight",
        "norm.weight": "gpt_neox.final_layer_norm.weight",
        "norm.bias": "gpt_neox.final_layer_norm.bias",
        "output.weight": "embed_out.weight",
    }
    for our, hub in {
        "attention_norm": "input_layernorm",
        "ffn_norm": "post_attention_layernorm",
        "attention.wo": "attention.dense",
        "feed_forward.w1": "mlp.dense_h_to_4h",
        "feed_forward.w2": "mlp.dense_4h_to_h",
    }.items():
        for leaf in ("weight", "bias"):
            names[f"layers.{{}}.{our}.{leaf}"] = f"gpt_neox.layers.{{}}.{hub}.{leaf}"
    fused = [
        {
            "rule": "Fused",
            "hub": f"gpt_neox.layers.{{}}.attention.query_key_value.{leaf}",
            "archon": [f"layers.{{}}.attention.w{name}.{leaf}" for name in "qkv"],
            "groups": "n_heads",
        }
        for leaf in ("weight", "bias")
    ]
    heads = "hf_config.num_attention_heads"
    tied = {"rule": "Tied", "hub": "embed_out.weight", "source": "gpt_neox.embed_in.weight"}
    return {
        **qwen3(),
        "model_type": "gpt_neox",
        "class_prefix": "GPTNeoX",
        "source": source_of("gpt_neox", "GPTNeoX"),
        "args": [
            *common_args("layer_norm_eps", heads, "{dim} // {n_heads}"),
            field("attention_bias", "bool", True, "hf_config.attention_bias", "Biases."),
            field("hidden_act", "str", "gelu", "hf_config.hidden_act", "Activation."),
            field(
                "use_parallel_residual",
                "bool",
                True,
                "hf_config.use_parallel_residual",
                "Whether one sum adds both branches.",
            ),
        ],
        "block": {
            "modules": [
                norm_module("attention_norm", layer_norm()),
                {"name": "attention", "kind": "attention"},
                norm_module("ffn_norm", layer_norm()),
                {"name": "feed_forward", "kind": "mlp"},
            ],
            "variants": [
                {"when": arg("use_parallel_residual"), "steps": parallel},
                {"steps": LLAMA_STEPS},
            ],
        },
        "attention": attention,
        "mlp": {
            "gated": False,
            "activation": arg("hidden_act"),
            "hidden_dim": arg("hidden_dim"),
            "up_bias": True,
            "down_bias": True,
        },
        "head": {"norm": layer_norm(), "tied": arg("enable_weight_tying")},
        "weights": [*renames(names), *fused, tied],
        "tiny": {
            "vocab_size": 97,
            "hidden_size": 64,
            "intermediate_size": 48,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "max_position_embeddings": 64,
            "hidden_dropout": 0.0,
        },
    }


def everything() -> Json:
    """Every option of a dense model at once, each under a condition where one is allowed.

    No model of transformers is like it; what is written must still be clean, run and learn.
    """
    steps = [
        {"out": "n", "call": "attention_norm", "in": "x"},
        {"out": "a", "call": "attention", "in": "n"},
        {"out": "b", "call": "attention_2", "in": "n"},
        {"out": "h", "sum": [["x", 1.0], ["a", arg("residual_multiplier")], ["b", 0.5]]},
        {"out": "m", "call": "ffn_norm", "in": "h"},
        {"out": "f", "call": "feed_forward", "in": "m"},
        {"out": "s", "sum": [["h", 1.0], ["f", layer_arg("scales")]]},
        {"out": "y", "call": "ffn_post_norm", "in": "s"},
    ]
    swapped = [
        {"out": "n", "call": "ffn_norm", "in": "x"},
        {"out": "f", "call": "feed_forward", "in": "n"},
        {"out": "h", "sum": [["f", 1.0], ["x", 1.0]]},
        {"out": "y", "sum": [["h", arg("residual_multiplier")]]},
    ]
    head_norm = layer_norm(arg("head_dim"), bias=False, over="head", per_head=True)
    attention = gqa(
        v_head_dim=arg("v_head_dim"),
        q_bias=True,
        o_bias=expr("layer_id == args.n_layers - 1"),
        clip_qkv={"when": expr("args.clip_qkv is not None"), "limit": arg("clip_qkv")},
        q_norm={**head_norm, "when": arg("use_qk_norm")},
        k_norm={**head_norm, "when": arg("use_qk_norm")},
        v_norm=rms(expr("args.v_head_dim"), weight=False, over="head"),
        rope={"when": layer_arg("has_rope"), "key": layer_arg("layer_types")},
        window=layer_arg("windows"),
        sinks={"when": arg("use_sinks")},
        gate={"when": arg("use_gate"), "fn": "softplus", "per": "head", "bias": True},
        temperature={
            "when": expr("not args.has_rope[layer_id]"),
            "scale": arg("attn_scale"),
            "floor": 4.0,
            "position_offset": 1,
        },
        value_scale=arg("value_scale"),
        out_norm=rms(expr("args.n_heads * args.v_head_dim"), over="projection"),
    )
    options = [
        ("residual_multiplier", "float", 0.25),
        ("v_head_dim", "int", 12),
        ("clip_qkv", "float | None", 3.0),
        ("use_qk_norm", "bool", True),
        ("use_sinks", "bool", True),
        ("use_gate", "bool", True),
        ("use_swapped", "bool", False),
        ("attn_scale", "float", 0.1),
        ("value_scale", "float", 2.0),
        ("logits_scaling", "float", 4.0),
        ("hidden_act", "str", "relu2"),
        ("has_rope", "tuple[bool, ...]", [True, False] * 2),
        ("layer_types", "tuple[str, ...]", ["near", "far"] * 2),
        ("windows", "tuple[int | None, ...]", [3, None, 3, None]),
        ("scales", "tuple[float, ...]", [1.0, 0.5, 0.25, 0.125]),
    ]
    return {
        **qwen3(),
        "model_type": "every-thing",
        "class_prefix": "EveryThing",
        "args": [
            *common_args(),
            *(
                field(name, kind, default, f"getattr(hf_config, '{name}', None)", "An option.")
                for name, kind, default in options
            ),
        ],
        "refusals": [
            {
                "condition": "hf_config.hidden_act not in ('relu2', 'silu') or n_layers % 2",
                "message": 'an activation "{hf_config.hidden_act!r}" that is not among those which '
                "were measured, or an odd number of layers: {hf_config.num_hidden_layers}",
            },
            {"condition": "hf_config.vocab_size < 2", "message": "no words"},
        ],
        "ropes": {
            "rope_near": {
                "expr": "RopeArgs.from_hf(hf_config, layer_type='near')",
                "default": "RopeArgs(dim=8)",
                "layer_type": "near",
                "pairing": "interleaved",
            },
            "rope_far": {
                "expr": "RopeArgs.from_hf(hf_config, layer_type='far')",
                "default": "RopeArgs(dim=16, theta=1000000.0)",
                "layer_type": "far",
            },
        },
        "embedding": {
            "multiplier": expr("args.dim**0.5"),
            "norm": layer_norm(),
            "positions": {"kind": "learned", "offset": 2, "size": arg("max_seq_len")},
            "padding_idx": 0,
        },
        "block": {
            "modules": [
                norm_module("attention_norm", rms(when=expr("layer_id > 0"))),
                {"name": "attention", "kind": "attention"},
                {"name": "attention_2", "kind": "attention"},
                norm_module("ffn_norm", layer_norm(weight=False)),
                {"name": "feed_forward", "kind": "mlp"},
                norm_module("ffn_post_norm", layer_norm(offset=1.0)),
            ],
            "variants": [{"when": arg("use_swapped"), "steps": swapped}, {"steps": steps}],
        },
        "attention": attention,
        "mlp": {
            "gated": False,
            "activation": arg("hidden_act"),
            "hidden_dim": arg("hidden_dim"),
            "up_bias": True,
            "down_bias": False,
            "inner_norm": rms(arg("hidden_dim")),
        },
        "head": {
            "norm": layer_norm(bias=False),
            "bias": True,
            "multiplier": arg("logits_scaling"),
            "softcap": 30.0,
            "transform": {"activation": "gelu", "bias": False, "norm": layer_norm()},
        },
        "weights": renames({"norm.weight": "norm.weight", "output.weight": "head.weight"}),
        "unknown": [{"module": "model.layers.0.mixer", "what": "its state is not understood"}],
        "tiny": None,
    }


def positional() -> Json:
    """Norms after each sum, positions added or biased instead of rotated, no final norm."""
    steps = [
        {"out": "a", "call": "attention", "in": "x"},
        {"out": "s", "sum": [["x", 1.0], ["a", 1.0]]},
        {"out": "h", "call": "attention_norm", "in": "s"},
        {"out": "f", "call": "feed_forward", "in": "h"},
        {"out": "t", "sum": [["h", 1.0], ["f", 1.0]]},
        {"out": "y", "call": "ffn_norm", "in": "t"},
    ]
    attention = gqa(
        alibi={"when": arg("alibi"), "max_bias": 4, "multiplier": 0.5},
        gate={"fn": "sigmoid", "per": "dim", "head_bias": True},
        out_norm=rms(expr("args.n_heads * args.head_dim")),
        softcap=20.0,
    )
    return {
        **everything(),
        "model_type": "positional",
        "class_prefix": "Positional",
        "args": [
            *common_args(),
            field("alibi", "bool", True, "hf_config.alibi", "Whether scores fall with distance."),
        ],
        "refusals": [],
        "ropes": {},
        "embedding": {
            "positions": {
                "kind": "sinusoidal",
                "when": expr("not args.alibi"),
                "layout": "interleaved",
            }
        },
        "block": {
            "modules": [
                {"name": "attention", "kind": "attention"},
                norm_module("attention_norm", layer_norm()),
                {"name": "feed_forward", "kind": "mlp"},
                norm_module("ffn_norm", layer_norm()),
            ],
            "variants": [{"steps": steps}],
        },
        "attention": attention,
        "mlp": {
            "gated": True,
            "activation": "silu",
            "hidden_dim": arg("hidden_dim"),
            "gate_bias": True,
            "up_bias": True,
            "down_bias": True,
        },
        "head": {"multiplier": 0.0625},
        "unknown": [],
    }


def mixtral() -> Json:
    """Experts in the place of the feed-forward."""
    steps = [{**step, "call": "moe"} if step["out"] == "f" else step for step in LLAMA_STEPS]
    experts = "model.layers.{}.block_sparse_moe.experts.{e}"
    names = {name: hub for name, hub in LLAMA_NAMES.items() if "feed_forward" not in name}
    names["layers.{}.moe.router.gate.weight"] = "model.layers.{}.block_sparse_moe.gate.weight"
    stacked = [
        {
            "rule": "Stacked",
            "hub": f"{experts}.{w}.weight",
            "archon": f"layers.{{}}.moe.experts.{w}",
        }
        for w in ("w1", "w2", "w3")
    ]
    design = qwen3()
    return {
        **design,
        "model_type": "mixtral",
        "class_prefix": "Mixtral",
        "source": source_of("mixtral", "Mixtral"),
        "args": [
            *common_args(),
            field("window", "int | None", None, "hf_config.sliding_window", "Keys in sight."),
            field("hidden_act", "str", "silu", "hf_config.hidden_act", "Activation."),
            field("num_experts", "int", 8, "hf_config.num_local_experts", "Experts."),
            field("top_k", "int", 2, "hf_config.num_experts_per_tok", "Experts of a token."),
        ],
        "block": {
            "modules": [*design["block"]["modules"][:3], {"name": "moe", "kind": "moe"}],
            "variants": [{"steps": steps}],
        },
        "attention": gqa(window=arg("window")),
        "moe": {
            "hidden_dim": arg("hidden_dim"),
            "args": {
                "num_experts": arg("num_experts"),
                "top_k": arg("top_k"),
                "score_func": "softmax",
                "route_norm": True,
                "activation": arg("hidden_act"),
            },
        },
        "weights": [*renames(names), *stacked, TIED],
        "tiny": {**TINY, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 5},
    }


def half_sparse() -> Json:
    """Feed-forwards in the first layers and experts in the others."""
    design = mixtral()
    steps = [
        {**step, "call": ["moe", "feed_forward"]} if step["out"] == "f" else step
        for step in LLAMA_STEPS
    ]
    modules = [
        *design["block"]["modules"][:3],
        {"name": "feed_forward", "kind": "mlp", "when": expr("not args.has_experts[layer_id]")},
        {"name": "moe", "kind": "moe", "when": layer_arg("has_experts")},
    ]
    return {
        **design,
        "model_type": "half-sparse",
        "class_prefix": "HalfSparse",
        "args": [
            *design["args"],
            field("has_experts", "tuple[bool, ...]", [False, True] * 2, "(True,)", "Experts."),
        ],
        "block": {"modules": modules, "variants": [{"steps": steps}]},
        "mlp": {"gated": True, "activation": "silu", "hidden_dim": arg("hidden_dim")},
        "tiny": None,
    }
