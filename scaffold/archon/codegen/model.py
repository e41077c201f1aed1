"""``model/model.py``: attention, block, and the model from tokens to logits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from scaffold.archon.codegen.attention import attention_class, takes_rope
from scaffold.archon.codegen.block import block_class
from scaffold.archon.codegen.class_body import model_value
from scaffold.archon.codegen.ends import (
    embedding_setup,
    embedding_steps,
    head_setup,
    logits_steps,
    scores_steps,
)
from scaffold.archon.codegen.mla import mla_class
from scaffold.archon.codegen.modules import mixer_class
from scaffold.archon.codegen.names import ModelNames
from scaffold.archon.codegen.source import Source, class_text, function_text
from scaffold.archon.codegen.values import ALWAYS, Json, guard_of, told


def model_file(design: Json, names: ModelNames) -> str:
    """Return ``model/model.py``."""
    source = Source(_file_doc(design, names), names)
    source.use("torch", "Tensor", "nn")
    source.use(names.own("model", "args"), names.args)
    # Latent attention shares no projections with the other kind.
    is_latent = design["attention"].get("kind", "gqa") == "mla"
    source.add((mla_class if is_latent else attention_class)(design, source))
    source.add(block_class(design, source))
    source.add(_model_class(design, source))
    return source.text()


def _file_doc(design: Json, names: ModelNames) -> str:
    kinds = {module["kind"] for module in design["block"]["modules"]}
    branch = "a mixture of experts" if "moe" in kinds else "a feed-forward"
    if "mlp" in kinds and "moe" not in kinds:
        branch = "a gated feed-forward" if design["mlp"].get("gated", True) else branch
    attention = design["attention"]
    heads = "latent" if attention.get("kind") == "mla" else "grouped"
    queries = f"{heads} queries and"
    if design.get("mixer"):
        kinds = {"attention", "mixer"}
        places = [m for m in design["block"]["modules"] if m["kind"] in kinds]
        where = "beside them" if all(guard_of(m) == ALWAYS for m in places) else "in other layers"
        queries = f"{heads} queries, transformers' {mixer_class(design)} {where}, and"
    what = "an encoder" if design.get("encoder") else "a decoder"
    lines = [f"{names.prefix}: {what} with {queries} {branch}."]
    rows: Sequence[Json] = design.get("unknown") or []
    # What a variation of the config asks for is refused, so the model is right without it.
    unknown = [each for each in rows if not each.get("variation")]
    if unknown:
        lines += ["", "Not reproduced, so this model is not what transformers computes yet:"]
        lines += [f"    {each.get('module', '')}: {each.get('what', '')}" for each in unknown]
    origin = cast("Json", design.get("source") or {})
    if origin.get("model_class"):
        lines += ["", f"Source: transformers {origin['transformers']}, {origin['model_class']}."]
    return "\n".join(lines)


def _model_class(design: Json, source: Source) -> str:
    names = source.names
    embedding = cast("Json", design.get("embedding") or {})
    head = cast("Json", design.get("head") or {})
    is_encoder = bool(design.get("encoder"))
    base = "BaseEncoder" if is_encoder else "BaseDecoder"
    source.share(base.removeprefix("Base").lower(), base)
    setup = [
        "super().__init__()",
        "self.model_args = args",
        *embedding_setup(embedding, source),
        *_ropes_setup(design, source),
        "self.layers = nn.ModuleDict({str(layer_id): TransformerBlock(args, layer_id)"
        " for layer_id in range(args.n_layers)})",
        *head_setup(head, source),
    ]
    steps = {
        "embed(self, tokens: Tensor, packing: Packing)": embedding_steps(embedding),
        "run_layers(self, h: Tensor, packing: Packing)": _layer_loop(design),
    }
    if is_encoder:
        steps["scores(self, h: Tensor)"] = scores_steps(head)
    else:
        steps["logits(self, h: Tensor)"] = logits_steps(head, source)
    methods = [function_text(f"def __init__(self, args: {names.args}) -> None", setup)]
    methods += [
        function_text(f"def {name} -> Tensor", body) for name, body in steps.items() if body
    ]
    doc = f"{names.prefix} for causal language modelling, or as a critic."
    doc = f"{names.prefix} as a reward model: one score for each sequence." if is_encoder else doc
    return class_text(names.model, base, doc, methods)


def _ropes_setup(design: Json, source: Source) -> list[str]:
    if not takes_rope(design):
        return []
    source.share("layers.rope", "RotaryEmbedding")
    ropes = cast("Mapping[str, Json]", design["ropes"])
    calls: dict[str, str] = {}
    for key, rope in ropes.items():
        options = told(rope, pairing="half", reverse=False, in_fp32="")
        calls[key] = f"RotaryEmbedding({', '.join([f'args.{key}', *options])})"
    # One table for all layers, else one for each type of layer.
    if len(calls) == 1:
        return [f"self.rope = {call}" for call in calls.values()]
    kinds = {key: str(ropes[key].get("layer_type", key)) for key in ropes}
    rows = ", ".join(f'"{kinds[key]}": {call}' for key, call in calls.items())
    return [f"self.ropes = nn.ModuleDict({{{rows}}})"]


def _layer_loop(design: Json) -> list[str]:
    """Return the body of ``run_layers``; none where all blocks share one table of positions."""
    if not takes_rope(design):
        return ["for layer in self.layers.values():", "    h = layer(h, packing)", "return h"]
    # `run_layers` of the shared decoder hands the one table to every block.
    if len(design["ropes"]) == 1:
        return []
    # Keys of a ModuleDict are strings, and an argument by layer is read by number.
    kind = model_value(design["attention"]["rope"]["key"])
    return [
        "ropes = {kind: rope(packing, h.dtype) for kind, rope in self.ropes.items()}",
        "for layer_id, layer in self.layers.items():",
        f"    h = layer(h, ropes[{kind.replace('[layer_id]', '[int(layer_id)]')}], packing)",
        "return h",
    ]
