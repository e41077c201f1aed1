"""The generated test: a tiny random model against transformers, and against itself when split."""

from __future__ import annotations

from collections.abc import Sequence
from string import Template
from typing import Any, cast

from scaffold.archon.codegen.names import ModelNames
from scaffold.archon.codegen.parallelize import tensor_parallel_plan
from scaffold.archon.codegen.source import Source
from scaffold.archon.codegen.values import Json
from scaffold.templating.render import python_literal

PARITY = Template('''
class Pair(NamedTuple):
    """Holds a model of transformers, ours with its weights, these as on the Hub, and a batch."""

    theirs: nn.Module
    ours: nn.Module
    weights: dict[str, Tensor]
    batch: PackedBatch


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    torch.manual_seed(0)
    config = $config(**TINY)
    config._attn_implementation = "eager"$one_label
    theirs = $hf_model(config).eval()
    theirs.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    batch = PackedBatch.draw(config.vocab_size, LENGTHS)
    return Pair(theirs, build_model($spec, config, weights$critic), weights, batch)


$by_task


def test_weights_come_back_bit_by_bit(pair: Pair) -> None:
    adapter = $spec.state_dict_adapter_class(pair.theirs.config)
    back = adapter.to_hf(pair.ours.state_dict())
    assert back.keys() == pair.weights.keys()$unused
    assert all(torch.equal(back[name], pair.weights[name]) for name in $names)


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
    split = run_split($spec, pair.theirs.config, pair.weights, pair.batch$critic, $dims)
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
        build_model($spec, config, pair.weights, torch.bfloat16, attn_type=kind$critic)
        for kind in ("varlen", "eager")
    ]
    found, wanted = (model.cuda()(*pair.batch.to("cuda")).float() for model in models)
    # bf16 has 8 bits, of which a few layers lose one or two; experts may be other ones for a token.
    distance = (found - wanted).abs().amax(-1) / wanted.std()
    assert distance.median() < 0.1
''')
ARGUMENTS = Template("""\
def test_arguments_are_those_of_the_configuration_and_of_the_trainer() -> None:
    config = $config(**TINY)
    chosen = {"is_critic": True, "attn_type": "sdpa", "router_dtype": torch.float32}
    args = $spec.model_args_class.from_hf_config(config, **chosen)
    assert (args.vocab_size, args.n_layers) == (config.vocab_size, $layers)
    assert (args.is_critic, args.attn_type) == (True, "sdpa")
""")
OF_DECODER = Template('''\
def logits_of(pair: Pair) -> tuple[Tensor, Tensor]:
    """Returns the logits of a packed batch by both models."""
    # Alone is the truth: transformers' own packing is wrong for some families.
    rows = pair.batch.tokens.split(LENGTHS, dim=1)
    theirs = [pair.theirs(row, use_cache=False).logits for row in rows]
    return pair.ours(*pair.batch), torch.cat(theirs, dim=1)


$arguments    config.is_causal = False
    with pytest.raises(ValueError, match="is_causal"):
        $spec.model_args_class.from_hf_config(config)


@pytest.mark.parametrize("is_critic", [False, True])
def test_a_checkpoint_has_every_parameter(pair: Pair, is_critic: bool) -> None:
    args = $spec.model_args_class.from_hf_config(pair.theirs.config, is_critic=is_critic)
    with torch.device("meta"):
        model = $spec.model_class(args)
    assert (model.output is None, model.score is None) == (is_critic, not is_critic)
    found = $spec.state_dict_adapter_class(pair.theirs.config).from_hf(pair.weights)
    wanted = {name: tensor.shape for name, tensor in model.state_dict().items()}
    # The head of a critic is trained from nothing.
    assert wanted.keys() - found.keys() == ({"score.weight"} if is_critic else set())
    assert all(found[name].shape == shape for name, shape in wanted.items() if name in found)
''')
OF_ENCODER = Template('''\
def logits_of(pair: Pair) -> tuple[Tensor, Tensor]:
    """Returns the scores of a packed batch by both models, for each token that of its sequence."""
    rows = pair.batch.tokens.split(LENGTHS, dim=1)
    theirs = [pair.theirs(row).logits.expand(1, row.shape[1], -1) for row in rows]
    return pair.ours(*pair.batch), torch.cat(theirs, dim=1)


$arguments    with pytest.raises(ValueError, match="is_critic=True"):
        $spec.model_args_class.from_hf_config(config)
    config.is_decoder = True
    with pytest.raises(ValueError, match="is_decoder"):
        $spec.model_args_class.from_hf_config(config, is_critic=True)


def test_a_checkpoint_has_every_parameter(pair: Pair) -> None:
    args = $spec.model_args_class.from_hf_config(pair.theirs.config, is_critic=True)
    with torch.device("meta"):
        model = $spec.model_class(args)
    found = $spec.state_dict_adapter_class(pair.theirs.config).from_hf(pair.weights)
    wanted = {name: tensor.shape for name, tensor in model.state_dict().items()}
    assert {name: tensor.shape for name, tensor in found.items()} == wanted
    assert model.score is not None
''')
UNUSED = """
    # Nothing computes with these tensors of a checkpoint; they come back as zeros.
    used = back.keys() - adapter.unused_names"""
