"""A request: what is to be made, its names and answers settled, nothing rendered yet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from scaffold.edit.entry import Entry
from scaffold.errors import TemplateError, is_private
from scaffold.templating.spec import (
    SUPPORT,
    AnswerValue,
    FileRule,
    Kind,
    RegistryRule,
    Style,
    fill,
    support_source,
)

MANUAL = "manual"
"""The shape of a registry line that a person adds."""


@dataclass(frozen=True, eq=False, repr=False)
class Request:
    """One unit to be made.

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
        """The names of the chosen styles."""
        return tuple(style.name for style in self.styles)

    @property
    def id(self) -> str:
        """``kind/name``."""
        return f"{self.kind.name}/{self.key}"

    def may_overwrite(self, path: str) -> bool:
        """Return whether a path, or a folder above it, may be replaced."""
        return any(PurePosixPath(path).is_relative_to(each) for each in self.overwrite)

    def entries(self) -> tuple[Entry, ...]:
        """Return the registry lines that the unit needs."""
        variables = {**self.names, **self.answers}
        styles = self.style_names or ("",)
        found = [
            _entry(rule, {**variables, "each_style": style})
            for rule in self.rules
            # One line for each chosen style where the rule asks for it, else one for the unit.
            for style in (styles if "{each_style}" in rule.key + rule.value else styles[:1])
        ]
        return tuple(found)

    def edited(self) -> tuple[Entry, ...]:
        """Return the registry lines that are added, as against those left to a person."""
        return tuple(entry for entry in self.entries() if entry.shape != MANUAL)

    def files(self) -> tuple[FileRule, ...]:
        """Return every template file that is rendered, and every module that comes along."""
        rules = (*self.kind.files, *(rule for style in self.styles for rule in style.files))
        folder = self.names.get("support_folder", "")
        # A kind of several styles may name a module once for each.
        copies = dict.fromkeys((support_source(name), name) for name in self.support)
        return (
            *rules,
            *(
                FileRule(source, f"{folder}/{name.replace('.', '/')}.py", SUPPORT)
                for source, name in copies
            ),
        )

    @property
    def support(self) -> tuple[str, ...]:
        """The modules of areal-lite that come along: none where the target has areal-lite."""
        if not self.names.get("support_folder"):
            return ()
        return tuple(name for part in (self.kind, *self.styles) for name in part.support)

    @property
    def symbol(self) -> str:
        """How the unit is imported, as ``module:attr``; empty where it is no such thing."""
        return fill(self.names.get("symbol", self.kind.symbol), {**self.names, **self.answers})


def _entry(rule: RegistryRule, variables: Mapping[str, AnswerValue]) -> Entry:
    texts = (rule.file, rule.table, rule.key, rule.value)
    file, table, key, value = (fill(text, variables).strip("\n") for text in texts)
    return Entry(file, table, rule.shape, key, value, rule.code, rule.near)


def destinations(request: Request) -> list[str]:
    variables = {**request.names, **request.answers}
    paths = [check_destination(fill(rule.to, variables)) for rule in request.files()]
    double = next((path for path in paths if paths.count(path) > 1), None)
    if double:
        raise TemplateError(f"two template files go to {double}", code="template_invalid")
    return paths


def check_destination(path: str) -> str:
    """Return a destination if it is a plain relative path that templates may write to.

    Raises:
        TemplateError: It leads out of the target, or into a folder of git or of the tool.
    """
    parts = PurePosixPath(path).parts
    wrong = (
        not parts
        or path.startswith("/")
        or path.endswith("/")
        or ".." in parts
        or is_private(path)
        # A backslash or a colon leads elsewhere on Windows (`C:x`, `a\..\b`).
        or re.search(r"[\\:\x00-\x1f]", path)
    )
    if wrong:
        raise TemplateError(f"a template may not write to {path!r}", code="outside_target")
    return str(PurePosixPath(path))
