"""What is written from a design: clean, complete, and the model that was meant."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from scaffold.archon.codegen import write_model
from scaffold.archon.codegen.values import factor, literal, product, spelled, value_text
from scaffold.errors import TemplateError
from tests.unit.scaffold.archon.codegen import designs

ROOT = Path(__file__).parents[5]
DESIGNS = {
    "qwen3": designs.qwen3(),
    "lfm2": designs.lfm2(),
    "modernbert": designs.modernbert(),
    "gemma2": designs.gemma2(),
    "gpt_neox": designs.gpt_neox(),
    "mixtral": designs.mixtral(),
    "half_sparse": designs.half_sparse(),
    "every_thing": designs.everything(),
    "positional": designs.positional(),
}
FILES = {
    "__init__.py",
    "spec.py",
    "model/__init__.py",
    "model/args.py",
    "model/model.py",
    "model/state_dict_adapter.py",
    "infra/__init__.py",
    "infra/parallelize.py",
    "test.py",
}
OVERLAY = """
from pathlib import Path

import areal.experimental.models.archon as archon

archon.__path__.insert(0, str(Path(__file__).parent / "written"))
"""
LEARNING = '''
"""Do models learn that no transformers model is like?"""

import importlib

import pytest
import torch

LENGTHS = (7, 2, 12)


@pytest.mark.parametrize("folder", ["every_thing", "positional", "half_sparse"])
@pytest.mark.parametrize(
    "options", [{}, {"is_critic": True}, {"use_swapped": True}, {"alibi": False}]
)
def test_all_parameters_learn(folder, options):
    spec = getattr(importlib.import_module(f"areal.experimental.models.archon.{folder}.spec"),
                   f"{folder.upper()}_SPEC")
    fields = spec.model_args_class.__dataclass_fields__
    if not options.keys() <= fields.keys():
        pytest.skip("another model's option")
    args = spec.model_args_class(**options)
    model = spec.model_class(args)
    torch.manual_seed(0)
    model.init_weights()
    model.init_buffers("cpu")
    tokens = torch.randint(1, args.vocab_size, (1, sum(LENGTHS)))
    positions = torch.cat([torch.arange(n) for n in LENGTHS])[None]
    ends = torch.tensor([0, *LENGTHS]).cumsum(0).int()
    out = model(tokens, positions, ends, max(LENGTHS))
    assert out.shape == (1, sum(LENGTHS), 1 if args.is_critic else args.vocab_size)
    kept = model(tokens, positions, ends, max(LENGTHS), logits_to_keep=torch.tensor([3, 20]))
    torch.testing.assert_close(kept, out[0, [3, 20]])
    alone = model(tokens[:, :7], positions[:, :7], torch.tensor([0, 7]).int(), 7)
    torch.testing.assert_close(alone, out[:, :7])
    head = model.score if args.is_critic else model.output
    norm = getattr(model, "norm", None)
    model.score = model.output = None
    if norm is not None:
        model.norm = torch.nn.Identity()  # a stage without a head must not norm
    states = model(tokens, positions, ends, max(LENGTHS))
    model.norm = norm
    torch.testing.assert_close(model(tokens, positions, ends, max(LENGTHS)), states)
    assert model(tokens, positions, ends, max(LENGTHS)).shape == (1, sum(LENGTHS), args.dim)
    model.score = model.output = head
    out.square().mean().backward()
    unused = {n.split(".")[-2] for n, p in model.named_parameters() if p.grad is None}
    swapped = {"wq", "wk", "wv", "wo", "gate", "q_norm", "k_norm", "out_norm", "attention",
               "attention_2", "attention_norm", "ffn_post_norm"}
    critic = {"head_dense", "head_norm"}
    expected = swapped if options.get("use_swapped") else critic if args.is_critic else set()
    assert unused <= expected
'''


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes every design into a folder that overlays the package."""
    root = tmp_path_factory.mktemp("models")
    for folder, design in DESIGNS.items():
        for path, text in write_model(design).items():
            place = root / "written" / folder / path
            place = root / f"test_{folder}.py" if path == "test.py" else place
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
    # Processes that a test starts are of the overlaid package, too.
    (root / "sitecustomize.py").write_text(OVERLAY)
    (root / "test_learning.py").write_text(LEARNING)
    return root


def comments(files: dict[str, str]) -> dict[str, str]:
    """Return what is written beside or above each field of a model's arguments."""
    field = r"^    (?:# (.+)\n    )?(\w+): .+? = (?:.+?  # (.+)|.+)$"
    found = re.findall(field, files["model/args.py"], re.MULTILINE)
    return {name: above or beside for above, name, beside in found}