CONSTRUCTION = Template("""
def test_default_arguments_make_a_model() -> None:
    args = $spec.model_args_class()
    with torch.device("meta"):
        model = $spec.model_class(args)
    assert len(model.layers) == args.n_layers
""")


def tests_file(design: Json, names: ModelNames) -> str:
    """Return the model's test: parity where the design has a tiny config to try."""
    source = Source(f"Is {names.prefix} what transformers computes?", names)
    source.use(names.own("spec"), names.spec)
    source.use("torch")
    tiny = cast("Json | None", design.get("tiny"))
    if not tiny:
        source.add(CONSTRUCTION.substitute(spec=names.spec))
        return source.text()
    config, model = str(design["source"]["config_class"]), str(design["source"]["model_class"])
    source.share("testing", "PackedBatch", "build_model", "loss_of", "run_split")
    source.use("pathlib", "Path")
    source.use("typing", "NamedTuple")
    source.use("pytest")
    source.use("safetensors.torch", "load_file")
    source.use("torch", "Tensor", "nn")
    source.use("transformers", config, model)
    rows = "".join(f"    {python_literal(key)}: {_json_text(tiny[key])},\n" for key in tiny)
    source.add(f"TINY = {{\n{rows}}}\nLENGTHS = (7, 12, 3)")
    weights = cast("Sequence[Json]", design.get("weights") or [])
    has_unused = any(rule["rule"] == "Unused" for rule in weights)
    # A model of which nothing can be split by matrices is sharded.
    dims = "tp=2" if tensor_parallel_plan(design) else "dp_shard=2"
    is_encoder = bool(design.get("encoder"))
    of_task = OF_ENCODER if is_encoder else OF_DECODER
    expressions = {row["name"]: str(row["expr"]) for row in design["args"]}
    # Some configurations count each layer as two.
    layers = expressions["n_layers"].replace("hf_config", "config")
    named = {"spec": names.spec, "config": config}
    arguments = ARGUMENTS.substitute(named, layers=layers)
    filled = {
        "by_task": of_task.substitute(named, arguments=arguments).rstrip(),
        "one_label": "\n    config.num_labels = 1" if is_encoder else "",
        "critic": ", is_critic=True" if is_encoder else "",
        "dims": dims,
        "names": "used" if has_unused else "back",
        "unused": UNUSED if has_unused else "",
    }
    source.add(PARITY.substitute(named, hf_model=model, **filled))
    return source.text()


def _json_text(value: Any) -> str:
    """Return a value of a config; lists stay lists."""
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return "{" + ", ".join(f"{python_literal(k)}: {_json_text(v)}" for k, v in items) + "}"
    return python_literal(value)
