"""What a name in inline code means, and whether the call or the file that is given with it fits."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from scaffold.analysis.files.history import is_test
from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.near_names import NearNames
from scaffold.analysis.python.fragments import without_prose
from scaffold.analysis.python.lookup_result import Found
from scaffold.analysis.python.signatures import Signature
from scaffold.analysis.typescript import parse
from scaffold.skills.check.read.markdown import Block
from scaffold.skills.check.reference import Asked, Reference, Verdict
from scaffold.skills.check.references.code import TELLING, read_calls
from scaffold.skills.check.references.named import Symbol
from scaffold.skills.check.references.placeholders import is_invented
from scaffold.skills.check.references.python import (
    defined_names,
    imported_names,
    written_names,
)
from scaffold.skills.check.resolve.calls import (
    absent_name,
    is_surely_ours,
    missing_name,
    of_variable,
)
from scaffold.skills.check.resolve.go import resolve_go
from scaffold.skills.check.resolve.paths import missing
from scaffold.skills.check.resolve.scope import Scope
from scaffold.skills.check.resolve.typescript import resolve_written

_CLASSES = lazy_re(r"^class (\w+)", re.MULTILINE)
_MANY = 8
"""A name that so many modules define is not known by the name alone."""
_SEVERAL = 2
"""So many names in parentheses that are parameters make a list of parameters of it."""
_CLASS = lazy_re(r"_*[A-Z][A-Za-z0-9]*[a-z0-9]+(?:[A-Z][A-Za-z0-9]*)+")


def resolve_name(reference: Reference, scope: Scope) -> Verdict:
    """Resolve a name: does it exist, in the file it is said to be in, and does its call fit?"""
    symbol: Symbol = reference.data
    if symbol.file and (verdict := _in_file(symbol, scope)):
        return verdict
    found = _find(symbol.name, scope)
    if found is None:
        return _bare(symbol, reference.block, scope)
    if found.kind == "third_party":
        return Verdict.unknown("it is not of this repository", "third party not installed")
    if found.exists:
        return _call(reference, symbol, found, scope)
    if not found.is_missing:
        return Verdict.unknown(found.evidence or "the sources leave it open")
    if symbol.name.rpartition(".")[2] in written_names(scope.document):
        return Verdict.unknown("the text writes it out", "generated")
    return _missing(symbol, found, scope)


def resolve_node(reference: Reference, scope: Scope) -> Verdict:
    """Resolve ``tests/test_x.py::Class::test``: the file, and what is defined in it."""
    path, *parts = str(reference.data).removeprefix("./").split("::")
    return test_node(path, parts, reference.text, scope)


def test_node(path: str, parts: list[str], text: str, scope: Scope) -> Verdict:
    """Return whether a test file has what is named behind ``::``."""
    if is_invented(path):
        return Verdict.unknown("the path is for others", "placeholder")
    place = scope.locate(path)
    if place is None:
        return missing(path, "test-missing", scope)
    names = [each.partition("[")[0] for each in parts if each]
    if not names or not place.endswith(".py") or any(is_invented(each) for each in names):
        return Verdict.holds(f"git lists {place}", place)
    found = scope.repository.python.find_in(place, ".".join(names))
    if found.exists:
        return Verdict.holds(found.evidence, place)
    if not found.is_missing:
        return Verdict.unknown(found.evidence or "it may be made while it runs")
    message = f"{text!r} names a test that does not exist"
    verdict = missing_name(found, "test-missing", message, "", otherwise="never here")
    return verdict._replace(place=place)


def _in_file(symbol: Symbol, scope: Scope) -> Verdict | None:
    """Return the verdict of a name that is given with its file, by the words of the file."""
    place = scope.only(symbol.file)
    if not place or (text := scope.text(place)) is None:
        return None
    last = symbol.name.rpartition(".")[2]
    if re.search(rf"(?<!\w){re.escape(last)}(?!\w)", text):
        holds = Verdict.holds(f"{place} holds {last}", place)
        return None if symbol.call.strip("()") else _only_said(symbol, place, text, scope) or holds
    if not TELLING.fullmatch(last) or is_invented(last):
        return Verdict.unknown(f"{place} does not hold {last}")
    if last in written_names(scope.document) or last in defined_names(scope.document):
        return Verdict.unknown("the text writes it out", "generated")
    message = f"{symbol.name!r} is not in {symbol.file}"
    evidence = f"the word {last!r} does not occur in {place}"
    homes = sorted({path for path, _ in scope.repository.python.defined(last)})
    if "import *" in text or "__getattr__" in text or "setattr(" in text:
        return Verdict.unknown(f"{place} may take {last} from elsewhere")
    if len(homes) == 1:
        now = f"{homes[0]} defines it"
        return Verdict("moved", evidence, "symbol-missing", message, now, place=place)
    otherwise = "never here" if not homes else "open"
    asked = Asked(name=last, otherwise=otherwise, is_bare=True)
    return Verdict("absent", evidence, "symbol-missing", message, asked=asked, place=place)


def _only_said(symbol: Symbol, place: str, text: str, scope: Scope) -> Verdict | None:
    """Return the verdict of a variable that only comments and docstrings of its file name.

    It is that of the one other source whose code has it as a text, as what is read from the
    environment has.
    """
    name = symbol.name
    if not (name.isupper() and TELLING.fullmatch(name) and place.endswith(".py")):
        return None
    if re.search(rf"(?<!\w){name}(?!\w)", without_prose(text)):
        return None
    word, given = name.encode(), re.compile(rf"[\"']{name}[\"']")
    files = scope.files
    holding = (path for path in files.python if word in (files.data(path) or b""))
    homes = [path for path in holding if given.search(without_prose(scope.text(path) or ""))]
    if len(homes := [each for each in homes if not is_test(each)]) != 1:
        return None
    evidence = f"only comments and docstrings of {place} name {name}"
    message, now = f"{name!r} is not in the code of {symbol.file}", f"{homes[0]} has it"
    return Verdict("moved", evidence, "symbol-missing", message, now, place=place)


def _bare(symbol: Symbol, block: Block | None, scope: Scope) -> Verdict:
    """Resolve a name that means no one thing: it holds where anything is defined by it."""
    name = symbol.name.removeprefix("self.")
    if name in defined_names(scope.document) or name in written_names(scope.document):
        return Verdict.holds("a block of the text binds it")
    places = () if "." in name else scope.repository.python.defined(name)
    if places:
        path, line = places[0]
        evidence = f"{path}:{line} defines it" + (", and others" if places[1:] else "")
        return _bare_call(symbol, places, evidence, scope)
    if (found := resolve_go(name, block, scope)) is not None:
        return found
    if symbol.call.strip("()") and (found := _of_typescript(symbol, scope)) is not None:
        return found
    if _is_builtin(name, scope):
        return Verdict.holds("Python brings it")
    last = name.rpartition(".")[2]
    if not TELLING.fullmatch(last):
        # `OldLoop.run`: the class is the word that nobody writes by chance.
        last = next((each for each in name.split(".") if _CLASS.fullmatch(each)), last)
    if not TELLING.fullmatch(last) or is_invented(name.replace(".", "/")):
        return Verdict.unknown("nothing in this repository goes by this name", "another namespace")
    return absent_name(last, is_class=_CLASS.fullmatch(last) is not None)


def _of_typescript(symbol: Symbol, scope: Scope) -> Verdict | None:
    """Return whether a function of TypeScript has the parameters that are behind its name."""
    if not any(each.endswith((".ts", ".tsx")) for each in scope.files.paths):
        return None
    written = [each for _, each in read_calls(parse(f"{symbol.name}{symbol.call}"))]
    if not written or written[0].arguments is None:
        return None
    return resolve_written(written[0], scope)


def _bare_call(
    symbol: Symbol, places: tuple[tuple[str, int], ...], evidence: str, scope: Scope
) -> Verdict:
    paths = sorted({path for path, _ in places})
    name = symbol.name.removeprefix("self.")
    if symbol.call.strip("()") and len(places) == 1 and TELLING.fullmatch(name):
        signature = _only_signature(name, paths[0], scope)
        if signature is not None and (verdict := _compared(symbol, signature)):
            return verdict
    return Verdict.holds(evidence, paths[0])


def _only_signature(name: str, path: str, scope: Scope) -> Signature | None:
    """Return what the one function or method takes that a file defines by a name."""
    index = scope.repository.python
    owners = ["", *(f"{each}." for each in _CLASSES.findall(scope.text(path) or ""))]
    found = (index.find_in(path, f"{owner}{name}") for owner in owners)
    there = next((each for each in found if each.exists), None)
    return index.signature_of(there) if there is not None else None


def _is_builtin(name: str, scope: Scope) -> bool:
    """Return whether a name is Python's own: `ValueError`, `str.lower`."""
    first, *rest = name.split(".")
    if first.startswith("_") or first in imported_names(scope.document):
        return False
    found = getattr(builtins, first, None)
    for each in rest:
        found = getattr(found, each, None)
    return found is not None


