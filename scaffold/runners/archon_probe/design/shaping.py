"""Shape observations into a design: which parts, which steps, which options, of which values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from archon_probe.design.arguments import Arguments
from archon_probe.design.expressions import ABSENT, Fitted
from archon_probe.design.shaper import Measured, Shaper, each, read
from archon_probe.design.shaping_mla import shape_mla
from archon_probe.design.shaping_rope import shape_ropes
from archon_probe.measure.observation import Observation

LAYER_NAMES = {"window": "windows", "chunk": "chunks"}
"""Names of arguments whose options no single field of a configuration gives."""

# Relations over standard arguments that factors on scores are tried as first.
SCALES = ("args.head_dim**-0.5", "args.dim**0.5", "args.dim**-0.5", "1.0")


def shape_design(arguments: Arguments, measured: Measured) -> dict[str, Any]:
    """Return the parts of a design that follow from observations."""
    shaper = Shaper(arguments, measured)
    _standard(shaper)
    design: dict[str, Any] = {"embedding": _embedding(shaper)}
    names = _module_names(measured)
    variants = _variants(shaper)
    design["block"] = {"modules": [_module(shaper, n) for n in names], "variants": variants}
    kinds = {n: _kind_of(measured, n) for n in names}
    shapes = {"attention": _attention, "mixer": _mixer, "mlp": _mlp, "moe": _moe}
    for kind, shape in shapes.items():
        of_kind = [n for n in names if kinds[n] == kind]
        if of_kind:
            design[kind] = shape(shaper, of_kind[0])
    design["ropes"] = shape_ropes(shaper, design)
    if _is_encoder(measured):
        design["encoder"] = True
    design["head"] = _scoring(shaper) if _is_encoder(measured) else _head(shaper)
    return design


def _is_encoder(measured: Measured) -> bool:
    return "pooling" in measured[0][1].head


def _module_names(measured: Measured) -> list[str]:
    """Return modules in the order of the steps that call them."""
    names: dict[str, None] = {}
    for _, observation in measured:
        for layer in observation.layers:
            for step in layer["steps"]:
                if "call" in step:
                    names.setdefault(step["call"])
    return list(names)


def _kind_of(measured: Measured, name: str) -> str:
    for _, observation in measured:
        for layer in observation.layers:
            if name in layer["modules"]:
                return layer["modules"][name]["kind"]
    raise KeyError(name)


def _of_kind(layer: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [module for module in layer["modules"].values() if module["kind"] == kind]


def _first(observation: Observation, kind: str) -> dict[str, Any]:
    found = [module for layer in observation.layers for module in _of_kind(layer, kind)]
    return found[0]  # an IndexError makes the option absent


def _standard(shaper: Shaper) -> None:
    a = shaper.arguments
    a.standard("dim", shaper.whole(lambda o: o.embedding["dim"]), "dim")
    a.standard("n_layers", [c.n_layers for c, _ in shaper.measured], "n_layers")
    for name in ("n_heads", "n_kv_heads", "head_dim"):
        is_of_some = any(
            len({m[name] for layer in o.layers for m in _of_kind(layer, "attention")}) > 1
            for _, o in shaper.measured
        )
        first = shaper.whole(lambda o, n=name: _first(o, "attention")[n])
        a.standard(name, first, name, is_of_some)
    hidden = shaper.whole(lambda o: _first(o, "mlp")["hidden_dim"])
    # A model of experts alone has no dense feed-forward.
    if all(h == ABSENT for h in hidden):
        hidden = shaper.whole(lambda o: _first(o, "moe")["hidden_dim"])
    a.standard("hidden_dim", hidden, "mlp.hidden_dim")
    a.standard("vocab_size", shaper.whole(lambda o: o.embedding["vocab_size"]), "vocab_size")
    eps = shaper.whole(lambda o: o.head["norm"]["eps"])
    # A model without a last norm may have others.
    if all(e == ABSENT for e in eps):
        eps = shaper.whole(lambda o: _first(o, "norm")["norm"]["eps"])
    a.standard("norm_eps", eps, "norm.eps")
    length = "getattr(hf_config, 'max_position_embeddings', 2048)"
    a.add("max_seq_len", "int", Fitted(length), "Positions the configuration states.", True)
    if _is_encoder(shaper.measured):
        return  # without a vocabulary to predict there is no tie and no end of a text
    a.standard("enable_weight_tying", shaper.whole(lambda o: o.head["tied"]), "head.tied")
    a.add(
        "eos_id",
        "int | list[int] | None",
        Fitted("hf_config.eos_token_id"),
        "Token that ends a text, or several.",
        True,
    )


def _embedding(shaper: Shaper) -> dict[str, Any]:
    a = shaper.arguments
    found: dict[str, Any] = {
        "multiplier": a.value(
            "embedding.multiplier",
            shaper.whole(lambda o: o.embedding["multiplier"]),
            ("1.0", "args.dim**0.5"),
        ),
        "norm": shaper.norm(
            "embedding.norm", [[n] for n in shaper.whole(lambda o: o.embedding["norm"])]
        ),
        "padding_idx": a.value(
            "embedding.padding_idx", shaper.whole(lambda o: o.embedding["padding_idx"])
        ),
    }
    positions = shaper.whole(lambda o: o.embedding["positions"])
    when = a.value("embedding.positions.when", [p["when"] for p in positions])
    found["positions"] = {"when": when}
    if when is not False:
        used = [p if p["when"] else ABSENT for p in positions]
        for key in ("kind", "offset", "layout", "reaches_base"):
            values = [read(p, key) for p in used]
            if any(v != ABSENT for v in values):
                path = f"embedding.positions.{key}"
                fitted = a.layout_value if key == "kind" else a.layer_value
                found["positions"][key] = fitted(path, [[v] for v in values])
        if found["positions"]["kind"] in ("learned", "beside_padding"):
            rows = [read(p, lambda p: p["rows"] - p.get("offset", 0)) for p in used]
            found["positions"]["size"] = a.value("embedding.positions.size", rows, is_size=True)
    _projection(shaper, found)
    types = shaper.whole(lambda o: o.embedding.get("token_types", {"when": False}))
    if any(t["when"] for t in types):
        rows = [read(t, "rows") for t in types]
        size = a.value("embedding.token_types.size", rows, name="n_token_types", is_size=True)
        found["token_types"] = {"when": True, "size": size}
    return found


def _projection(shaper: Shaper, found: dict[str, Any]) -> None:
    """Add the linear map from embeddings to the stream to a model that has one."""
    parts = shaper.whole(lambda o: o.embedding.get("projection", {"when": False}))
    if not any(p["when"] for p in parts):
        return
    a = shaper.arguments
    widths = shaper.whole(lambda o: o.embedding["tokens_dim"])
    biases = [p["bias"] if p["when"] else ABSENT for p in parts]
    found["projection"] = {
        "when": a.value("embedding.projection.when", [p["when"] for p in parts]),
        "dim": a.value("embedding.projection.dim", widths, name="embedding_dim", is_size=True),
        "bias": a.value("embedding.projection.bias", biases),
    }


def _module(shaper: Shaper, name: str) -> dict[str, Any]:
    rows = shaper.rows(lambda layer: layer["modules"].get(name, {"kind": None}))
    kind = _kind_of(shaper.measured, name)
    present = each(rows, lambda m: m["kind"] is not None)
    when = shaper.arguments.layer_value(f"modules.{name}.when", present)
    module: dict[str, Any] = {"name": name, "kind": kind}
    if when is not True:
        module["when"] = when
    if kind == "norm":
        module["norm"] = shaper.norm(name, each(rows, "norm"))
        if when is not True:
            module["norm"]["when"] = when
    if kind == "mlp":
        sizes = each(rows, "hidden_dim")
        module["hidden_dim"] = shaper.arguments.layer_value(
            f"modules.{name}.hidden_dim", sizes, ("args.hidden_dim",)
        )
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


def _slot(name: str) -> str:
    return _in_slot(name, {each: slot for slot, pair in _SLOTS.items() for each in pair})


def _in_slot(name: str, slots: dict[str, str]) -> str:
    module = name.removesuffix("_out")
    return slots.get(module, module) + name[len(module) :]


_SLOTS = {"ffn": {"moe", "feed_forward"}, "attention": {"attention", "mixer"}}
"""Modules that layers of one model have in the same place of a block."""


def _variants(shaper: Shaper) -> list[dict[str, Any]]:
    _scale_inputs([layer for _, found in shaper.measured for layer in found.layers])
    outlines = shaper.rows(lambda layer: _outline(layer["steps"]))
    distinct = list(dict.fromkeys(t for row in outlines for t in row))
    variants: list[dict[str, Any]] = []
    weights: dict[str, Any] = {}
    for number, outline in enumerate(distinct):
        variant: dict[str, Any] = {}
        # The last variant needs no condition: it is what is left.
        if number < len(distinct) - 1:
            variant["when"] = shaper.arguments.layer_value(
                f"block.variant_{number}.when", each(outlines, lambda t, o=outline: t == o)
            )
        variant["steps"] = _steps(shaper, outline, weights)
        variants.append(variant)
    return [v for v in variants if v.get("when") is not False]


def _steps(shaper: Shaper, outline: str, weights: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the steps of one outline with fitted weights.

    Args:
        shaper: Of the model.
        outline: Which steps.
        weights: Of other outlines, by the term; what one explains is not measured again, as few
            cases may have this outline. Gets the weights of this one.
    """
    chosen = shaper.rows(
        lambda layer: layer["steps"] if _outline(layer["steps"]) == outline else ABSENT
    )
    samples = [s for row in chosen for s in row if s != ABSENT]
    steps: list[dict[str, Any]] = []
    slot = _slots(samples[0])
    for k, sample in enumerate(samples[0]):
        if "call" in sample:
            calls = list(dict.fromkeys(s[k]["call"] for s in samples))
            call: Any = calls[0] if len(calls) == 1 else calls
            steps.append({"out": slot(sample["out"]), "call": call, "in": slot(sample["in"])})
            continue
        terms: list[Any] = []
        for j, (name, _) in enumerate(sample["sum"]):
            a = shaper.arguments
            path, term = f"block.{sample['out']}.weight_of_", _slot(name)
            measured = each(chosen, k, "sum", j, 1)
            # The same weight in another outline is the same argument.
            weight = weights.get(path + term)
            if weight is None or not a.gives(weight, measured):
                weight = a.layer_value(path + slot(name), measured, ("1.0",))
            weights.setdefault(path + term, weight)
            terms.append([slot(name), _literal_one(weight)])
        steps.append({"out": sample["out"], "sum": terms})
    return steps


