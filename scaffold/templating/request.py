"""A request: what is to be made, its names and answers settled, nothing rendered yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from scaffold.errors import ConflictError
from scaffold.templating.spec import (
    AnswerValue,
    FileRule,
    Kind,
    RegistryRule,
    Style,
    all_answers,
    fill,
)
from scaffold.units.ledger import MadeEntry, Unit

MANUAL = "manual"
"""The shape of a registry line that a person adds."""

MAX_SHOWN = 200
"""How much of an answer a refusal repeats."""


@dataclass(frozen=True)
class Request:
    """Is one unit to be made.

    Args:
        kind: Its kind.
        styles: The chosen styles, sorted by name.
        key: Its canonical name.
        answers: An answer to every question of the kind and the styles.
        names: The variables of manifests and templates.
        rules: The lines that register it, each with its file and table.
        overwrite: Files and folders, relative to the root, that may be replaced although they are
            not ours.
        proof: What a proof has come to; see `scaffold.units.ledger.Unit`.
    """

    kind: Kind
    styles: tuple[Style, ...]
    key: str
    answers: Mapping[str, AnswerValue]
    names: Mapping[str, str]
    rules: tuple[RegistryRule, ...] = ()
    overwrite: frozenset[str] = frozenset()
    proof: str = ""

    @property
    def style_names(self) -> tuple[str, ...]:
        """Returns the names of the chosen styles."""
        return tuple(style.name for style in self.styles)

    @property
    def id(self) -> str:
        """Returns ``kind/name``."""
        return f"{self.kind.name}/{self.key}"

    def may_overwrite(self, path: str) -> bool:
        """Tells whether a path, or a folder above it, may be replaced."""
        return any(PurePosixPath(path).is_relative_to(each) for each in self.overwrite)

    def entries(self) -> tuple[MadeEntry, ...]:
        """Returns the registry lines that the unit needs."""
        variables = {**self.names, **self.answers}
        styles = self.style_names or ("",)
        found = [
            _entry(rule, {**variables, "each_style": style})
            for rule in self.rules
            for style in (styles if "{each_style}" in rule.key + rule.value else styles[:1])
        ]
        return tuple(found)

    def edited(self) -> tuple[MadeEntry, ...]:
        """Returns the registry lines that are added, as against those left to a person."""
        return tuple(entry for entry in self.entries() if entry.shape != MANUAL)

    def files(self) -> tuple[FileRule, ...]:
        """Returns every template file that is rendered."""
        return (*self.kind.files, *(rule for style in self.styles for rule in style.files))

    @property
    def symbol(self) -> str:
        """Returns how the unit is imported, as ``module:attr``; empty where it is no such thing."""
        return fill(self.kind.symbol, self.names)


def _how_to_change(request: Request, made: Unit, command: Callable[..., Iterable[str]]) -> str:
    import shlex  # only refusals need it

    if made.styles != request.style_names:
        remove = shlex.join(command("remove", made.id))
        return f"choose another name; or {remove}, then add it again"
    questions = all_answers(request.kind, request.styles)
    changed = [
        ("--set", f"{name}={wanted}")
        for name, wanted in sorted(request.answers.items())
        if made.answers.get(name, questions[name].default) != wanted
    ]
    return shlex.join(command("update", made.id, *(word for pair in changed for word in pair)))


def _shown(value: AnswerValue | None) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def _entry(rule: RegistryRule, variables: Mapping[str, AnswerValue]) -> MadeEntry:
    texts = (rule.file, rule.table, rule.key, rule.value)
    file, table, key, value = (fill(text, variables).strip("\n") for text in texts)
    return MadeEntry(file, table, rule.shape, key, value, rule.code)


def check_same(
    request: Request, made: Unit, command: Callable[..., Iterable[str]]
) -> tuple[str, ...]:
    """Compares a request with the unit that exists under its name.

    Args:
        request: What is to be made.
        made: What exists.
        command: Makes a command for the same target of its words, for the hint of a refusal.

    Returns:
        Warnings: a template that has moved on since.

    Raises:
        ConflictError: The unit was made with other styles or answers.
    """
    differences: list[str] = []
    if made.styles != request.style_names:
        was, wanted = ", ".join(made.styles), ", ".join(request.style_names)
        differences.append(f"{request.kind.option} was {was}, not {wanted}")
    questions = all_answers(request.kind, request.styles)
    for name, wanted in sorted(request.answers.items()):
        # A question that came later was answered by its default, as far as the unit is concerned.
        was = made.answers.get(name, questions[name].default)
        if was != wanted:
            differences.append(f"{name} was {_shown(was)}, not {_shown(wanted)}")
    if differences:
        raise ConflictError(
            f"{request.id} exists, made with other answers: {'; '.join(differences)}",
            code="answers_differ",
            hint=_how_to_change(request, made, command),
        )
    newest = {f"{request.kind.name}/{style.name}": style.version for style in request.styles}
    newest[request.kind.name] = request.kind.version
    return tuple(
        f"the template {use.id} has moved on from version {use.version} to {newest[use.id]} since"
        for use in made.templates
        if newest.get(use.id, use.version) > use.version
    )