@pytest.mark.parametrize("folder", DESIGNS)
def test_every_file_is_written(folder: str) -> None:
    assert write_model(DESIGNS[folder]).keys() == FILES


def test_text_is_clean(written: Path) -> None:
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    rules = ["--select", ",".join(lint["select"]), "--ignore", ",".join(lint["ignore"])]
    rules += ["--config", 'lint.isort.known-first-party = ["areal"]']
    ruff = [sys.executable, "-m", "ruff"]
    common = ["--isolated", "--no-cache", "--line-length", "100", "--target-version", "py311"]
    places = ["written", *(f"test_{folder}.py" for folder in DESIGNS)]
    for argv in ([*ruff, "check", *common, *rules], [*ruff, "format", "--diff", *common]):
        argv = [*argv, *places]
        done = subprocess.run(argv, cwd=written, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.heavy
def test_models_are_what_was_meant(written: Path) -> None:
    """Runs the tests that are written with the models: parity with transformers where there is."""
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull]
    argv += ["--rootdir", str(written), "--import-mode=importlib", "-W", "error", str(written)]
    paths = os.pathsep.join((str(written), str(ROOT)))
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    done = subprocess.run(
        argv, cwd=written, capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_a_plain_model_reads_plainly() -> None:
    text = write_model(DESIGNS["qwen3"])["model/model.py"]
    assert "h = x + self.attention(self.attention_norm(x), rope, packing)\n" in text
    assert "return h + self.feed_forward(self.ffn_norm(h))\n" in text
    assert "q = apply_rotary(self.q_norm(q), rope)\n" in text
    for absent in ("softcap", "gate:", "Identity", "def _embed", "def _logits", "has_rope"):
        assert absent not in text


def test_layers_of_a_hybrid_attend_or_run_a_mixer_of_transformers() -> None:
    files = write_model(DESIGNS["lfm2"])
    text = files["model/model.py"]
    assert "from transformers.models.lfm2.modeling_lfm2 import Lfm2ShortConv\n" in text
    assert "SequenceMixer(Lfm2ShortConv, args.mixer_config, layer_id)" in text
    assert "mixed = self.mixer if self.attention is None else self.attention\n" in text
    assert "h = x + mixed(self.attention_norm(x), rope, packing)\n" in text
    assert '"mixer_config": hf_config,\n' in files["model/args.py"]


def test_a_mixer_may_have_buffers_and_a_feed_forward_multipliers() -> None:
    design = designs.lfm2()
    mixer = {**design["mixer"], "buffers": [["factors", "transformers.some:compute_factors"]]}
    mlp = {**design["mlp"], "down_multiplier": designs.expr("args.dim * 2")}
    text = write_model({**design, "mixer": mixer, "mlp": mlp})["model/model.py"]
    assert "from transformers.some import compute_factors\n" in text
    assert 'buffers={"factors": compute_factors}' in text
    assert "down_multiplier=args.dim * 2" in text
    assert "first_multiplier" not in text


def test_latent_attention_need_not_rotate() -> None:
    """Kimi-Linear's latent attention leaves positions to the linear layers beside it."""
    design = designs.qwen3()
    sizes = {"kv_lora_rank": 20, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 8}
    latent = {**design["attention"], **sizes, "kind": "mla", "kv_norm": designs.rms(20)}
    latent |= {"rope": {"when": False}, "q_norm": {"when": False}, "q_lora_rank": None}
    text = write_model({**design, "attention": latent, "ropes": {}})["model/model.py"]
    assert "rotary" not in text
    assert "Rope" not in text
    assert "k_rope = k_rope.unsqueeze(1).expand(-1, k_nope.shape[1], -1, -1)\n" in text
    assert "q_rope" not in text


def test_what_is_unknown_stands_in_the_file() -> None:
    text = write_model(DESIGNS["every_thing"])["model/model.py"]
    assert "model.layers.0.mixer: its state is not understood" in text


def test_names_follow_the_command() -> None:
    named = {
        **DESIGNS["qwen3"],
        "folder": "my_own",
        "module": "lab.models.my_own",
        "spec_name": "MINE",
    }
    files = write_model(named)
    assert "MINE = ModelSpec(\n" in files["spec.py"]
    # Outside of `areal` a model takes the shared parts from there, and registers in a table.
    assert "from areal.experimental.models.archon.model_spec import ModelSpec\n" in files["spec.py"]
    assert "register_model_spec" not in files["spec.py"]
    assert "from lab.models.my_own.model.args import" in files["model/model.py"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        ("it's", '"it\'s"'),
        ([1], "(1,)"),
        ([], "()"),
        ([None] * 4, "(None, None, None, None)"),
        ([None] * 26, "(None,) * 26"),
        ([4096, None] * 13, "(4096, None) * 13"),
        ([8, 8, 8, 8, 8, None] * 4 + [8, 8], "(8, 8, 8, 8, 8, None) * 4 + (8, 8)"),
        ([1, 2, 3, 4, 5], "(1, 2, 3, 4, 5)"),
        ({"a": [1, 2]}, '{"a": (1, 2)}'),
    ],
)
def test_literals(value: Any, text: str) -> None:
    assert literal(value) == text
    assert eval(text) == (tuple(value) if isinstance(value, list) else eval(text))


