"""Whether the Python of a block fits the sources: its imports, its calls, its syntax."""

from __future__ import annotations
import __future__

import ast
import re

from scaffold.analysis.files.history import is_test
from scaffold.analysis.python.binding import bind
from scaffold.analysis.python.lookup_result import Found
from scaffold.analysis.python.signatures import Signature
from scaffold.findings import Fix
from scaffold.skills.check.reference import Asked, Reason, Reference, Verdict
from scaffold.skills.check.references.code import TELLING, Invoked, Taken
from scaffold.skills.check.references.placeholders import is_invented
from scaffold.skills.check.references.python import (
    Called,
    Imported,
    defined_names,
    imported_names,
    written_names,
)
from scaffold.skills.check.resolve.scope import Scope
from scaffold.skills.check.resolve.typescript import resolve_invoked, resolve_taken

RULES = {
    "missing": "argument-missing",
    "unknown": "argument-unknown",
    "too-many": "argument-surplus",
    "twice": "argument-unknown",
}


def resolve_python(reference: Reference, scope: Scope) -> Verdict:
    """Resolve a block of Python: was it parsed?"""
    if reference.data is True:
        return Verdict.holds("it can be parsed")
    if not reference.data:
        return Verdict.unknown("it is a sketch, or needs another Python to be parsed")
    lines = scope.document.lines
    line = lines[reference.line - 1].strip() if reference.line <= len(lines) else ""
    message = f"the Python here is wrong: {reference.data}"
    return Verdict("contradicts", f"at {line!r}", "python-syntax", message)


def resolve_import(reference: Reference, scope: Scope) -> Verdict:
    """Resolve an import: is the module there, and the name in it?"""
    given: Imported | Taken = reference.data
    if isinstance(given, Taken):
        return resolve_taken(given, scope)
    module, name = given
    repository = scope.repository
    if module == "__future__" and name in __future__.all_feature_names:
        return Verdict.holds("Python brings it")
    index = repository.index_for(module)
    found = index.find(module)
    if found.kind == "third_party":
        evidence = f"{module.split('.')[0]!r} is not of this repository"
        return Verdict.unknown(evidence, "third party not installed")
    if found.exists and name:
        found = index.find(f"{module}.{name}")
    if found.exists:
        return Verdict.holds(found.evidence or f"it is in {found.path}", found.path or "")
    if not found.is_missing and not name:
        return Verdict.unknown(found.evidence or "the sources leave it open")
    if not found.is_missing:
        # What code makes by name holds the name somewhere: the history may know where.
        asked = Asked(name=name, otherwise="open", is_bare=True)
        message = f"{module!r} has no {name!r}"
        return Verdict("absent", found.evidence, "import-name-missing", message, asked=asked)
    is_inside = found.name == f"{module}.{name}"
    if is_inside and name in written_names(scope.document):
        return Verdict.unknown("the text writes it out", "generated")
    if is_invented(module.replace(".", "/")) or "placeholder_" in reference.text:
        return Verdict.unknown("it is a name for others", "placeholder")
    if scope.makes(module.replace(".", "/")):
        return Verdict.unknown("the text has its reader make it", "generated")
    if not is_surely_ours(module, scope):
        evidence = f"{module.split('.')[0]!r} may also be a package from elsewhere"
        return Verdict.unknown(evidence, "another namespace")
    if is_inside and name:
        message = f"{module!r} has no {name!r}"
        return missing_name(found, "import-name-missing", message, reference.text)
    return missing_name(found, "import-missing", f"there is no module {module!r}", module)


def missing_name(
    found: Found, rule: str, message: str, written: str, *, otherwise: Reason = "contradicts"
) -> Verdict:
    """Return the verdict of a dotted name that the sources certainly lack.

    Args:
        found: What the index has of it.
        rule: The rule that is broken.
        message: What is wrong.
        written: What the text writes, for a fix.
        otherwise: The class of the reason where neither a near name nor the history has more.
    """
    last = found.name.rpartition(".")[2]
    near = found.near or ""
    now = f"there is {near}" if near else ""
    is_moved = near.rpartition(".")[2] == last and near.split(".")[0] == found.name.split(".")[0]
    if near and is_moved:
        fix = _moved(written, found.name, near)
        return Verdict("moved", found.evidence, rule, message, now, fix)
    lacking = found.lacking or last
    if near and _differs_in_spelling(near.rpartition(".")[2], lacking):
        fix = Fix(0, lacking, near.rpartition(".")[2]) if lacking in written else None
        return Verdict("other spelling", found.evidence, rule, message, now, fix)
    # A dotted text that any file holds as it is may be a key, or the name of a group.
    asked = Asked(name=lacking, otherwise=otherwise, file=found.name)
    return Verdict("absent", found.evidence, rule, message, now, asked=asked)