def _literal_one(weight: Any) -> Any:
    return 1.0 if weight == {"expr": "1.0"} else weight


def _attention(shaper: Shaper, name: str) -> dict[str, Any]:
    a = shaper.arguments
    rows = shaper.modules(name)
    if any(kind == "mla" for row in each(rows, "kind_of_attention") for kind in row):
        return shape_mla(shaper, rows)
    found: dict[str, Any] = {"kind": "gqa"}
    found["n_heads"] = a.layer_value("attention.n_heads", each(rows, "n_heads"), ("args.n_heads",))
    found["n_kv_heads"] = a.layer_value(
        "attention.n_kv_heads", each(rows, "n_kv_heads"), ("args.n_kv_heads",)
    )
    found["head_dim"] = a.layer_value(
        "attention.head_dim", each(rows, "head_dim"), ("args.head_dim",)
    )
    if any(m != ABSENT and m["v_head_dim"] != m["head_dim"] for row in rows for m in row):
        found["v_head_dim"] = a.layer_value(
            "attention.v_head_dim", each(rows, "v_head_dim"), is_size=True
        )
    for key in ("q_bias", "k_bias", "v_bias", "o_bias"):
        found[key] = a.layer_value(f"attention.{key}", each(rows, key))
    when = a.layer_value("attention.clip_qkv.when", each(rows, "clip_qkv", "when"))
    if when is not False:
        limits = each(rows, lambda m: m["clip_qkv"]["limit"] if m["clip_qkv"]["when"] else None)
        limit = a.layer_value("attention.clip_qkv", limits)
        # A limit that a field gives also decides whether anything is clipped: None clips nothing.
        arg = limit.get("arg") if isinstance(limit, dict) else None
        found["clip_qkv"] = {
            "when": {"expr": f"args.{arg} is not None"} if arg else when,
            "limit": limit,
        }
        late = each(rows, "clip_qkv", "after_norm")
        if a.layout_value("attention.clip_qkv.after_norm", late):
            found["clip_qkv"]["after_norm"] = True
    for key in ("q_norm", "k_norm", "v_norm"):
        found[key] = shaper.norm(f"attention.{key}", each(rows, key), ("over", "after_rope"))
    found["scale"] = a.layer_value("attention.scale", each(rows, "scale"), SCALES)
    for key in ("softcap", "window", "chunk"):
        value = a.layer_value(f"attention.{key}", each(rows, key), name=LAYER_NAMES.get(key))
        if value is not None:
            found[key] = value
    causal = each(rows, lambda m: m.get("causal", True))
    if any(value is False for row in causal for value in row):
        found["causal"] = a.layout_value("attention.causal", causal)
    found["sinks"] = {"when": a.layer_value("attention.sinks.when", each(rows, "sinks", "when"))}
    _alibi(shaper, rows, found)
    _gate(shaper, rows, found)
    found["out_norm"] = shaper.norm("attention.out_norm", each(rows, "out_norm"))
    scale = a.layer_value("attention.value_scale", each(rows, "value_scale"), ("1.0",))
    if _literal_one(scale) != 1.0:
        found["value_scale"] = scale
    _temperature(shaper, rows, found)
    return found