def test_expressions() -> None:
    assert value_text({"layer_arg": "windows"}) == "args.windows[layer_id]"
    assert spelled("'a' if x['b'] == \"c\" else f'{d}'") == '"a" if x["b"] == "c" else f\'{d}\''
    assert product({"expr": "args.a + 1"}, 1, {"arg": "b"}) == "(args.a + 1) * args.b"
    assert factor("args.a * args.b") == "args.a * args.b"


def test_an_argument_that_only_computes_another_is_no_field() -> None:
    design = designs.qwen3()
    half = designs.field("half", "int", 8, "hf_config.head_dim // 2", "Half a head.")
    rope = {"expr": "RopeArgs.from_hf(hf_config, dim={half})", "default": "RopeArgs(dim=8)"}
    design = {**design, "args": [*design["args"], half], "ropes": {"rope": rope}}
    text = write_model(design)["model/args.py"]
    assert '"rope": RopeArgs.from_hf(hf_config, dim=hf_config.head_dim // 2),' in text
    assert "half" not in text


def test_what_decides_the_text_cannot_follow_the_config() -> None:
    design = designs.qwen3()
    mlp = {**design["mlp"], "gated": designs.arg("attention_bias")}
    with pytest.raises(TemplateError, match=r"'gated' of a part follows the config \(args"):
        write_model({**design, "mlp": mlp})


def test_the_config_may_choose_what_a_gate_scales() -> None:
    design = designs.qwen3()
    per = designs.field("gate_per", "str", "head", "hf_config.gate_per", "")
    gate = {"fn": "softplus", "per": designs.arg("gate_per"), "head_bias": True}
    attention = {**design["attention"], "gate": gate}
    files = write_model({**design, "args": [*design["args"], per], "attention": attention})
    text = " ".join(files["model/model.py"].split())
    assert 'self.gate_dim = 1 if args.gate_per == "head" else args.head_dim' in text
    assert "self.gate = nn.Linear(args.dim, args.n_heads * self.gate_dim, bias=False)" in text
    assert "split_heads(self.gate(x), self.gate_dim) + self.gate_bias[:, None, None]" in text
    assert comments(files)["gate_per"].startswith("What has a gate of its own")


def test_the_config_may_choose_which_dimensions_turn_together() -> None:
    design = designs.qwen3()
    told = "hf_config.rope_interleave"
    flag = designs.field("rope_interleave", "bool", True, told, "")
    pairing = {"expr": "'interleaved' if args.rope_interleave else 'half'"}
    rope = {**design["ropes"]["rope"], "pairing": pairing}
    design = {**design, "args": [*design["args"], flag], "ropes": {"rope": rope}}
    files = write_model(design)
    text = " ".join(files["model/model.py"].split())
    assert 'args.rope, pairing="interleaved" if args.rope_interleave else "half"' in text
    assert '"rope_interleave": hf_config.rope_interleave,' in files["model/args.py"]
    assert "rotate interleaved pairs" in comments(files)["rope_interleave"]


def test_a_scale_that_reads_the_rope_says_nothing_of_what_it_is() -> None:
    design = designs.qwen3()
    scale = {"expr": "args.head_dim**-0.5 * args.rope.score_multiplier"}
    design = {**design, "attention": {**design["attention"], "scale": scale}}
    assert comments(write_model(design))["rope"].endswith("the RoPE embeddings.")


def test_the_config_may_choose_the_kind_of_norms() -> None:
    design = designs.qwen3()
    kind = designs.field("norm_kind", "str", "rms", "hf_config.norm_kind", "")
    norm = {**design["head"]["norm"], "kind": designs.arg("norm_kind"), "bias": False}
    for when, text in (
        (True, "self.norm = ({} if {} else {})"),
        (designs.expr("args.n_layers > 1"), "self.norm = (({} if {} else {}) if args"),
    ):
        head = {**design["head"], "norm": {**norm, "when": when}}
        files = write_model({**design, "args": [*design["args"], kind], "head": head})
        layer = "nn.LayerNorm(args.dim, args.norm_eps, bias=False)"
        rms = "RMSNorm(args.dim, args.norm_eps)"
        found = " ".join(files["model/model.py"].split()).replace("( ", "(").replace(" )", ")")
        assert text.format(layer, 'args.norm_kind == "layer"', rms) in found
        ast.parse(files["model/model.py"])
        assert comments(files)["norm_kind"].startswith("Whether norms are RMS norms")


