"""What a generated model's files, classes and functions are called."""

from __future__ import annotations

import re
from dataclasses import dataclass

from scaffold.archon.codegen.values import Json

ARCHON = "areal.experimental.models.archon"


@dataclass(frozen=True)
class ModelNames:
    """The names of one model.

    Attributes:
        model_type: As transformers spells it.
        model_types: Every model_type whose configuration it is built from.
        folder: Python name of the model's folder.
        module: Dotted name of that folder.
        prefix: What its classes start with.
        args: Class of its arguments.
        model: Class of the model.
        adapter: Class that maps its weights.
        spec: Name of its spec in ``spec.py``.
        parallelize: Function that spreads it over devices.
        first_party: Top-level package of the target.
        parts: Dotted name of the package that holds the shared parts.
        errors: Dotted name of the module that defines what a model raises.
        registers_itself: Whether importing its spec registers it, as no table names it.
    """

    model_type: str
    model_types: tuple[str, ...]
    folder: str
    module: str
    prefix: str
    args: str
    model: str
    adapter: str
    spec: str
    parallelize: str
    first_party: str
    parts: str
    errors: str
    registers_itself: bool

    def contract(self, module: str) -> str:
        """Return the dotted name of a module that every package with Archon models has."""
        return f"{ARCHON}.{module}"

    def own(self, *parts: str) -> str:
        """Return the dotted name of a module of the model itself."""
        return ".".join([self.module, *parts])


def names_of(design: Json) -> ModelNames:
    """Return the names that a design gives its model, or that follow from its model_type.

    A design names a ``composite`` model_type where the model's own is that of a part for text.
    """
    model_type, prefix = str(design["model_type"]), str(design["class_prefix"])
    folder = str(design.get("folder") or re.sub(r"\W", "_", model_type))
    module = str(design.get("module") or f"{ARCHON}.{folder}")
    parts = str(design.get("parts") or ARCHON)
    return ModelNames(
        model_type=model_type,
        model_types=tuple(sorted({model_type, str(design.get("composite") or model_type)})),
        folder=folder,
        module=module,
        prefix=prefix,
        args=f"{prefix}ModelArgs",
        model=f"{prefix}Model",
        adapter=f"{prefix}StateDictAdapter",
        spec=str(design.get("spec_name") or f"{folder.upper()}_SPEC"),
        parallelize=f"parallelize_{folder}",
        first_party=module.partition(".")[0],
        parts=parts,
        errors="areal.api.errors" if parts == ARCHON else f"{parts}.errors",
        registers_itself=bool(design.get("registers_itself")),
    )