def _alibi(shaper: Shaper, rows: list[list[Any]], found: dict[str, Any]) -> None:
    when = shaper.arguments.layer_value("attention.alibi.when", each(rows, "alibi", "when"))
    if when is False:
        return
    found["alibi"] = {"when": when}
    for key in ("rule", "max_bias", "multiplier"):
        values = each(rows, "alibi", key)
        if any(v != ABSENT for row in values for v in row):
            found["alibi"][key] = shaper.arguments.layer_value(
                f"attention.alibi.{key}", values, SCALES
            )


def _gate(shaper: Shaper, rows: list[list[Any]], found: dict[str, Any]) -> None:
    when = shaper.arguments.layer_value("attention.gate.when", each(rows, "gate", "when"))
    if when is False:
        return
    found["gate"] = {"when": when}
    a = shaper.arguments
    for key in ("fn", "per", "bias", "head_bias"):
        fitted = a.layout_value if key in ("fn", "head_bias") else a.layer_value
        found["gate"][key] = fitted(f"attention.gate.{key}", each(rows, "gate", key))


def _temperature(shaper: Shaper, rows: list[list[Any]], found: dict[str, Any]) -> None:
    when = shaper.arguments.layer_value(
        "attention.temperature.when", each(rows, "temperature", "when")
    )
    if when is False:
        return
    found["temperature"] = {"when": when}
    for key in ("rule", "scale", "floor", "power", "length", "position_offset"):
        values = each(rows, "temperature", key)
        if any(v != ABSENT for row in values for v in row):
            a = shaper.arguments
            fitted = a.layout_value if key == "rule" else a.layer_value
            found["temperature"][key] = fitted(f"attention.temperature.{key}", values)


