"""Whether definitions and defaults that a text shows are those of the code."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.analysis.files.history import is_test
from scaffold.analysis.python.signatures import Signature, read_signature
from scaffold.skills.check.reference import Reference, Verdict
from scaffold.skills.check.references.python import imported_names
from scaffold.skills.check.resolve.scope import Scope

_HALF = 0.5
_MOST_OWNERS = 12
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def resolve_definition(reference: Reference, scope: Scope) -> Verdict:
    """Resolve a class that a block shows: has the code these members, with these parameters?

    A sketch leaves things out, so only what it has and the code has not is wrong; and it shows the
    class of the code only where the bases and half of the members are the same.
    """
    node: ast.ClassDef = reference.data
    index = scope.repository.python
    paths = sorted({path for path, _ in index.defined(node.name) if not is_test(path)})
    if len(paths) != 1 or index.find_in(paths[0], node.name).kind != "class":
        return Verdict.unknown("no one place of this repository defines it")
    return _class(node, paths[0], scope)


def _class(node: ast.ClassDef, path: str, scope: Scope) -> Verdict:
    index = scope.repository.python
    shown = [each for each in node.body if isinstance(each, _Function)]
    found = {each.name: index.find_in(path, f"{node.name}.{each.name}") for each in shown}
    held = [each for each in shown if found[each.name].exists]
    # A class of another kind may have the name: it has the same bases, and half of the members.
    own = index.find_in(path, node.name).thing.binding.bases
    bases = [ast.unparse(each).rpartition(".")[2] for each in node.bases]
    if not bases or {each.rpartition(".")[2] for each in own} != set(bases):
        return Verdict.unknown("it may be a class of another kind")
    for each in held:
        signature = index.signature_of(found[each.name])
        if each.name == "__init__":
            signature = index.signature_of(index.find_in(path, node.name))
        verdict = _compared(each, signature) if signature else None
        if verdict is not None and verdict.reason == "contradicts":
            return verdict
    gone = [each for each in shown if found[each.name].is_missing]
    if gone and len(held) > 1 and len(held) >= _HALF * len(shown):
        message = f"{node.name!r} has no {gone[0].name!r}"
        evidence = found[gone[0].name].evidence
        return Verdict("contradicts", evidence, "method-missing", message, is_sure=False)
    return Verdict.holds(f"{path} defines it", path) if held else Verdict.unknown("it is a sketch")


def _compared(node: _Function, signature: Signature) -> Verdict:
    shown = [each.name for each in read_signature(node).parameters if each.kind[:4] != "var_"]
    shown = [each for each in shown if each not in ("self", "cls")]
    own = {each.name for each in signature.parameters}
    unknown = [each for each in shown if each not in own]
    if not unknown:
        return Verdict.holds(f"{signature.path}:{signature.line}: {signature}", signature.path)
    if signature.takes_any_keyword or len(unknown) > _HALF * len(shown):
        return Verdict.unknown("it may be another one of the name")
    message = f"{signature.name!r} has no parameter {unknown[0]!r}"
    evidence = f"{signature.path}:{signature.line}"
    return Verdict(
        "contradicts", evidence, "parameter-unknown", message, f"it is {signature}", is_sure=False
    )


def resolve_default(reference: Reference, scope: Scope) -> Verdict:
    """Resolve a default that stands beside a parameter: is it that of what the page imports?"""
    name, value = reference.data
    found = [each for each in _defaults(name, scope) if each[0] is not None]
    if not found:
        return Verdict.unknown("nothing that the page imports has such a parameter with a default")
    for default, signature in found:
        if _same(str(default), value):
            return Verdict.holds(f"{signature.path}:{signature.line} has it", signature.path)
    # None is what a function fills in itself.
    defaults = {str(default) for default, _ in found}
    if "None" in defaults or not all(map(_is_literal, {*defaults, value})):
        return Verdict.unknown("the default is computed")
    default, signature = found[0]
    message = f"the default of {name!r} is not {value}"
    evidence = f"{signature.path}:{signature.line} has {name}={default}"
    return Verdict("contradicts", evidence, "default-differs", message, f"it is {default}")


def _defaults(name: str, scope: Scope) -> Iterator[tuple[str | None, Signature]]:
    index = scope.repository.python
    owners = sorted(set(imported_names(scope.document).values()))
    for dotted in owners[:_MOST_OWNERS]:
        found = index.find(dotted)
        if not found.exists:
            continue
        members = index.members(dotted) if found.kind == "class" else None
        names = [dotted, *(f"{dotted}.{each}" for each in members or () if each[:1] != "_")]
        for each in names:
            signature = index.signature(each)
            for parameter in signature.parameters if signature else ():
                if parameter.name == name and signature is not None:
                    yield (parameter.default if parameter.has_default else None), signature


def _is_literal(text: str) -> bool:
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return False
    return True


def _same(default: str, value: str) -> bool:
    if default.strip("\"'") == value.strip("\"'"):
        return True
    if _is_literal(default) and _is_literal(value):
        return bool(ast.literal_eval(default) == ast.literal_eval(value))
    # `Enum.MEMBER` and a constant are written by their last part, too.
    return default.rpartition(".")[2].lower() == value.rpartition(".")[2].lower()
