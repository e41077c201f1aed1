"""``infra/parallelize.py``: how a model is split over processes."""

from __future__ import annotations

from scaffold.archon.codegen.attention import own_parameters
from scaffold.archon.codegen.mla import mla_plan
from scaffold.archon.codegen.names import ModelNames
from scaffold.archon.codegen.source import Source, function_text
from scaffold.archon.codegen.values import Json, guard_of, has

PLAN_COMMENT = "# What is split over tensor parallelism in a block; everything else is replicated."


def parallelize_file(design: Json, names: ModelNames) -> str:
    """Return ``infra/parallelize.py``: what tensor parallelism splits, and one call."""
    plan = tensor_parallel_plan(design)
    source = Source(f"{names.prefix} across processes.", names)
    source.use("typing", "Any")
    source.use("torch", "nn")
    if plan:
        source.share("parallel", *{style.partition("(")[0] for style in plan.values()})
    source.share("parallel.decoder", "parallelize_decoder")
    source.use(names.contract("parallel_dims"), "ArchonParallelDims")
    rows = "".join(f'    "{name}": {style},\n' for name, style in plan.items())
    if plan:
        source.add(f"{PLAN_COMMENT}\nTP_PLAN = {{\n{rows}}}")
    signature = (
        f"def {names.parallelize}(model: nn.Module, parallel_dims: ArchonParallelDims, "
        "**options: Any) -> nn.Module"
    )
    doc = f"Split a ``{names.model}`` in place; ``parallelize_decoder`` has the options."
    given = "TP_PLAN" if plan else "{}"
    call = f"return parallelize_decoder(model, parallel_dims, {given}, **options)"
    source.add(function_text(signature, [call], doc))
    return source.text()


def tensor_parallel_plan(design: Json) -> dict[str, str]:
    """Return the styles of a block's modules, by name, in the order of the computation."""
    plan: dict[str, str] = {}
    if design.get("mixer") or design.get("encoder"):
        return plan  # such a model is not split by matrices
    for module in design["block"]["modules"]:
        if guard_of(module) == "False":
            continue
        inner: dict[str, str] = {}
        if module["kind"] == "attention":
            inner = _attention_plan(design)
        elif module["kind"] == "mlp":
            inner = _mlp_plan(design["mlp"])
        for name, style in inner.items():
            plan[f"{module['name']}{name}"] = style
    return plan


def _attention_plan(design: Json) -> dict[str, str]:
    part: Json = design["attention"]
    if part.get("kind", "gqa") == "mla":
        return mla_plan(design)
    norms = {name: part.get(name) for name in ("q_norm", "k_norm", "v_norm", "out_norm")}
    styles = {name: _norm_style(name, norm) for name, norm in norms.items() if has(norm)}
    # One norm that cannot be split keeps the whole attention replicated.
    if None in styles.values():
        return {}
    own = ", ".join(f'"{name}"' for name in own_parameters(part))
    # A tuple of one needs its comma.
    region = f"Region(per_head=({own}{'' if ', ' in own else ','}))" if own else "Region()"
    # By columns on the way in and by rows on the way out: one sum over processes a region.
    plan = {"": region, ".wq": "Colwise()", ".wk": "Colwise()", ".wv": "Colwise()"}
    for name in ("q_norm", "k_norm", "v_norm"):
        if styles.get(name):
            plan[f".{name}"] = str(styles[name])
    if has(part.get("gate")):
        plan[".gate"] = "Colwise()"
    if styles.get("out_norm"):
        plan[".out_norm"] = str(styles["out_norm"])
    return {**plan, ".wo": "Rowwise()"}


def _norm_style(name: str, norm: Json | None) -> str | None:
    """Return the style of a norm, "" where it needs none, None where there is none for it."""
    usual = "projection" if name == "out_norm" else "head"
    if norm is None or norm.get("over", usual) == "head":
        return "PerHead()" if norm is not None and norm.get("per_head") else ""
    # The mean of a layer norm over all heads has no sum over processes: nothing is split then.
    return None if norm.get("kind") == "layer" else "ProjectionNorm()"


def _mlp_plan(mlp: Json) -> dict[str, str]:
    norm: Json | None = mlp.get("inner_norm")
    plan = {"": "Region()", ".w1": "Colwise()"}
    if mlp.get("gated", True):
        plan[".w3"] = "Colwise()"
    if norm is not None and has(norm):
        # As in attention, such a norm keeps all of it replicated.
        if norm.get("kind") == "layer":
            return {}
        plan[".inner_norm"] = "ProjectionNorm()"
    return {**plan, ".w2": "Rowwise()"}
