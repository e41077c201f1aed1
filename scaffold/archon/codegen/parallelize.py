"""``infra/parallelize.py``: how a model is split over processes."""

from __future__ import annotations

from collections.abc import Mapping
from string import Template

from scaffold.archon.codegen.attention_output import own_parameters
from scaffold.archon.codegen.names import ModelNames
from scaffold.archon.codegen.source import Source
from scaffold.archon.codegen.values import Json, guard_of, has

PLAN_COMMENT = "# What is split over tensor parallelism in a block; everything else is replicated."
TENSOR_PARALLEL = """
    if parallel_dims.tp_enabled:
        tp_mesh = parallel_dims.get_mesh("tp")
        apply_tp(model, tp_mesh, TP_PLAN, loss_parallel=loss_parallel)
        replicate_rest(model, tp_mesh)"""
TENSOR_AND_EXPERT_PARALLEL = """
    if parallel_dims.tp_enabled:
        apply_tp(model, parallel_dims.get_mesh("tp"), TP_PLAN, loss_parallel=loss_parallel)
    apply_moe_ep_tp(model, *expert_meshes(parallel_dims))
    if parallel_dims.tp_enabled:
        replicate_rest(model, parallel_dims.get_mesh("tp"))"""
FUNCTION = Template('''
def $function(
    model: nn.Module,
    parallel_dims: ArchonParallelDims,
    param_dtype: torch.dtype = torch.bfloat16,
    reduce_dtype: torch.dtype = torch.float32,
    loss_parallel: bool = True,
    cpu_offload: bool = False,
    reshard_after_forward_policy: str = "default",
    ac_config: ActivationCheckpointConfig | None = None,
    enable_compile: bool = True,
) -> nn.Module:
    """Splits a model, or a pipeline stage of one, in place.

    Args:
        model: A ``$model``.
        parallel_dims: In how many parts each axis is split.
        param_dtype: Type of the parameters while they compute.
        reduce_dtype: Type in which gradients are summed.
        loss_parallel: Whether logits stay split by the vocabulary under tensor parallelism.
        cpu_offload: Whether parameters and gradients stay in host memory.
        reshard_after_forward_policy: "default", "always" or "never", see ``apply_fsdp``.
        ac_config: What the backward computes again; None is nothing.
        enable_compile: Whether each block is compiled.

    Returns:
        The same model.

    Raises:
        ConfigError: A size of the model does not divide over an axis.
    """
    validate_parallelism(model.model_args, parallel_dims)$tensor_parallel
    if parallel_dims.cp_enabled:
        apply_cp(model, parallel_dims.get_group("cp"))
    apply_ac(model, ac_config, model_compile_enabled=enable_compile)
    if enable_compile:
        apply_compile(model)
    apply_fsdp(
        model,
        parallel_dims,
        param_dtype=param_dtype,
        reduce_dtype=reduce_dtype,
        cpu_offload=cpu_offload,
        reshard_after_forward_policy=reshard_after_forward_policy,
    )
    return model
''')


def parallelize_file(design: Json, names: ModelNames) -> str:
    """Returns ``infra/parallelize.py``."""
    plan = tensor_parallel_plan(design)
    source = Source(f"{names.prefix} across processes.", names.first_party)
    _imports(source, names, plan, _has_experts(design))
    rows = "".join(f'    "{name}": {style},\n' for name, style in plan.items())
    source.add(f"{PLAN_COMMENT}\nTP_PLAN = {{\n{rows}}}")
    experts = _has_experts(design)
    source.add(
        FUNCTION.substitute(
            function=names.parallelize,
            model=names.model,
            tensor_parallel=TENSOR_AND_EXPERT_PARALLEL if experts else TENSOR_PARALLEL,
        )
    )
    return source.text()


def _imports(source: Source, names: ModelNames, plan: Mapping[str, str], experts: bool) -> None:
    source.use("torch")
    source.use("torch", "nn")
    source.use(names.shared("activation_checkpoint"), "ActivationCheckpointConfig", "apply_ac")
    source.use(names.shared("compile"), "apply_compile")
    styles = {style.partition("(")[0] for style in plan.values()}
    source.use(names.shared("parallel"), *sorted(styles))
    source.use(names.shared("parallel"), "apply_cp", "apply_fsdp", "apply_tp", "replicate_rest")
    source.use(names.shared("parallel_dims"), "ArchonParallelDims")
    source.use(names.shared("utils"), "validate_parallelism")
    if experts:
        source.use(names.shared("expert_parallel"), "apply_moe_ep_tp")
        source.use(names.shared("parallel"), "expert_meshes")


def _has_experts(design: Json) -> bool:
    return any(module["kind"] == "moe" for module in design["block"]["modules"])


def tensor_parallel_plan(design: Json) -> dict[str, str]:
    """Returns the styles of a block's modules, by name, in the order of the computation."""
    plan: dict[str, str] = {}
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
        from scaffold.archon.codegen.mla import mla_plan

        return mla_plan(design)
    norms = {name: part.get(name) for name in ("q_norm", "k_norm", "v_norm", "out_norm")}
    styles = {name: _norm_style(name, norm) for name, norm in norms.items() if has(norm)}
    if None in styles.values():
        return {}
    own = ", ".join(f'"{name}"' for name in own_parameters(part))
    region = f"Region(per_head=({own}{'' if ', ' in own else ','}))" if own else "Region()"
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
    """Returns the style of a norm, "" where it needs none, None where there is none for it."""
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
        if norm.get("kind") == "layer":
            return {}
        plan[".inner_norm"] = "ProjectionNorm()"
    return {**plan, ".w2": "Rowwise()"}