def _missing(symbol: Symbol, found: Found, scope: Scope) -> Verdict:
    owner, _, last = symbol.name.rpartition(".")
    is_member = owner.rpartition(".")[2][:1].isupper()
    if not is_member and not _is_of_code(symbol, scope):
        return Verdict.unknown("it may be a variable, a key or a column of the same name")
    if not is_member and not is_surely_ours(found.name, scope):
        return Verdict.unknown("its first part may also be a package", "another namespace")
    if is_invented(symbol.name.replace(".", "/")) or last == "X":
        return Verdict.unknown("it is a name for others", "placeholder")
    rule = "method-missing" if is_member else "symbol-missing"
    message = f"{owner!r} has no {last!r}" if owner else f"there is no {last!r}"
    return missing_name(found, rule, message, symbol.name)


def _is_of_code(symbol: Symbol, scope: Scope) -> bool:
    """Return whether a dotted name that leads nowhere can be nothing but Python.

    `app.name` is said of an object, `orders.id` of a column; `app.engine.fuse`, `app.LIMIT` and
    what the document imports are said of the package.
    """
    first, *rest = symbol.name.split(".")
    if first in imported_names(scope.document) or first in scope.aliases:
        return True
    if not rest or not rest[0].islower():
        return True
    return len(rest) > 1 and scope.repository.index_for(first).find(f"{first}.{rest[0]}").exists


