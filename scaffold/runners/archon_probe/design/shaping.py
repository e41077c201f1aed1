"""Shape observations into a design: which parts, which steps, which options, of which values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from archon_probe.design.arguments import STANDARD, Arguments, each
from archon_probe.design.expressions import ABSENT, Fitted
from archon_probe.design.part import Part, literal_one
from archon_probe.design.shaping_rope import shape_ropes
from archon_probe.measure.observation import Observation

LAYER_NAMES = {"window": "windows", "chunk": "chunks"}
"""Names of arguments whose options no single field of a configuration gives."""

LATENT_SIZES = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "q_lora_rank")
LATENT_BIASES = ("q_a_bias", "q_b_bias", "q_bias", "kv_a_bias", "kv_b_bias", "o_bias")

# Relations over standard arguments that factors on scores are tried as first.
SCALES = ("args.head_dim**-0.5", "args.dim**0.5", "args.dim**-0.5", "1.0")


def shape_design(a: Arguments) -> dict[str, Any]:
    """Return the parts of a design that follow from observations."""
    is_encoder = "pooling" in a.measured[0][1].head
    _standard(a, is_encoder)
    design: dict[str, Any] = {"embedding": _embedding(a)}
    layers = [layer for _, found in a.measured for layer in found.layers]
    # In the order of the steps that call them.
    called = [step["call"] for layer in layers for step in layer["steps"] if "call" in step]
    modules = {n: m["kind"] for layer in layers for n, m in layer["modules"].items()}
    kinds = {name: modules[name] for name in dict.fromkeys(called)}
    variants = _variants(a)
    design["block"] = {
        "modules": [_module(a, name, kind) for name, kind in kinds.items()],
        "variants": variants,
    }
    shapes = {"attention": _attention, "mixer": _mixer, "mlp": _mlp, "moe": _moe}
    for kind, shape in shapes.items():
        if of_kind := [name for name in kinds if kinds[name] == kind]:
            design[kind] = shape(Part(a, kind, a.modules(of_kind[0])))
    design["ropes"] = shape_ropes(a, design)
    if is_encoder:
        design["encoder"] = True
    head = Part(a, "head", [[observation.head] for _, observation in a.measured])
    design["head"] = _scoring(head) if is_encoder else _head(head)
    return design


def _of_kind(layer: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [module for module in layer["modules"].values() if module["kind"] == kind]


def _first(observation: Observation, kind: str) -> dict[str, Any]:
    found = [module for layer in observation.layers for module in _of_kind(layer, kind)]
    return found[0]  # an IndexError makes the option absent


def _standard(a: Arguments, is_encoder: bool) -> None:
    a.standard("dim", a.whole(lambda o: o.embedding["dim"]), "dim")
    a.standard("n_layers", [c.n_layers for c, _ in a.measured], "n_layers")
    for name in ("n_heads", "n_kv_heads", "head_dim"):
        is_of_some = any(
            len({m[name] for layer in o.layers for m in _of_kind(layer, "attention")}) > 1
            for _, o in a.measured
        )
        first = a.whole(lambda o, n=name: _first(o, "attention")[n])
        a.standard(name, first, name, is_of_some)
    hidden = a.whole(lambda o: _first(o, "mlp")["hidden_dim"])
    # A model of experts alone has no dense feed-forward.
    if all(h == ABSENT for h in hidden):
        hidden = a.whole(lambda o: _first(o, "moe")["hidden_dim"])
    a.standard("hidden_dim", hidden, "mlp.hidden_dim")
    a.standard("vocab_size", a.whole(lambda o: o.embedding["vocab_size"]), "vocab_size")
    eps = a.whole(lambda o: o.head["norm"]["eps"])
    # A model without a last norm may have others.
    if all(e == ABSENT for e in eps):
        eps = a.whole(lambda o: _first(o, "norm")["norm"]["eps"])
    a.standard("norm_eps", eps, "norm.eps")
    length = "getattr(hf_config, 'max_position_embeddings', 2048)"
    a.add("max_seq_len", STANDARD["max_seq_len"], Fitted(length))
    if is_encoder:
        return  # without a vocabulary to predict there is no tie and no end of a text
    a.standard("enable_weight_tying", a.whole(lambda o: o.head["tied"]), "head.tied")
    a.add("eos_id", STANDARD["eos_id"], Fitted("hf_config.eos_token_id"))


def _embedding(a: Arguments) -> dict[str, Any]:
    part = Part(a, "embedding", [[o.embedding] for _, o in a.measured])
    found: dict[str, Any] = {
        "multiplier": part.fit("multiplier", ("1.0", "args.dim**0.5")),
        "norm": part.of("norm").norm(),
        "padding_idx": part.fit("padding_idx"),
    }
    found |= part.optional("positions", ("kind", "offset", "layout", "reaches_base"), ("kind",))
    positions = found.setdefault("positions", {"when": False})
    if positions.get("kind") in ("learned", "beside_padding"):
        positions["size"] = part.of("positions").fit(
            "size", feature=lambda p: p["rows"] - p.get("offset", 0), is_size=True
        )
    if part.has("projection"):
        # The linear map from embeddings to the stream, which some configurations have.
        inner = part.of("projection")
        found["projection"] = {
            "when": part.fit("projection.when", feature=lambda e: "projection" in e),
            "dim": part.fit(
                "projection.dim", feature="tokens_dim", name="embedding_dim", is_size=True
            ),
            "bias": inner.fit("bias"),
        }
    if part.has("token_types"):
        types = part.of("token_types")
        size = types.fit("size", feature="rows", name="n_token_types", is_size=True)
        found["token_types"] = {"when": True, "size": size}
    return found


def _module(a: Arguments, name: str, kind: str) -> dict[str, Any]:
    rows = a.rows(lambda layer: layer["modules"].get(name, {"kind": None}))
    present = each(rows, lambda m: m["kind"] is not None)
    when = a.layer_value(f"modules.{name}.when", present)
    module: dict[str, Any] = {"name": name, "kind": kind}
    if when is not True:
        module["when"] = when
    if kind == "norm":
        module["norm"] = Part(a, name, each(rows, "norm")).norm()
        if when is not True:
            module["norm"]["when"] = when
    if kind == "mlp":
        part = Part(a, f"modules.{name}", rows)
        module["hidden_dim"] = part.fit("hidden_dim", ("args.hidden_dim",))
    return module


def _scale_inputs(layers: list[dict[str, Any]]) -> None:
    """Give an input that some layers multiply a step of its own in the others, with a factor of 1.

    Their steps differ in a number then, and not in their order.
    """
    scaled = {s["call"] for layer in layers for s in layer["steps"] if _scaling(layer, s)}
    for layer in layers if scaled else ():
        steps: list[dict[str, Any]] = []
        names = {"x": "x"}
        for step in layer["steps"]:
            if step.get("call") in scaled and not _scaling(layer, step):
                out = f"h{sum('sum' in s for s in steps)}"
                steps.append({"out": out, "sum": [[names[step["in"]], 1.0]]})
                steps.append({**step, "in": out})
                names[step["out"]] = step["out"]
            elif "call" in step:
                steps.append({**step, "in": names[step["in"]]})
                names[step["out"]] = step["out"]
            else:
                names[step["out"]] = f"h{sum('sum' in s for s in steps)}"
                terms = [[names[n], weight] for n, weight in step["sum"]]
                steps.append({"out": names[step["out"]], "sum": terms})
        layer["steps"] = steps


def _scaling(layer: dict[str, Any], call: dict[str, Any]) -> bool:
    """Return whether what a step calls gets one term of its own, multiplied by a number."""
    sums = {step["out"]: step["sum"] for step in layer["steps"] if "sum" in step}
    return len(sums.get(call.get("in"), ())) == 1


def _outline(steps: list[dict[str, Any]]) -> str:
    """Return steps without weights, dense and sparse blocks alike."""
    text: list[str] = []
    slot = _slots(steps)
    for step in steps:
        if "call" in step:
            text.append(f"{slot(step['out'])}={slot(step['call'])}({slot(step['in'])})")
        else:
            text.append(f"{step['out']}=sum({','.join(slot(n) for n, _ in step['sum'])})")
    return ";".join(text)


def _slots(steps: list[dict[str, Any]]) -> Callable[[str], str]:
    """Return what names the places of a block, whichever of two modules it has there."""
    called = {step.get("call") for step in steps}
    # A block with both of them needs both names; else the one is in the other's place.
    merged = {name: slot for slot, pair in _SLOTS.items() if not pair <= called for name in pair}
    return lambda name: _in_slot(name, merged)


def _in_slot(name: str, slots: dict[str, str]) -> str:
    module = name.removesuffix("_out")
    return slots.get(module, module) + name[len(module) :]


_SLOTS = {"ffn": {"moe", "feed_forward"}, "attention": {"attention", "mixer"}}
"""Modules that layers of one model have in the same place of a block."""


def _variants(a: Arguments) -> list[dict[str, Any]]:
    _scale_inputs([layer for _, found in a.measured for layer in found.layers])
    outlines = a.rows(lambda layer: _outline(layer["steps"]))
    distinct = list(dict.fromkeys(t for row in outlines for t in row))
    variants: list[dict[str, Any]] = []
    weights: dict[str, Any] = {}
    for number, outline in enumerate(distinct):
        variant: dict[str, Any] = {}
        # The last variant needs no condition: it is what is left.
        if number < len(distinct) - 1:
            variant["when"] = a.layer_value(
                f"block.variant_{number}.when", each(outlines, lambda t, o=outline: t == o)
            )
        variant["steps"] = _steps(a, outline, weights)
        variants.append(variant)
    return [v for v in variants if v.get("when") is not False]


def _steps(a: Arguments, outline: str, weights: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the steps of one outline with fitted weights.

    Args:
        a: Of the model.
        outline: Which steps.
        weights: Of other outlines, by the term; what one explains is not measured again, as few
            cases may have this outline. Gets the weights of this one.
    """
    chosen = a.rows(lambda layer: layer["steps"] if _outline(layer["steps"]) == outline else ABSENT)
    samples = [s for row in chosen for s in row if s != ABSENT]
    steps: list[dict[str, Any]] = []
    slot, in_place = _slots(samples[0]), _slots([])
    for k, sample in enumerate(samples[0]):
        if "call" in sample:
            calls = list(dict.fromkeys(s[k]["call"] for s in samples))
            call: Any = calls[0] if len(calls) == 1 else calls
            steps.append({"out": slot(sample["out"]), "call": call, "in": slot(sample["in"])})
            continue
        terms: list[Any] = []
        for j, (name, _) in enumerate(sample["sum"]):
            path, term = f"block.{sample['out']}.weight_of_", in_place(name)
            measured = each(chosen, k, "sum", j, 1)
            # The same weight in another outline is the same argument.
            weight = weights.get(path + term)
            if weight is None or not a.gives(weight, measured):
                weight = a.layer_value(path + slot(name), measured, ("1.0",))
            weights.setdefault(path + term, weight)
            terms.append([slot(name), literal_one(weight)])
        steps.append({"out": sample["out"], "sum": terms})
    return steps