def test_the_config_may_choose_whether_layer_norms_have_weights() -> None:
    design = designs.qwen3()
    flag = designs.arg("attention_bias")
    for bias, text in ((flag, ""), (True, ""), (False, ", bias=False")):
        norm = {**design["head"]["norm"], "kind": "layer", "weight": flag, "bias": bias}
        files = write_model({**design, "head": {**design["head"], "norm": norm}})
        call = f"args.dim, args.norm_eps, elementwise_affine=args.attention_bias{text}"
        found = " ".join(files["model/model.py"].split()).replace("( ", "(").replace(" )", ")")
        assert f"nn.LayerNorm({call})" in found


def test_fields_say_what_the_model_uses_them_for() -> None:
    found = comments(write_model(DESIGNS["gemma2"]))
    assert found["attn_logit_softcapping"].startswith("Tanh soft-capping value of the attention")
    assert found["windows"].startswith("By layer: sliding window attention window size")
    sparse = comments(write_model(DESIGNS["half_sparse"]))
    assert sparse["has_experts"] == "By layer: whether a block has experts."


def test_rules_stand_in_the_order_of_the_model() -> None:
    design = designs.qwen3()
    shuffled = {**design, "weights": design["weights"][::-1]}
    text = write_model(shuffled)["model/state_dict_adapter.py"]
    order = ["tok_embeddings", "attention_norm", "attention.wq", "attention.wo", "ffn_norm"]
    order += ["feed_forward.w", '"norm.weight"', "Tied(", '"output.weight"']
    places = [text.index(part) for part in order if part in text]
    assert places == sorted(places)
    assert len(places) > 6


def test_tensors_that_nothing_computes_with_need_not_come_back() -> None:
    """A checkpoint may hold experts that are never run; the model saves zeros in their place."""
    design = designs.mixtral()
    assert "unused_names" not in write_model(design)["test.py"]
    parts = ["layers.{i}.moe.experts.w1", "layers.{i}.moe.router.gate.weight"]
    design["weights"] += [{"rule": "Unused", "hub": "model.idle.{i}.weight", "archon": parts}]
    text = write_model(design)["test.py"]
    assert "used = back.keys() - adapter.unused_names" in text
    assert "for name in used)\n" in text


def test_an_encoder_scores_what_it_pools() -> None:
    model = write_model(DESIGNS["modernbert"])["model/model.py"]
    assert "class ModernBertModel(BaseEncoder):" in model
    assert "causal=False" in model
    assert "self.pooling = args.classifier_pooling" in model
    assert "return self.score(self.head_norm(self.head_act(self.head_dense(h))))" in model
    assert "self.output = None" in model
    args = write_model(DESIGNS["modernbert"])["model/args.py"]
    assert "cls.require_encoder(hf_config, is_critic)" in args
    assert "is_critic: bool = True" in args
    assert "decoder" not in args
    assert "TP_PLAN" not in write_model(DESIGNS["modernbert"])["infra/parallelize.py"]


def test_an_encoder_embeds_types_and_positions_and_maps_them() -> None:
    design = designs.modernbert()
    width = {"expr": "args.embedding_size"}
    field = designs.field("embedding_size", "int", 48, "hf_config.embedding_size", "Width.")
    design["args"].append(field)
    design["embedding"] |= {
        "norm": designs.layer_norm(width),
        "token_types": {"when": True, "size": 2},
        "positions": {"when": True, "kind": "beside_padding", "size": 64},
        "projection": {"when": {"expr": "args.embedding_size != args.dim"}, "dim": width,
                       "bias": True},
    }  # fmt: skip
    design["head"]["transform"]["norm"] = {"when": False}
    model = write_model(design)["model/model.py"]
    for line in (
        "self.tok_embeddings = nn.Embedding(",
        "self.type_embeddings = nn.Embedding(2, args.embedding_size)",
        "64, args.embedding_size, self.tok_embeddings.padding_idx",
        "nn.Linear(args.embedding_size, args.dim, bias=True)",
        "h = h + self.type_embeddings.weight[0]",
        "h = h + self.pos_embeddings(tokens, packing)",
        "return self.embedding_proj(h)",
        "return self.score(self.head_act(self.head_dense(h)))",
    ):
        assert line in model
    assert "head_norm" not in model
