"""The small files of a model: what its packages are, and its spec."""

from __future__ import annotations

from scaffold.archon.codegen.names import ModelNames
from scaffold.archon.codegen.source import Source
from scaffold.templating.render import python_literal


def package_files(names: ModelNames) -> dict[str, str]:
    """Return the ``__init__.py`` of the model's folders; its three classes are in the first."""
    doc = f"Archon model for the Hugging Face model_type ``{names.model_type}``."
    source = Source(doc, names, annotations=False)
    homes = {names.args: "args", names.model: "model", names.adapter: "state_dict_adapter"}
    for name, module in homes.items():
        source.use(names.own("model", module), name)
    rows = "".join(f"    {python_literal(name)},\n" for name in sorted(homes))
    source.add(f"__all__ = [\n{rows}]")
    model = f"{names.prefix}: arguments, modules and the mapping of its weights."
    infra = f"{names.prefix} across processes."
    inner = {"model/__init__.py": model, "infra/__init__.py": infra}
    texts = {path: Source(doc, names, annotations=False).text() for path, doc in inner.items()}
    return {"__init__.py": source.text(), **texts}


def spec_file(names: ModelNames) -> str:
    """Return ``spec.py``."""
    source = Source(f"What the trainer needs of {names.prefix}.", names, False)
    source.use(names.contract("model_spec"), "ModelSpec")
    source.use(names.contract("pipeline_parallel"), "pipeline_llm")
    source.use(names.own("infra", "parallelize"), names.parallelize)
    source.use(names.own("model", "args"), names.args)
    source.use(names.own("model", "model"), names.model)
    source.use(names.own("model", "state_dict_adapter"), names.adapter)
    types = ", ".join(python_literal(each) for each in names.model_types)
    rows = {
        "name": python_literal(names.folder),
        "model_class": names.model,
        "model_args_class": names.args,
        "state_dict_adapter_class": names.adapter,
        "parallelize_fn": names.parallelize,
        "pipelining_fn": "pipeline_llm",
        "supported_model_types": f"frozenset({{{types}}})",
    }
    body = "".join(f"    {name}={text},\n" for name, text in rows.items())
    source.add(f"{names.spec} = ModelSpec(\n{body})")
    if names.registers_itself:
        source.use(names.contract("model_spec"), "register_model_spec")
        source.add(f"register_model_spec({names.spec})")
    return source.text()