def _mixer(shaper: Shaper, name: str) -> dict[str, Any]:
    rows = shaper.modules(name)
    return {
        key: shaper.arguments.layout_value(f"mixer.{key}", each(rows, key))
        for key in ("class", "by_layer", "buffers", "unread")
    }


def _mlp(shaper: Shaper, name: str) -> dict[str, Any]:
    a = shaper.arguments
    rows = shaper.modules(name)
    found: dict[str, Any] = {
        "gated": a.layout_value("mlp.gated", each(rows, "gated")),
        "activation": a.layer_value("mlp.activation", each(rows, "activation")),
        "hidden_dim": a.layer_value(
            "mlp.hidden_dim", each(rows, "hidden_dim"), ("args.hidden_dim",)
        ),
        "inner_norm": shaper.norm("mlp.inner_norm", each(rows, "inner_norm")),
    }
    # The first map is the gate of a gated feed-forward, and what widens in a plain one.
    first = "gate_bias" if found["gated"] else "up_bias"
    for key, part in ((first, "w1_bias"), ("down_bias", "w2_bias"), ("up_bias", "w3_bias")):
        if part == "w3_bias" and not found["gated"]:
            continue
        found[key] = a.layer_value(f"mlp.{key}", each(rows, part))
    for key in ("first_multiplier", "down_multiplier"):
        value = a.layer_value(f"mlp.{key}", each(rows, key), ("1.0",))
        if _literal_one(value) != 1.0:
            found[key] = value
    return found


