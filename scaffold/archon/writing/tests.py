"""The generated test: a tiny random model against transformers, and back through its weights."""

from __future__ import annotations

from scaffold.archon.writing.names import ModelNames
from scaffold.archon.writing.source import Source, function_text
from scaffold.archon.writing.values import Json, literal


def tests_file(design: Json, names: ModelNames) -> str:
    """Returns the model's test."""
    source = Source(f"Is {names.prefix} what transformers computes?", names.first_party)
    source.use(names.own("spec"), names.spec)
    if not design.get("tiny"):
        _add_construction(source, names)
        return source.text()
    _add_parity(design, source, names)
    return source.text()


def _add_construction(source: Source, names: ModelNames) -> None:
    body = [
        f"args = {names.spec}.model_args_class()",
        'with torch.device("meta"):',
        f"    model = {names.spec}.model_class(args)",
        "assert len(model.layers) == args.n_layers",
    ]
    source.use("torch")
    source.add(function_text("def test_default_arguments_make_a_model() -> None", body))


def _add_parity(design: Json, source: Source, names: ModelNames) -> None:
    origin = design["source"]
    config, model = str(origin["config_class"]), str(origin["model_class"])
    source.use("pathlib", "Path")
    source.use("pytest")
    source.use("torch")
    source.use("safetensors.torch", "load_file")
    source.use("torch", "Tensor", "nn")
    source.use("transformers", config, model)
    tiny = ", ".join(f'"{key}": {_json(value)}' for key, value in design["tiny"].items())
    source.add(f"TINY = {{{tiny}}}")
    source.add("LENGTHS = (7, 12, 3)")
    pair = f"tuple[nn.Module, nn.Module, dict[str, Tensor]]"
    source.use("dataclasses", "dataclass")
    source.add(
        "@dataclass(frozen=True)\nclass Pair:\n"
        '    """Holds a model of transformers, ours with its weights, and these as on the Hub."""\n\n'
        "    theirs: nn.Module\n    ours: nn.Module\n    weights: dict[str, Tensor]"
    )
    del pair
    body = [
        "torch.manual_seed(0)",
        f"config = {config}(**TINY)",
        'config._attn_implementation = "eager"',
        f"theirs = {model}(config).eval()",
        "theirs.save_pretrained(tmp_path)",
        'weights = load_file(tmp_path / "model.safetensors")',
        f"args = {names.spec}.model_args_class.from_hf_config(config)",
        f"ours = {names.spec}.model_class(args).eval()",
        'ours.init_buffers("cpu")',
        f"adapter = {names.spec}.state_dict_adapter_class(args)",
        "ours.load_state_dict(adapter.from_hf(dict(weights)), strict=False)",
        "ours.tie_weights()",
        "return Pair(theirs, ours, weights)",
    ]
    source.add("@pytest.fixture\n" + function_text("def pair(tmp_path: Path) -> Pair", body))
    body = [
        "tokens = torch.randint(3, TINY[\"vocab_size\"], (1, sum(LENGTHS)))",
        "positions = torch.cat([torch.arange(n) for n in LENGTHS])[None]",
        "ends = torch.tensor([0, *LENGTHS]).cumsum(0).int()",
        "ours = pair.ours(tokens, positions, ends, max(LENGTHS))",
        "# Alone is the truth: transformers' own packing is wrong for some families.",
        "theirs = [pair.theirs(row).logits for row in tokens.split(LENGTHS, dim=1)]",
        "return ours, torch.cat(theirs, dim=1)",
    ]
    source.add(function_text("def logits_of(pair: Pair) -> tuple[Tensor, Tensor]", body,
        "Returns the logits of a packed batch by both models."))
    source.add(function_text("def test_logits_are_those_of_transformers(pair: Pair) -> None", [
        "ours, theirs = logits_of(pair)",
        "assert (ours - theirs).abs().max() < 1e-5 * theirs.std()",
    ]))
    source.add(function_text("def test_gradients_are_those_of_transformers(pair: Pair) -> None", [
        "for logits in logits_of(pair):",
        "    logits.logsumexp(-1).square().mean().backward()",
        "ours, theirs = pair.ours.tok_embeddings, pair.theirs.get_input_embeddings()",
        "difference = (ours.weight.grad - theirs.weight.grad).abs().max()",
        "# Sums over the batch run in another order; see the proof for each parameter's own bound.",
        "assert difference < 1e-4 * theirs.weight.grad.abs().max()",
    ]))
    source.add(function_text("def test_weights_come_back_bit_by_bit(pair: Pair) -> None", [
        f"adapter = {names.spec}.state_dict_adapter_class(pair.ours.model_args)",
        "back = adapter.to_hf(pair.ours.state_dict())",
        "assert back.keys() == pair.weights.keys()",
        "assert all(torch.equal(back[name], pair.weights[name]) for name in back)",
    ]))


def _json(value: object) -> str:
    text = literal(value)
    if isinstance(value, list):
        return f"[{text.removeprefix('(').removesuffix(')').removesuffix(',')}]" if "*" not in text else f"list({text})"
    return text
