"""The generated test: a tiny random model against transformers, and back through its weights."""

from __future__ import annotations

from collections.abc import Sequence
from string import Template
from typing import Any, cast

from scaffold.archon.codegen.names import ModelNames
from scaffold.archon.codegen.source import Source
from scaffold.archon.codegen.values import Json
from scaffold.templating.render import python_literal

PARITY = Template('''
@dataclass(frozen=True)
class Pair:
    """Holds a model of transformers, ours with its weights, and these as on the Hub."""

    theirs: nn.Module
    ours: nn.Module
    weights: dict[str, Tensor]


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    torch.manual_seed(0)
    config = $config(**TINY)
    config._attn_implementation = "eager"
    theirs = $hf_model(config).eval()
    theirs.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    args = $spec.model_args_class.from_hf_config(config)
    ours = $spec.model_class(args).eval()
    ours.init_buffers("cpu")
    ours.load_state_dict($spec.state_dict_adapter_class(config).from_hf(weights))
    return Pair(theirs, ours, weights)


def logits_of(pair: Pair) -> tuple[Tensor, Tensor]:
    """Returns the logits of a packed batch by both models."""
    tokens = torch.randint(3, pair.theirs.config.vocab_size, (1, sum(LENGTHS)))
    positions = torch.cat([torch.arange(length) for length in LENGTHS]).unsqueeze(0)
    cu_seqlens = torch.tensor([0, *LENGTHS]).cumsum(0).int()
    ours = pair.ours(tokens, positions, cu_seqlens, max(LENGTHS))
    # Alone is the truth: transformers' own packing is wrong for some families.
    theirs = [pair.theirs(row).logits for row in tokens.split(LENGTHS, dim=1)]
    return ours, torch.cat(theirs, dim=1)


def test_logits_are_those_of_transformers(pair: Pair) -> None:
    ours, theirs = logits_of(pair)
    assert (ours - theirs).abs().max() < 1e-5 * theirs.std()


def test_gradients_are_those_of_transformers(pair: Pair) -> None:
    for logits in logits_of(pair):
        logits.logsumexp(-1).square().mean().backward()
    ours = pair.ours.tok_embeddings.weight.grad
    theirs = pair.theirs.get_input_embeddings().weight.grad
    # Both sum over the batch, in another order, so single numbers may cancel.
    assert (ours - theirs).abs().max() < 1e-4 * theirs.abs().max()


def test_weights_come_back_bit_by_bit(pair: Pair) -> None:
    adapter = $spec.state_dict_adapter_class(pair.theirs.config)
    back = adapter.to_hf(pair.ours.state_dict())
    assert back.keys() == pair.weights.keys()$unused
    assert all(torch.equal(back[name], pair.weights[name]) for name in $names)
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
    source = Source(f"Is {names.prefix} what transformers computes?", names.first_party)
    source.use(names.own("spec"), names.spec)
    source.use("torch")
    tiny = cast("Json | None", design.get("tiny"))
    if not tiny:
        source.add(CONSTRUCTION.substitute(spec=names.spec))
        return source.text()
    config, model = str(design["source"]["config_class"]), str(design["source"]["model_class"])
    source.use("dataclasses", "dataclass")
    source.use("pathlib", "Path")
    source.use("pytest")
    source.use("safetensors.torch", "load_file")
    source.use("torch", "Tensor", "nn")
    source.use("transformers", config, model)
    rows = "".join(f"    {python_literal(key)}: {_json_text(tiny[key])},\n" for key in tiny)
    source.add(f"TINY = {{\n{rows}}}\nLENGTHS = (7, 12, 3)")
    weights = cast("Sequence[Json]", design.get("weights") or [])
    has_unused = any(rule["rule"] == "Unused" for rule in weights)
    filled = {"names": "used" if has_unused else "back", "unused": UNUSED if has_unused else ""}
    source.add(PARITY.substitute(spec=names.spec, config=config, hf_model=model, **filled))
    return source.text()


def _json_text(value: Any) -> str:
    """Return a value of a config; lists stay lists."""
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return "{" + ", ".join(f"{python_literal(k)}: {_json_text(v)}" for k, v in items) + "}"
    return python_literal(value)
