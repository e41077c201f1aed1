"""Whether TypeScript has the members, the parameters and the exports that a text shows of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from difflib import get_close_matches

from scaffold.analysis.typescript import Declaration, Member, Parameter, Signature
from scaffold.skills.check.reference import Asked, Verdict
from scaffold.skills.check.references.code import TELLING, Invoked, ShownType, Taken
from scaffold.skills.check.references.placeholders import is_invented
from scaffold.skills.check.resolve.scope import Scope

Having = Sequence[tuple[str, Member]]
"""Members by the sources that have them."""
Problem = tuple[str, str]
"""A rule with what is wrong, as the end of a sentence that begins with the name."""
_NEAR = 0.8


def resolve_type(shown: ShownType, scope: Scope) -> Verdict:
    """Resolve a member of a type of TypeScript by the one declaration that has its name."""
    every = scope.repository.typescript.declared.get(shown.owner, [])
    # Of several, as of versions of a format, the one whose source the page names is meant.
    declared = [each for each in every if _ending(each[0]) in scope.document.text] or every
    alike = [(path, each) for path, each in declared if _is_alike(shown, each.members)]
    if not alike:
        return Verdict.unknown("it may be a type of another kind")
    if having := _having(shown.name, alike):
        return _of_member(shown, having)
    if not all(each.is_whole for _, each in alike):
        return Verdict.unknown(f"{alike[0][0]} declares it with members of another type")
    path, there = alike[0]
    message = f"{shown.owner!r} has no {shown.name!r}"
    evidence = f"{path} declares it with {', '.join(there.members)}"
    return Verdict("contradicts", evidence, "method-missing", message, is_sure=False, place=path)


def _is_alike(shown: ShownType, members: Collection[str]) -> bool:
    held = sum(each in members for each in shown.every)
    return held >= 2 and 2 * held >= len(shown.every)


def _of_member(shown: ShownType, having: Having) -> Verdict:
    """Return whether a method that a block writes out takes what the code's takes."""
    path, member = having[0]
    written = [each for each in shown.member.signatures if not any(row.is_rest for row in each)]
    if len(written) != 1 or not all(each.signatures for _, each in having):
        return Verdict.holds(f"{path}:{member.line} declares it", path)
    names = tuple(each.name for each in written[0])
    called = Invoked(shown.owner, shown.name, names, is_new=False)
    return _fitting(shown.name, having, lambda each: _differs(each, names) or _unfit(called, each))


def resolve_invoked(called: Invoked, scope: Scope) -> Verdict:
    """Resolve a call of TypeScript by all that its name can mean here: does one of them take it?"""
    code = _callees(called, scope)
    if not code:
        return Verdict.unknown("nothing in the text shows what it is")
    if called.arguments is None or not all(member.signatures for _, member in code):
        return Verdict.unknown("what it is given, or what it takes, is not written out")
    if not called.owner and scope.repository.typescript.is_global(called.name):
        return Verdict.unknown("the sources call another one by this name", "another namespace")
    return _fitting(called.name, code, lambda each: _unfit(called, each))


def resolve_written(called: Invoked, scope: Scope) -> Verdict | None:
    """Resolve what a sentence writes out of a function of TypeScript; None where it is none."""
    code = _callees(called, scope)
    if not code and TELLING.fullmatch(called.name):
        typescript = scope.repository.typescript
        code = [
            *typescript.functions.get(called.name, ()),
            *typescript.methods.get(called.name, ()),
        ]
    if not code or not all(member.signatures for _, member in code):
        return None
    shown = called.arguments or ()
    return _fitting(called.name, code, lambda each: _differs(each, shown))


def _callees(called: Invoked, scope: Scope) -> list[tuple[str, Member]]:
    """Return what is called: the members of all types by the name of what has it, or functions.

    Only names of several parts mean one thing: `client.get` may be of any package.
    """
    typescript = scope.repository.typescript
    kind = called.owner.lstrip("_#$") or called.name
    if not TELLING.fullmatch(kind) or (called.owner and called.is_new):
        return []
    if not called.owner and not called.is_new:
        found = typescript.functions.get(called.name, ())
        # A method may have been taken out of its object.
        return [*found, *typescript.methods.get(called.name, ())] if found else []
    types = typescript.declared.get(kind[:1].upper() + kind[1:], [])
    having = _having(called.name if called.owner else "constructor", types)
    # A class without a constructor has that of another one.
    return having if called.owner or len(having) == len(types) else []


