"""A request: what is to be made, its names and answers settled, nothing rendered yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scaffold.ledger import MadeEntry, Unit, record_path
from scaffold.spec import AnswerValue, ConflictError, Kind, Style, all_answers, fill
from scaffold.target import Registry


@dataclass(frozen=True)
class Request:
    """Is one unit to be made.

    Args:
        kind: Its kind.
        styles: The chosen styles, sorted by name.
        key: Its canonical name.
        answers: An answer to every question of the kind and the styles.
        names: The variables of manifests and templates.
        registry: The table that will name it; None for kinds that register nothing.
        overwrite: Paths, relative to the root, that may be replaced although they are not ours.
    """

    kind: Kind
    styles: tuple[Style, ...]
    key: str
    answers: Mapping[str, AnswerValue]
    names: Mapping[str, str]
    registry: Registry | None = None
    overwrite: frozenset[str] = frozenset()

    @property
    def style_names(self) -> tuple[str, ...]:
        """Returns the names of the chosen styles."""
        return tuple(style.name for style in self.styles)

    @property
    def id(self) -> str:
        """Returns ``kind/name``."""
        return f"{self.kind.name}/{self.key}"

    def entries(self) -> tuple[MadeEntry, ...]:
        """Returns the registry lines that the unit needs."""
        if self.registry is None:
            return ()
        variables = {**self.names, **self.answers}
        return tuple(
            MadeEntry(
                self.registry.file,
                self.registry.table,
                rule.shape,
                fill(rule.key, variables),
                fill(rule.value, variables),
            )
            for rule in self.kind.registry
        )


def check_same(request: Request, made: Unit) -> tuple[str, ...]:
    """Compares a request with the unit that exists under its name.

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
            differences.append(f"{name} was {was!r}, not {wanted!r}")
    if differences:
        raise ConflictError(
            f"{request.id} exists, made with other answers: {'; '.join(differences)}",
            code="answers_differ",
            hint="choose another name; or delete its files, its registry line and "
            f"{record_path(made.kind, made.name)}, then add it again",
        )
    newest = {f"{request.kind.name}/{style.name}": style.version for style in request.styles}
    newest[request.kind.name] = request.kind.version
    return tuple(
        f"the template {use.id} has moved on from version {use.version} to {newest[use.id]} since"
        for use in made.templates
        if newest.get(use.id, use.version) > use.version
    )