def _attention(part: Part) -> dict[str, Any]:
    if part.has("kind_of_attention", "gqa"):
        return _latent_attention(part)
    a = part.arguments
    found: dict[str, Any] = {"kind": "gqa"}
    for key in ("n_heads", "n_kv_heads", "head_dim"):
        found[key] = part.fit(key, (f"args.{key}",))
    if any(m["v_head_dim"] != m["head_dim"] for row in part.rows for m in row if m != ABSENT):
        found["v_head_dim"] = part.fit("v_head_dim", is_size=True)
    for key in ("q_bias", "k_bias", "v_bias", "o_bias"):
        found[key] = part.fit(key)
    clip = part.of("clip_qkv")
    when = clip.fit("when")
    if when is not False:
        limits = clip.each(lambda c: c["limit"] if c["when"] else None)
        limit = a.layer_value("attention.clip_qkv", limits)
        # A limit that a field gives also decides whether anything is clipped: None clips nothing.
        arg = limit.get("arg") if isinstance(limit, dict) else None
        when = {"expr": f"args.{arg} is not None"} if arg else when
        found["clip_qkv"] = {"when": when, "limit": limit}
        if clip.layout("after_norm"):
            found["clip_qkv"]["after_norm"] = True
    for key in ("q_norm", "k_norm", "v_norm"):
        found[key] = part.of(key).norm(("over", "after_rope"))
    found["scale"] = part.fit("scale", SCALES)
    found |= _limits(part, LAYER_NAMES)
    if part.has("causal"):
        causal = part.each(lambda m: m.get("causal", True))
        found["causal"] = a.layout_value("attention.causal", causal)
    found["sinks"] = {"when": part.of("sinks").fit("when")}
    found |= part.optional("alibi", ("rule", "max_bias", "multiplier"), relations=SCALES)
    found |= part.optional("gate", ("fn", "per", "bias", "head_bias"), ("fn", "head_bias"))
    found["out_norm"] = part.of("out_norm").norm()
    found |= part.factor("value_scale")
    growth = ("rule", "scale", "floor", "power", "length", "position_offset")
    return found | part.optional("temperature", growth, ("rule",))