def _find(name: str, scope: Scope) -> Found | None:
    """Return what a name means: by itself, by what the document imports, or by its first part."""
    first, _, rest = name.partition(".")
    if first in defined_names(scope.document):
        return None
    repository = scope.repository
    meaning = imported_names(scope.document).get(first) or scope.aliases.get(first)
    if meaning is not None:
        found = repository.index_for(meaning).find(f"{meaning}.{rest}" if rest else meaning)
        return found if found.kind != "third_party" else None
    if rest:
        found = repository.index_for(name).find(name)
        if found.kind != "third_party" and (found.exists or not first[:1].isupper()):
            return found
    if rest and first.islower() and (found := of_variable(first, rest, scope)):
        return found if found.exists else None
    return _by_definition(first, rest, scope)


def _by_definition(first: str, rest: str, scope: Scope) -> Found | None:
    """Return what `Class.method` or `Class` means, wherever it is defined."""
    index = scope.repository.python
    places = sorted({path for path, _ in index.defined(first)})
    if not places or len(places) > _MANY:
        return None
    answers = [index.find_in(path, f"{first}.{rest}" if rest else first) for path in places]
    there = [each for each in answers if each.exists]
    if there or not rest:
        return there[0] if there else None
    if not first[:1].isupper():
        return None  # a variable may have the name of a function
    # Tests and stand-ins define a class again; only where all agree is a member missing. One that
    # lies inside of another, as `Meta` does, is not found by its name alone.
    is_outer = all(index.find_in(path, first).exists for path in places)
    return answers[0] if is_outer and all(each.is_missing for each in answers) else None


def _call(reference: Reference, symbol: Symbol, found: Found, scope: Scope) -> Verdict:
    evidence = found.evidence or f"it is in {found.path}"
    holds = Verdict.holds(evidence, found.path or "")
    if not symbol.call[1:-1].strip() or found.path is None:
        return holds
    index = scope.repository.index_for(found.name)
    signature = index.signature_of(found)
    told = _compared(symbol, signature) if signature is not None else None
    if told is None or "." in symbol.name:
        return told or holds
    # A bare name may be that of another definition, which takes it so.
    others = (index.find_in(path, symbol.name) for path, _ in index.defined(symbol.name))
    given = (index.signature_of(each) for each in others if each.exists)
    is_taken = any(each is None or _compared(symbol, each) is None for each in given)
    return holds if is_taken else told


class _Written(NamedTuple):
    """What is in the parentheses behind a name.

    Args:
        positional: The plain names given by position; None for anything else.
        keywords: The names given by keyword.
        is_definition: Whether it has annotations, as a signature has and a call has not.
    """

    positional: list[str | None]
    keywords: list[str]
    is_definition: bool