def _moe(shaper: Shaper, name: str) -> dict[str, Any]:
    a = shaper.arguments
    rows = shaper.modules(name)
    keys = {
        k: None
        for row in rows
        for m in row
        if m != ABSENT
        for k in m
        if k not in {"kind", "hidden_dim"}
    }
    found: dict[str, Any] = {
        "hidden_dim": a.layer_value(
            "moe.hidden_dim",
            each(rows, "hidden_dim"),
            name="moe_inter_dim",
            is_size=True,
        ),
        "args": {},
    }
    sizes = {"num_experts", "top_k", "shared_expert_intermediate_size"}
    if all(m == ABSENT or m["score_func"] == "sparsemixer" for row in rows for m in row):
        # It chooses two experts whatever the configuration asks for.
        sizes.remove("top_k")
    for key in keys:
        found["args"][key] = a.layer_value(
            f"moe.{key}",
            each(rows, key),
            is_size=key in sizes,
        )
    return found


def _scoring(shaper: Shaper) -> dict[str, Any]:
    """Return the head of an encoder."""
    a = shaper.arguments
    found: dict[str, Any] = {
        "norm": shaper.norm("head.norm", [[n] for n in shaper.whole(lambda o: o.head["norm"])]),
        "pooling": a.value("head.pooling", shaper.whole(lambda o: o.head["pooling"])),
        "bias": a.value("head.bias", shaper.whole(lambda o: o.head["bias"])),
    }
    _transform(shaper, found)
    return found


def _head(shaper: Shaper) -> dict[str, Any]:
    a = shaper.arguments
    found: dict[str, Any] = {
        "norm": shaper.norm("head.norm", [[n] for n in shaper.whole(lambda o: o.head["norm"])]),
        "bias": a.value("head.bias", shaper.whole(lambda o: o.head["bias"])),
        "tied": {"arg": "enable_weight_tying"},
    }
    multiplier = a.value(
        "head.multiplier",
        shaper.whole(lambda o: o.head["multiplier"]),
        ("1.0",),
        name="logit_multiplier",
    )
    if _literal_one(multiplier) != 1.0:
        found["multiplier"] = multiplier
    _transform(shaper, found)
    softcap = a.value("head.softcap", shaper.whole(lambda o: o.head["softcap"]))
    if softcap is not None:
        found["softcap"] = softcap
    return found


def _transform(shaper: Shaper, found: dict[str, Any]) -> None:
    """Add the dense block before the output projection to a head that has one."""
    a = shaper.arguments
    parts = shaper.whole(lambda o: o.head["transform"])
    when = a.value("head.transform.when", [p["when"] for p in parts])
    if when is False:
        return
    used = [p if p["when"] else ABSENT for p in parts]
    found["transform"] = {
        "when": when,
        "activation": a.value("head.transform.activation", [read(p, "activation") for p in used]),
        "bias": a.value("head.transform.bias", [read(p, "bias") for p in used]),
        "norm": shaper.norm("head.transform.norm", [[read(p, "norm")] for p in used]),
    }
