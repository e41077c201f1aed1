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
        folder: Python name of the model's folder.
        module: Dotted name of that folder.
        prefix: What its classes start with.
        spec: Name of its spec in ``spec.py``.
        composite: The model_type of a configuration of which this model's is the part for text.
        parts: Dotted name of the package that holds the shared parts.
        registers_itself: Whether importing its spec registers it, as no table names it.
    """

    model_type: str
    folder: str
    module: str
    prefix: str
    spec: str
    composite: str = ""
    parts: str = ARCHON
    registers_itself: bool = False

    @property
    def model_types(self) -> tuple[str, ...]:
        """Every model_type whose configuration it is built from."""
        return tuple(sorted(filter(None, {self.model_type, self.composite})))

    @property
    def first_party(self) -> str:
        """Top-level package of the target."""
        return self.module.partition(".")[0]

    @property
    def args(self) -> str:
        """Class of the model's arguments."""
        return f"{self.prefix}ModelArgs"

    @property
    def model(self) -> str:
        """Class of the model."""
        return f"{self.prefix}Model"

    @property
    def adapter(self) -> str:
        """Class that maps its weights."""
        return f"{self.prefix}StateDictAdapter"

    @property
    def parallelize(self) -> str:
        """Function that spreads it over devices."""
        return f"parallelize_{self.folder}"

    def shared(self, *parts: str) -> str:
        """Return the dotted name of a shared part."""
        return ".".join([self.parts, *parts])

    def contract(self, module: str) -> str:
        """Return the dotted name of a module that every package with Archon models has."""
        return f"{ARCHON}.{module}"

    @property
    def errors(self) -> str:
        """Dotted name of the module that defines what a model raises."""
        return "areal.api.errors" if self.parts == ARCHON else self.shared("errors")

    def own(self, *parts: str) -> str:
        """Return the dotted name of a module of the model itself."""
        return ".".join([self.module, *parts])


def names_of(design: Json) -> ModelNames:
    """Return the names that a design gives its model, or that follow from its model_type."""
    model_type = str(design["model_type"])
    folder = str(design.get("folder") or re.sub(r"\W", "_", model_type))
    return ModelNames(
        model_type=model_type,
        folder=folder,
        module=str(design.get("module") or f"{ARCHON}.{folder}"),
        prefix=str(design["class_prefix"]),
        spec=str(design.get("spec_name") or f"{folder.upper()}_SPEC"),
        composite=str(design.get("composite") or ""),
        parts=str(design.get("parts") or ARCHON),
        registers_itself=bool(design.get("registers_itself")),
    )