def _limits(part: Part, names: dict[str, str]) -> dict[str, Any]:
    """Return what bounds scores and what tokens see, where something does."""
    found = {key: part.fit(key, name=names.get(key)) for key in ("softcap", "window", "chunk")}
    return {key: value for key, value in found.items() if value is not None}


def _latent_attention(part: Part) -> dict[str, Any]:
    """Return the attention of a design whose keys and values come from a latent state."""
    found: dict[str, Any] = {"kind": "mla"}
    for key in ("n_heads", "head_dim"):
        found[key] = part.fit(key, (f"args.{key}",))
    for key in LATENT_SIZES:
        found[key] = part.fit(key, name=key, is_size=True)
    found |= {key: part.fit(key) for key in LATENT_BIASES if part.has(key)}
    for key in ("q_norm", "kv_norm"):
        found[key] = part.of(key).norm()
    for key in ("q_multiplier", "kv_multiplier"):
        found |= part.factor(key, name=key)
    found["scale"] = _latent_scale(part)
    return found | _limits(part, {})


def _latent_scale(part: Part) -> Any:
    """Return the scale; scaled rotations may raise it (YaRN's mscale over all dimensions)."""
    a = part.arguments
    plain = [size**-0.5 for size in a.known["head_dim"]]
    raised = [s * _score_multiplier(c.config) for s, c in zip(plain, a.cases, strict=True)]
    values = [next(v for v in row if v != ABSENT) for row in part.each("scale")]
    # Measured in fp32 through a few operations, hence the tolerance.
    for expected, text in ((plain, ""), (raised, " * args.rope.score_multiplier")):
        if all(math.isclose(*pair, rel_tol=1e-4) for pair in zip(values, expected, strict=True)):
            return {"expr": f"args.head_dim**-0.5{text}"}
    return part.fit("scale")


