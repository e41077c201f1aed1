"""What a change broke for certain, calls and names, and which defaults it changed."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from scaffold.analysis.files.files import Files
from scaffold.analysis.python.binding import Given, bind
from scaffold.analysis.python.index import PythonIndex
from scaffold.analysis.python.signatures import read_parameters, source_of
from scaffold.analysis.python.statements import statements
from scaffold.findings import Finding, RuleText
from scaffold.syntax import NewerSyntaxError, parse
from scaffold.vcs.review.changed_file import ChangedFile
from scaffold.vcs.review.uses import LostName, Use, Uses, Watched

RULES = {
    "call-broken": RuleText("A call still fits what it calls."),
    "name-gone": RuleText("A name that is used is still defined."),
    "pyright": RuleText("Pyright reports nothing of the new state that it did not of the old one."),
    "ruff": RuleText("Ruff reports nothing of the new state that it did not of the old one."),
    "syntax-broken": RuleText("Python that compiled still compiles."),
}
"""What certainly broke, for writers that name rules."""

Place = tuple[str, str]
"""An owner and a name: ("Config.__init__", "lr"), ("Config", "lr"), ("", "TIMEOUT")."""


def _broken(fact: str, path: str, line: int, claim: str, evidence: str) -> Finding:
    return Finding(path, line, 1, fact, claim, claim, evidence)


def broken_calls(
    wanted: Sequence[Watched],
    uses: Sequence[Use],
    after: PythonIndex,
    before: PythonIndex,
) -> Iterator[Finding]:
    """Yield the calls that fitted what they call before, and do not fit it now."""
    by_key = {each.key: each for each in wanted if each.old_path is not None}
    seen: set[tuple[str, int]] = set()
    for use in uses:
        target = by_key.get(use.key)
        if target is None or use.call is None or use.found is None or use.is_expected:
            continue
        assert target.old_path is not None, "the others were left out"
        new = after.signature_of(use.found)
        old = before.signature_of(before.find_in(target.old_path, target.name))
        if new is None or old is None:
            continue
        problem = bind(new, use.call)
        place = (use.path, use.call.lineno)
        # A call that did not fit before either was not broken by this change.
        if problem is not None and bind(old, use.call) is None and place not in seen:
            seen.add(place)
            evidence = f"{old} is {new} now, at {new.path}:{new.line}"
            yield _broken("call-broken", *place, str(problem), evidence)


def lost_names(lost: Sequence[LostName]) -> Iterator[Finding]:
    """Yield the places that name what a file does not define any more."""
    for each in lost:
        path, name = each.key
        yield _broken(
            "name-gone",
            each.path,
            each.line,
            f"{name} is named here and {path} does not have it any more",
            f"the change took {name} out of {path}",
        )


def lost_modules(files: Sequence[ChangedFile], uses: Uses, before: Files) -> Iterator[Finding]:
    """Yield the imports of modules whose file the change took away or moved."""
    gone = {
        each.change.old_path
        for each in files
        if each.change.old_path
        and each.change.old_path.endswith(".py")
        and each.change.old_path not in uses.files.paths
    }
    if not gone:
        return
    # A module may live on as a package, or under another root.
    names = _importable(sorted(gone), uses, PythonIndex(before))
    words = {os.fsencode(name.rpartition(".")[2]) for name in names}
    for path in uses.files.python:
        data = uses.files.data(path) or b""
        view = uses.view(path) if any(word in data for word in words) else None
        for line, named in view.imports() if view is not None else ():
            name = min(names.keys() & named, default="")
            if view is not None and name and not view.guards.expects_lack(line, ""):
                claim = f"imports {name}, and {names[name]} is gone"
                evidence = f"the change took {names[name]} away"
                yield _broken("name-gone", path, line, claim, evidence)


def _importable(gone: Sequence[str], uses: Uses, before: PythonIndex) -> dict[str, str]:
    """Return the names under which modules were imported that nothing answers to now."""
    found: dict[str, str] = {}
    for path in gone:
        for name in before.dotted_names(path)[:1]:
            if uses.index.find(name).is_missing:
                found[name] = path
    return found


def broken_syntax(files: Sequence[ChangedFile]) -> Iterator[Finding]:
    """Yield the Python sources that compiled before and do not compile now."""
    for file in files:
        if not file.path.endswith(".py") or file.new_text is None:
            continue
        problem = _syntax_problem(file.new_text)
        if problem is None or (file.old_text and _syntax_problem(file.old_text)):
            continue
        yield _broken(
            "syntax-broken", file.path, problem.lineno or 1,
            f"it does not compile: {problem.msg}", "Python's own compiler",
        )  # fmt: skip


def _syntax_problem(text: str) -> SyntaxError | None:
    try:
        tree = parse(text)
        # A keyword that is given twice, or a `return` outside of a function, parses.
        compile(tree, "<source>", "exec", dont_inherit=True)
    # Syntax of a Python newer than this one is no fault of the change.
    except NewerSyntaxError:
        return None
    except SyntaxError as error:
        return error
    except (ValueError, TypeError, RecursionError):
        return None
    return None


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
