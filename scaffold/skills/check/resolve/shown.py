"""Whether definitions and defaults that a text shows are those of the code."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.analysis.files.history import is_test
from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.python.lookup_result import Found
from scaffold.analysis.python.signatures import Signature, read_signature
from scaffold.skills.check.reference import Reference, Verdict
from scaffold.skills.check.references.code import TELLING, ShownType
from scaffold.skills.check.references.python import Shown, imported_names
from scaffold.skills.check.resolve.scope import Scope
from scaffold.skills.check.resolve.typescript import resolve_type

_HALF = 0.5
_LEAST = 1
_WITH_DEFAULT = lazy_re(r"\s*\w+\s*:[^=]+=\s*(?P<default>[^#]+?)\s*(?:#.*)?$")
_MOST_OWNERS = 12
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def resolve_definition(reference: Reference, scope: Scope) -> Verdict:
    """Resolve a member of a class that a block shows: has the code it, with these parameters?

    A sketch leaves things out, so only what it has and the code has not is wrong, and what it
    leaves out of a signature that cannot be called without it.
    """
    if isinstance(reference.data, ShownType):
        return resolve_type(reference.data, scope)
    shown: Shown = reference.data
    owner, node, name = shown
    index = scope.repository.python
    path = _home(owner, scope)
    if not path:
        return Verdict.unknown("it may be a class of another kind")
    found = index.find_in(path, f"{owner.name}.{name}")
    made = index.signature_of(index.find_in(path, owner.name))
    evidence = f"{path}:{found.line}" if found.line else path
    holds = Verdict.holds(f"{evidence} defines it", path)
    if found.is_missing:
        message = f"{owner.name!r} has no {name!r}"
        return Verdict("contradicts", found.evidence, "method-missing", message, is_sure=False)
    if not found.exists:
        return Verdict.unknown(found.evidence)
    if isinstance(node, ast.AnnAssign):
        return _field(shown, made, _row(found, scope), evidence) or holds
    if found.kind not in ("function", "method"):
        # A property is one that a function gives.
        is_made = _row(found, scope).lstrip().startswith(("@", "async ", "def "))
        is_called = found.kind in ("variable", "attribute") and not is_made
        message = f"{name!r} of {owner.name!r} is an attribute of the class, and no method"
        told = Verdict("contradicts", evidence, "method-missing", message, is_sure=False)
        return told if is_called else holds
    signature = made if name == "__init__" else index.signature_of(found)
    return (signature is not None and _compared(node, signature)) or holds


def _home(owner: ast.ClassDef, scope: Scope) -> str:
    """Return the one file whose class a block shows, or nothing.

    A class of another kind may have the name: it has the same bases, and half of the members.
    """
    index = scope.repository.python
    every = sorted({path for path, _ in index.defined(owner.name) if not is_test(path)})
    paths = [each for each in every if index.find_in(each, owner.name).kind == "class"]
    if len(paths) != 1:
        return ""
    found = index.find_in(paths[0], owner.name)
    own = {_last(each) for each in found.thing.binding.bases}
    if own != {_last(ast.unparse(each)) for each in owner.bases}:
        return ""
    members = [
        ast.unparse(each.target) if isinstance(each, ast.AnnAssign) else each.name
        for each in owner.body
        if isinstance(each, (ast.AnnAssign, *_FUNCTIONS))
    ]
    held = [each for each in members if index.find_in(paths[0], f"{owner.name}.{each}").exists]
    least = _LEAST if own else _LEAST + 1
    is_same = len(held) >= least and len(held) >= _HALF * len(members)
    return paths[0] if is_same else ""


def _last(base: str) -> str:
    return base.partition("[")[0].rpartition(".")[2]


def _row(found: Found, scope: Scope) -> str:
    """Return the line of a definition."""
    rows = (scope.text(found.path or "") or "").split("\n")
    return rows[found.line - 1] if found.line and found.line <= len(rows) else ""


def _field(shown: Shown, made: Signature | None, row: str, evidence: str) -> Verdict | None:
    """Return what is wrong with a field: its default, or that it cannot be given."""
    node = shown.node
    assert isinstance(node, ast.AnnAssign), "only a field is asked"
    taken = made.parameters if made is not None else ()
    given = next((each for each in taken if each.name == shown.name), None)
    is_dataclass = any("dataclass" in ast.unparse(each) for each in shown.owner.decorator_list)
    if made is not None and given is None and is_dataclass and node.value is None:
        message = f"{shown.owner.name}() takes no {shown.name!r}"
        return Verdict("contradicts", evidence, "parameter-unknown", message, f"it is {made}")
    value = ast.unparse(node.value) if node.value is not None else ""
    written = _WITH_DEFAULT.match(row) if given is None else None
    default = written["default"] if written else ""
    default = (given.default or "") if given is not None and given.has_default else default
    if _is_literal(value) and _is_literal(default) and not _same(default, value):
        message = f"the default of {shown.name!r} is not {value}"
        now = f"it is {default}"
        return Verdict("contradicts", f"{evidence} has {default}", "default-differs", message, now)
    return None


def _compared(node: _Function, signature: Signature) -> Verdict | None:
    given = read_signature(node)
    shown = [each for each in given.parameters if each.kind[:4] != "var_"]
    names = [each.name for each in shown if each.name not in ("self", "cls")]
    own = {each.name for each in signature.parameters}
    unknown = [each for each in names if each not in own]
    evidence, now = f"{signature.path}:{signature.line}", f"it is {signature}"
    if unknown and not signature.takes_any_keyword and len(unknown) <= _HALF * len(names):
        message = f"{signature.name!r} has no parameter {unknown[0]!r}"
        return Verdict("contradicts", evidence, "parameter-unknown", message, now, is_sure=False)
    lacking = [
        each.name
        for each in signature.parameters
        if not each.has_default and each.kind[:4] != "var_" and each.name not in names
    ]
    if lacking and not unknown and len(shown) == len(given.parameters):
        message = f"{signature.name!r} needs {lacking[0]!r}, too"
        return Verdict("contradicts", evidence, "argument-missing", message, now, is_sure=False)
    return None


def resolve_default(reference: Reference, scope: Scope) -> Verdict:
    """Resolve a default that is beside a parameter: is it that of what the page imports?"""
    name, value = reference.data
    found = [each for each in _defaults(name, scope) if each[0] is not None]
    if not found:
        return _by_name(name, value, scope)
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


def _by_name(name: str, value: str, scope: Scope) -> Verdict:
    """Resolve a default by every field, parameter and option that has the name here."""
    known = scope.repository.defaults.of(name) if TELLING.fullmatch(name) else {}
    if not known:
        return Verdict.unknown("nothing that the page imports has such a parameter with a default")
    for default, place in known.items():
        if _same(default, value):
            return Verdict.holds(f"{place} has it", place.partition(":")[0])
    # A path has no quotes in a text.
    plain = repr(value) if "/" in value else _as_python(value)
    if "None" in known or not all(map(_is_literal, [*known, plain])):
        return Verdict.unknown("the default is computed")
    default, place = next(iter(known.items()))
    message = f"the default of {name!r} is not {value}"
    now = f"it is {default}" if len(known) == 1 else ""
    evidence = f"{place} has {name} = {default}"
    return Verdict("contradicts", evidence, "default-differs", message, now, is_sure=False)


def _as_python(value: str) -> str:
    """Return a value of YAML or JSON as Python writes it."""
    return {"true": "True", "false": "False", "null": "None"}.get(value.lower(), value)


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
    if default.strip("\"'") == value.strip("\"'") or default == _as_python(value):
        return True
    if _is_literal(default) and _is_literal(value):
        return bool(ast.literal_eval(default) == ast.literal_eval(value))
    # `Enum.MEMBER` and a constant are written by their last part, too.
    return default.rpartition(".")[2].lower() == value.rpartition(".")[2].lower()
