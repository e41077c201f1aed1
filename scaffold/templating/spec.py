"""The parts of a manifest: kinds, styles, answers, files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from scaffold.errors import TemplateError, nearest

AnswerValue = str | int | float | bool | list[str]
AnswerType = Literal["str", "int", "float", "bool"]

# Nothing compares or prints the wide classes of this package that every command defines at its
# start, and each method that `dataclass` writes for them costs 0.3 ms.


class Answer(NamedTuple):
    """What a question of a style accepts; ``default`` None means that it must be answered.

    ``multiple``: the option may be repeated; one value stays a text, several make a list.
    """

    name: str
    type: AnswerType
    help: str
    default: AnswerValue | None = None
    choices: tuple[str, ...] = ()
    pattern: str = ""
    check: str = ""
    minimum: float | None = None
    maximum: float | None = None
    option: str = ""
    default_from: str = ""
    excludes: tuple[str, ...] = ()
    multiple: bool = False

    @property
    def is_free_text(self) -> bool:
        """Whether any text may come in, so that templates must quote it."""
        return self.type == "str" and not (self.choices or self.pattern)


class FileRule(NamedTuple):
    """Which template file goes where; ``source`` is relative to the kind's folder."""

    source: str
    to: str
    role: str


class NextStep(NamedTuple):
    """What is left to do after the unit was made, at a symbol or below the last line like one.

    Without a file it is a hint, which names no place. ``is_unused``: only where no configuration
    was set to use the unit.
    """

    file: str
    why: str
    symbol: str
    like: str = ""
    is_unused: bool = False


class RegistryRule(NamedTuple):
    """How a unit of the kind is registered.

    Args:
        shape: How the registry is edited; "manual" leaves the line to a person.
        key: What the line is known by.
        value: Its value.
        file: Where the registry is; empty for the one that the target names for the kind.
        table: What to look for in the file; empty as above.
        code: Which of "key" and "value" are source text rather than the content of a string.
        near: The key of an entry whose block a new one joins.
    """

    shape: str
    key: str
    value: str = ""
    file: str = ""
    table: str = ""
    code: tuple[str, ...] = ()
    near: str = ""


class UseRule(NamedTuple):
    """A key of a run's configuration that makes a run use the unit.

    Args:
        key: The key, with dots.
        value: What it is set to; nothing is set where it comes out empty.
        where: What a configuration has that the rule is for: a key, or ``key=value``.
        is_code: Whether the value is YAML source rather than a text.
    """

    key: str
    value: str
    where: str
    is_code: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class Manifest:
    """What a kind.toml and a template.toml have in common.

    ``origin`` is its source: "builtin", "repository" or "package NAME". ``support`` are modules
    of areal-lite that its files import, such as "sandbox"; a target without areal-lite gets a copy.
    """

    name: str
    folder: Path
    origin: str
    version: int
    title: str
    help: str
    answers: Mapping[str, Answer]
    files: tuple[FileRule, ...]
    next: tuple[NextStep, ...]
    support: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Style(Manifest):
    """One template of a kind: a folder ``templates/<kind>/<style>``.

    ``framework`` is what its units are written for, "" for the training package; where a target's
    registry is another's, they are not registered. ``names`` and ``verify`` win over the kind's.
    """

    framework: str = ""
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    verify: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, eq=False, repr=False)
class Kind(Manifest):
    """Everything that units of one kind share: where they go and how they are named.

    ``writer`` is what writes the files that have no template: "archon", or "" for nothing.
    """

    command: str = ""
    new_folder: bool = False
    suffixes: tuple[str, ...] = ()
    reserved: tuple[str, ...] = ()
    option: str = "style"
    multiple: bool = False
    default: str = ""
    symbol: str = ""
    subject: str = ""
    writer: str = ""
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    place: Mapping[str, str] = field(default_factory=dict[str, str])
    registry: tuple[RegistryRule, ...] = ()
    use: tuple[UseRule, ...] = ()
    verify: Mapping[str, Any] = field(default_factory=dict[str, Any])


SUPPORT = "support"
"""The role of a module that comes along with a unit."""


def support_source(module: str) -> str:
    """Return what the file of a module of areal-lite is called among the template files."""
    return f"areal/{module.replace('.', '/')}.py"


def all_answers(kind: Kind, styles: Iterable[Style]) -> dict[str, Answer]:
    """Return every question that the kind and the given styles ask, by name; a style's wins."""
    answers = dict(kind.answers)
    for style in styles:
        answers.update(style.answers)
    return answers


def fill(text: str, variables: Mapping[str, Any]) -> str:
    """Replace every ``{name}`` in a manifest's string.

    Raises:
        TemplateError: The string names a variable that does not exist.
    """

    def value(found: re.Match[str]) -> str:
        if found[1] not in variables:
            raise TemplateError(
                f"{text!r} names an unknown variable{nearest(found[1], variables)}",
                code="template_invalid",
            )
        return str(variables[found[1]])

    return re.sub(r"\{(\w+)\}", value, text)