def _having(name: str, types: Sequence[tuple[str, Declaration]]) -> list[tuple[str, Member]]:
    return [(path, each.members[name]) for path, each in types if name in each.members]


def _fitting(name: str, code: Having, problem: Callable[[Signature], Problem | None]) -> Verdict:
    """Return whether one signature of what the code has is without a problem."""
    path, member = code[0]
    told = [problem(each) for _, member in code for each in member.signatures]
    if None in told:
        return Verdict.holds(f"{path}:{member.line} declares it", path)
    assert told[0] is not None, "one of them has no problem"
    rule, text = told[0]
    shown = ", ".join(map(_shown, member.signatures[0]))
    evidence = f"{path}:{member.line}: {name}({shown})"
    now = f"it takes {shown or 'nothing'}"
    return Verdict(
        "contradicts", evidence, rule, f"{name!r} {text}", now, is_sure=False, place=path
    )


def _shown(parameter: Parameter) -> str:
    mark = "" if parameter.is_needed or parameter.is_rest else "?"
    return f"{'...' * parameter.is_rest}{parameter.name or '{}'}{mark}"


def _unfit(called: Invoked, signature: Signature) -> Problem | None:
    """Return why a call cannot give what it gives."""
    count = len(called.arguments or ())
    needed = [each for each in signature if each.is_needed]
    if count < len(needed):
        return "argument-missing", f"needs {needed[count].name or 'another argument'!r}, too"
    if count > len(signature) and not any(each.is_rest for each in signature):
        return "argument-surplus", f"cannot be given {count} arguments"
    return None


def _differs(signature: Signature, shown: Sequence[str]) -> Problem | None:
    """Return why a list of parameters is not that of a signature, which it may cut short."""
    own = [each.name for each in signature]
    is_open = "" in own or any(each.is_rest for each in signature)
    known = [each for each in shown if each and each in own]
    if moved := [each for each in known if own.index(each) != shown.index(each)]:
        return "parameter-order", f"has {moved[0]!r} at another place"
    if not is_open and len(known) > 1 and 2 * len(known) >= len(shown) and "" not in shown:
        # What is nearly one of them is that one, as any name can be given.
        others = (each for each in shown if not get_close_matches(each, own, 1, _NEAR))
        unknown = next(others, None)
        return ("parameter-unknown", f"has no parameter {unknown!r}") if unknown else None
    return None


def _ending(path: str) -> str:
    return "/".join(path.split("/")[-2:])


def resolve_taken(taken: Taken, scope: Scope) -> Verdict:
    """Resolve a name that a block of TypeScript takes from a file: does the file hold the word?

    An example is of a file that is yet to be, so its path is known by its end alone.
    """
    found = [each for end in taken.ends for each in scope.ending_in(end)]
    bases = [f"{each}/" if each else "" for each in scope.wider_bases]
    groups = ([each for each in found if each.startswith(base)] for base in bases)
    near = next(filter(None, groups), found)
    text = scope.text(near[0]) if len(near) == 1 else None
    if text is None:
        return Verdict.unknown("no one source here is meant by this path")
    if re.search(rf"(?<![\w$]){re.escape(taken.name)}(?![\w$])", text):
        return Verdict.holds(f"{near[0]} holds {taken.name}", near[0])
    if "export *" in text or "module.exports" in text or is_invented(taken.name):
        return Verdict.unknown(f"{near[0]} may take it from elsewhere, or it is a name for others")
    message = f"{near[0]} has no {taken.name!r}"
    evidence = f"the word {taken.name!r} does not occur in {near[0]}"
    asked = Asked(name=taken.name, otherwise="contradicts")
    return Verdict("absent", evidence, "import-name-missing", message, asked=asked, place=near[0])