def _score_multiplier(config: Any) -> float:
    """Return the square of (0.1 * mscale_all_dim * log(factor) + 1), 1 where it is not asked for.

    Source:
        YaRN, as DeepSeek-V2's technical report uses it.
    """
    parameters = getattr(config, "rope_parameters", None) or {}
    scale, factor = parameters.get("mscale_all_dim", 0), parameters.get("factor", 1.0)
    if parameters.get("rope_type", "default") == "default" or not scale or factor <= 1:
        return 1.0
    return (0.1 * scale * math.log(factor) + 1.0) ** 2


def _mixer(part: Part) -> dict[str, Any]:
    return {key: part.layout(key) for key in ("class", "by_layer", "buffers", "unread")}


def _mlp(part: Part) -> dict[str, Any]:
    found: dict[str, Any] = {
        "gated": part.layout("gated"),
        "activation": part.fit("activation"),
        "hidden_dim": part.fit("hidden_dim", ("args.hidden_dim",)),
        "inner_norm": part.of("inner_norm").norm(),
    }
    # The first map is the gate of a gated feed-forward, and what widens in a plain one.
    first = "gate_bias" if found["gated"] else "up_bias"
    found[first] = part.fit(first, feature="w1_bias")
    found["down_bias"] = part.fit("down_bias", feature="w2_bias")
    if found["gated"]:
        found["up_bias"] = part.fit("up_bias", feature="w3_bias")
    return found | part.factor("first_multiplier") | part.factor("down_multiplier")


def _moe(part: Part) -> dict[str, Any]:
    layers = [m for row in part.rows for m in row if m != ABSENT]
    sizes = {"num_experts", "top_k", "shared_expert_intermediate_size"}
    if all(m["score_func"] == "sparsemixer" for m in layers):
        # It chooses two experts whatever the configuration asks for.
        sizes.remove("top_k")
    hidden_dim = part.fit("hidden_dim", name="moe_inter_dim", is_size=True)
    keys = dict.fromkeys(k for m in layers for k in m if k not in {"kind", "hidden_dim"})
    args = {key: part.fit(key, is_size=key in sizes) for key in keys}
    return {"hidden_dim": hidden_dim, "args": args}


def _scoring(part: Part) -> dict[str, Any]:
    """Return the head of an encoder."""
    found = {"norm": part.of("norm").norm()}
    found |= {key: part.fit(key) for key in ("pooling", "bias")}
    return found | _transform(part)


def _head(part: Part) -> dict[str, Any]:
    found: dict[str, Any] = {"norm": part.of("norm").norm(), "bias": part.fit("bias")}
    found |= {"tied": {"arg": "enable_weight_tying"}}
    found |= part.factor("multiplier", name="logit_multiplier")
    found |= _transform(part)
    softcap = part.fit("softcap")
    if softcap is not None:
        found["softcap"] = softcap
    return found


def _transform(part: Part) -> dict[str, Any]:
    """Return the dense block before the output projection of a head that has one."""
    found = part.optional("transform", ("activation", "bias"))
    if found:
        found["transform"]["norm"] = part.of("transform").of("norm").norm()
    return found