def _moved(written: str, old: str, new: str) -> Fix | None:
    is_safe = not any(part.startswith("_") for part in new.split("."))
    if written == old:
        return Fix(0, old, new, is_safe)
    home, _, name = old.rpartition(".")
    if written == f"from {home} import {name}":
        return Fix(
            0, f"from {home} import {name}", f"from {new.rpartition('.')[0]} import {name}", is_safe
        )
    return Fix(0, written, new, is_safe) if written and old.startswith(written) else None


def _differs_in_spelling(near: str, name: str) -> bool:
    """Return whether two names are one but for case, underscores and a plural."""
    plain = [each.lower().replace("_", "").removesuffix("s") for each in (near, name)]
    return plain[0] == plain[1]


def is_surely_ours(dotted: str, scope: Scope) -> bool:
    """Return whether the first part of a name is a package of this repository and of no other.

    A folder without ``__init__.py`` may share its name with something that is installed.
    """
    repository = scope.repository
    if repository.index_for(dotted) is repository.installed:
        return True
    top, *rest = dotted.split(".")
    for root in repository.python.roots:
        folder = f"{root}/{top}" if root else top
        if f"{folder}/__init__.py" in repository.files.paths:
            return True
        inner = f"{folder}/{rest[0]}" if rest else ""
        if inner in repository.files.folders or inner in repository.files.folder_links:
            return True
    return False


def resolve_call(reference: Reference, scope: Scope) -> Verdict:
    """Resolve a call: is there such a thing, and does it take these arguments?"""
    called: Called | Invoked = reference.data
    if isinstance(called, Invoked):
        return resolve_invoked(called, scope)
    if called.dotted.startswith("?."):
        return _bare(called, scope)
    if called.dotted.startswith("?"):
        return _of_variable(called, scope)
    index = scope.repository.index_for(called.dotted)
    found = index.find(called.dotted)
    if found.kind == "third_party":
        return Verdict.unknown("it is not of this repository", "third party not installed")
    if found.kind == "undecided":
        return Verdict.unknown(found.evidence or "the sources leave it open")
    if found.is_missing and called.keyword:
        return Verdict.unknown("the callee is missing, which is already reported")
    if found.is_missing:
        return _missing(reference, called, found, scope)
    if called.call is None:
        return Verdict.holds(found.evidence or f"it is in {found.path}", found.path or "")
    if found.kind == "module" and not called.keyword:
        return _of_module(reference, called, found, scope)
    return bound(called, index.signature(called.dotted), scope)


def _of_module(reference: Reference, called: Called, found: Found, scope: Scope) -> Verdict:
    """Resolve the call of a module: few make themselves something else that can be called."""
    name = called.dotted.rpartition(".")[2]
    block = reference.block.text if reference.block is not None else ""
    if not re.search(rf"\bimport\b.*\b{re.escape(name)}\b", block):
        return Verdict.unknown("another block imports it, and may mean something else")
    if "sys.modules" in (scope.text(found.path or "") or ""):
        return Verdict.unknown(f"{found.path} replaces itself")
    inner = scope.repository.python.find(f"{called.dotted}.{name}")
    now = f"there is {called.dotted}.{name}" if inner.exists else ""
    message = f"{name!r} is a module, and cannot be called"
    evidence = found.evidence or f"it is in {found.path}"
    return Verdict("contradicts", evidence, "symbol-missing", message, now, place=found.path or "")


def _bare(called: Called, scope: Scope) -> Verdict:
    name = called.dotted[2:]
    index = scope.repository.python
    if name in defined_names(scope.document) or not TELLING.fullmatch(name):
        return Verdict.unknown("nothing in the text shows what it is")
    paths = sorted({path for path, _ in index.defined(name)})
    if not paths and called.keyword:
        return Verdict.unknown("the callee is missing, which is already reported")
    if not paths:
        return absent_name(name)
    if len(paths) != 1:
        return Verdict.unknown("several modules have the name")
    found = index.find_in(paths[0], name)
    signature = index.signature_of(found) if found.exists else None
    return bound(called, signature, scope)