def _written(call: str) -> _Written | None:
    """Return the names in a call or a signature; None where it leaves something out."""
    if "..." in call or "…" in call or re.search(r"<[\w -]+>", call):
        return None
    try:
        tree = ast.parse(f"_{call}", mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _of_definition(call)
    if not isinstance(tree.body, ast.Call):
        return None
    node = tree.body
    if any(isinstance(each, ast.Starred) for each in node.args):
        return None
    positional = [each.id if isinstance(each, ast.Name) else None for each in node.args]
    positional = positional[positional[:1] in (["self"], ["cls"]) :]
    keywords = [each.arg for each in node.keywords if each.arg is not None]
    return _Written(positional, keywords, False)


def _of_definition(call: str) -> _Written | None:
    head, arrow, result = call.partition("->")
    try:
        body = ast.parse(f"def _{head.strip()}{arrow}{result}: ...").body[0]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    assert isinstance(body, ast.FunctionDef), "it is a def"
    args = body.args
    names: list[str | None] = [each.arg for each in (*args.posonlyargs, *args.args)]
    names = [name for name in names if name not in ("self", "cls")]
    return _Written(names, [each.arg for each in args.kwonlyargs], True)


def _compared(symbol: Symbol, signature: Signature) -> Verdict | None:
    """Return what is wrong with a call or a signature of inline code, or None."""
    written = _written(symbol.call)
    if written is None:
        return None
    own = [each.name for each in signature.parameters if not each.kind.startswith("var_")]
    unknown = [name for name in written.keywords if name not in own]
    given = [name for name in written.positional if name]
    # So many are its own that the rest can be nothing but parameters, too.
    is_list = len(given) == len(written.positional) and _is_list_of(given, own)
    if written.is_definition or is_list:
        # A type may stand for the argument that has it, and a constant is what is given.
        unknown += [
            name
            for name in given
            if name not in own and not hasattr(builtins, name) and not name.isupper()
        ]
    where = f"{signature.path}:{signature.line}: {signature}"
    if unknown and not signature.takes_any_keyword:
        message = f"{signature.name!r} has no parameter {unknown[0]!r}"
        now = f"its parameters are {', '.join(own) or 'none'}"
        return Verdict("contradicts", where, "parameter-unknown", message, now)
    slots = signature.slots
    listed = [name for name in written.positional if name is not None]
    is_variadic = signature.takes_any_place
    # A word of one part may be that of any object, and what can be given at all is a list of it.
    is_given = TELLING.fullmatch(signature.name) and bool(listed) and not set(listed) <= set(own)
    if len(written.positional) > len(slots) and not is_variadic and is_given:
        message = f"{signature.name!r} cannot be given {len(written.positional)} arguments"
        now = f"it takes {', '.join(slots) or 'none'} by position"
        return Verdict("contradicts", where, "argument-surplus", message, now)
    if listed and len(listed) == len(written.positional) and all(name in slots for name in listed):
        order = [slots.index(name) for name in listed]
        if order != sorted(order):
            message = f"the parameters of {signature.name!r} are in another order"
            now = f"the order is {', '.join(slots)}"
            return Verdict("contradicts", where, "parameter-order", message, now)
    return None


def _is_list_of(given: Sequence[str], own: Collection[str]) -> bool:
    known = sum(name in own for name in given)
    return known >= _SEVERAL and 2 * known >= len(given)


def resolve_value(reference: Reference, scope: Scope) -> Verdict:
    """Resolve a dotted name that is a value of a block of data: that of a module of this place."""
    symbol: Symbol = reference.data
    found = scope.repository.python.find(symbol.name)
    if found.exists:
        return Verdict.holds(found.evidence or f"it is in {found.path}", found.path or "")
    if not found.is_missing or not is_surely_ours(symbol.name, scope):
        return Verdict.unknown("it is not of this repository", "third party not installed")
    return _missing(symbol, found, scope)


def resolve_word(reference: Reference, scope: Scope) -> Verdict:
    """Resolve a word of code: examples hold any, so only what was here once is told."""
    return absent_name(str(reference.data))


def resolve_label(reference: Reference, scope: Scope) -> Verdict:
    """Resolve `run-nightly-tests`: a word that no file holds, and that nearly is a key of one."""
    label = str(reference.data)
    repository = scope.repository
    if label in repository.labels.names or scope.ending_in(label):
        return Verdict.holds("a file has it")
    near = repository.labels.near.of(label)
    # What begins with the project's own name may be of anything that the project offers.
    own = {each.name for each in repository.programs.projects.all}
    if not near or near in own:
        return Verdict.unknown("it may be a word of any place", "another namespace")
    message, now = f"nothing here is called {label!r}", f"there is {near}"
    evidence = f"no file of the repository holds it, and {repository.labels.names[near]} has {near}"
    asked = Asked(otherwise="never here", file=label)
    return Verdict("absent", evidence, "symbol-missing", message, now, asked=asked)


def resolve_skill(reference: Reference, scope: Scope) -> Verdict:
    """Resolve ``/name``: a skill, a command or a subagent of this repository, or nearly one."""
    name, repository = str(reference.data), scope.repository
    if name in repository.guide_names:
        return Verdict.holds(f"there is a skill, a command or an agent {name}")
    near = NearNames(repository.guide_names).of(name)
    if not near:
        return Verdict.unknown("a client or a plugin may bring it", "another namespace")
    message = f"nothing here is called {name!r}"
    evidence = f"the skills, commands and agents have {near}"
    verdict = Verdict.wrong(evidence, "skill-unknown", message, name, near)
    return verdict._replace(reason="moved")
