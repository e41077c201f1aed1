"""Defaults that changed: of parameters, of fields of classes and of constants, with who relies."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from scaffold.analysis.python.binding import Given
from scaffold.analysis.python.index import PythonIndex
from scaffold.analysis.python.signatures import read_parameters, source_of
from scaffold.analysis.python.statements import statements
from scaffold.syntax import parse
from scaffold.vcs.review.changed_file import ChangedFile
from scaffold.vcs.review.uses import Use

Place = tuple[str, str]
"""An owner and a name: ("Config.__init__", "lr"), ("Config", "lr"), ("", "TIMEOUT")."""


class ChangedDefault(NamedTuple):
    """A value that whoever does not set it has another one of now.

    Args:
        line: The line of the new value.
        owner: The dotted name of the function or class; empty for a constant of the module.
        old: The value before, as written.
        reliers: The calls, as ``path:line``, that leave it out.
    """

    path: str
    line: int
    owner: str
    name: str
    old: str
    new: str
    reliers: tuple[str, ...] = ()


def changed_defaults(
    files: Sequence[ChangedFile], uses: Sequence[Use], index: PythonIndex
) -> tuple[ChangedDefault, ...]:
    """Return the defaults that a change alters, with the calls that leave them out."""
    found: list[ChangedDefault] = []
    for file in files:
        if not file.path.endswith(".py") or file.role == "test":
            continue
        try:
            before, after = (
                dict(_defaults(parse(text or "").body)) for text in (file.old_text, file.new_text)
            )
        except SyntaxError:
            continue
        for place, (line, value) in after.items():
            was = before.get(place)
            if was is not None and was[1] != value:
                reliers = tuple(_reliers(file.path, place, uses, index))
                found.append(ChangedDefault(file.path, line, *place, was[1], value, reliers))
    return tuple(found)


def _defaults(body: list[ast.stmt], owner: str = "") -> Iterator[tuple[Place, tuple[int, str]]]:
    for node, _ in statements(body):
        dotted = f"{owner}.{getattr(node, 'name', '')}".lstrip(".")
        if isinstance(node, ast.ClassDef):
            yield from _defaults(node.body, dotted)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for each in read_parameters(node.args):
                if each.default is not None:
                    yield (dotted, each.name), (node.lineno, each.default)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            if isinstance(node.target, ast.Name) and (owner or node.target.id.isupper()):
                yield (owner, node.target.id), (node.lineno, source_of(node.value) or "...")
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            # Of a module only constants by their name; anything else is computed there.
            name = node.targets[0].id
            if owner or name.isupper():
                yield (owner, name), (node.lineno, source_of(node.value) or "...")


def _reliers(path: str, place: Place, uses: Sequence[Use], index: PythonIndex) -> Iterator[str]:
    """Yield the calls that take the default, as far as they are seen to."""
    owner, name = place
    # A class is called where its constructor is meant.
    owners = {owner, owner.removesuffix(".__init__")}
    for use in uses:
        call = use.call
        if use.key[0] != path or use.key[1] not in owners or call is None or use.found is None:
            continue
        given, signature = Given(call), index.signature_of(use.found)
        # `**options` may hold it, and a place may be taken by `*rows`.
        filled = set(given.keywords) if signature is None else given.fills(signature)
        if not given.is_open and name not in filled:
            yield f"{use.path}:{use.line}"