def absent_name(name: str, *, is_class: bool = False) -> Verdict:
    """Return the verdict of a bare name that no source defines; other files may hold the word."""
    if is_invented(name):
        return Verdict.unknown("it is a name for others", "placeholder")
    # Words in capitals come in families, `DD_TRACE_...`, and classes may bear the project's name;
    # others may be of any place.
    otherwise: Reason = "never here" if is_class or name.isupper() else "another namespace"
    message, evidence = (
        f"nothing here is called {name!r}",
        "no file of the repository holds the word",
    )
    asked = Asked(name=name, otherwise=otherwise, is_bare=True)
    return Verdict("absent", evidence, "symbol-missing", message, asked=asked)


def _of_variable(called: Called, scope: Scope) -> Verdict:
    """Resolve a method of a variable that is called as a class of the repository is."""
    owner, _, name = called.dotted[1:].partition(".")
    found = of_variable(owner, name, scope)
    if found is None or not found.exists:
        return Verdict.unknown("nothing in the text shows what it is")
    verdict = bound(called, scope.repository.python.signature_of(found), scope)
    return verdict._replace(is_sure=False)


def of_variable(owner: str, name: str, scope: Scope) -> Found | None:
    """Return what a member of a variable is by the one class that has its name, or None."""
    index = scope.repository.python
    places = [each for each in index.classes_called(owner) if not is_test(each[0])]
    if len(places) != 1 or owner in imported_names(scope.document):
        return None
    path, class_name = places[0]
    return index.find_in(path, f"{class_name}.{name}")


def bound(called: Called, signature: Signature | None, scope: Scope) -> Verdict:
    """Return whether a call binds to a signature.

    A keyword on a line of its own is a reference of its own, so that each has its own place.
    """
    assert called.call is not None, "only a call is bound"
    if signature is None:
        return Verdict.unknown("what it takes is not certain")
    place = f"{signature.path}:{signature.line}"
    holds = Verdict.holds(f"{place}: {signature}", signature.path)
    name = called.dotted.rpartition(".")[2]
    first, known = called.call.lineno, signature.names
    is_free = signature.takes_any_keyword
    others = [each.arg for each in called.call.keywords if each.lineno != first]
    if called.keyword:
        if is_free or called.keyword in known:
            return holds
        rule, text = "unknown", f"{signature.name}() has no parameter {called.keyword!r}"
    else:
        problem = bind(signature, called.call)
        if problem is None:
            return holds
        if problem.rule == "missing" and _leaves_out(called):
            return Verdict.unknown("the call leaves arguments out")
        if problem.rule == "unknown" and set(problem.names) <= set(others):
            return Verdict.unknown("each of its arguments is reported separately")
        rule, text = problem.rule, problem.text
    if _takes_more(called, signature, scope):
        return Verdict.unknown("the text writes it out with other parameters", "generated")
    message = f"{name!r} cannot be called like this: {text}"
    return Verdict(
        "contradicts", place, RULES[rule], message, f"it is {signature}", place=signature.path
    )


def _missing(reference: Reference, called: Called, found: Found, scope: Scope) -> Verdict:
    owner, _, last = called.dotted.rpartition(".")
    index = scope.repository.index_for(owner)
    holder = index.find(owner)
    if is_invented(called.dotted.replace(".", "/")):
        return Verdict.unknown("it is a name for others", "placeholder")
    if not holder.exists or called.dotted in imported_names(scope.document).values():
        return Verdict.unknown("what it is taken from is missing, which is reported already")
    parts = 1 if holder.kind == "module" else 2
    if ".".join(called.dotted.split(".")[-parts:]) in written_names(scope.document):
        return Verdict.unknown("the text writes it out", "generated")
    if holder.kind not in ("class", "module") or not is_surely_ours(owner, scope):
        return Verdict.unknown("its owner may hold more than is seen")
    rule = "method-missing" if holder.kind == "class" else "symbol-missing"
    message = f"{owner.rpartition('.')[2]!r} has no {last!r}"
    return missing_name(found, rule, message, reference.text)


def _takes_more(called: Called, signature: Signature, scope: Scope) -> bool:
    """Return whether the text writes out what is called, and lets it take more than it does now."""
    *owner, name = called.dotted.split(".")[-2:]
    written = written_names(scope.document)
    taken = written.get(".".join([*owner, name]), written.get(name, frozenset[str]()))
    return not taken <= {each.name for each in (*signature.parameters, signature.receiver) if each}


def _leaves_out(called: Called) -> bool:
    """Return whether a call shows that it is not complete: by an ellipsis, or by nothing at all.

    Empty parentheses are meant where the block around them is whole, and shows no more of them.
    """
    assert called.call is not None, "only a call is asked"
    values = [*called.call.args, *(each.value for each in called.call.keywords)]
    if not values:
        return not called.is_whole
    return any(isinstance(each, ast.Constant) and each.value is Ellipsis for each in values)
