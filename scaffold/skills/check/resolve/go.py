"""Whether the package that Go code names has what it takes from it."""

from __future__ import annotations

import re

from scaffold.analysis.go import binds, read_imports
from scaffold.analysis.lazy_re import lazy_re
from scaffold.skills.check.read.markdown import Block
from scaffold.skills.check.reference import Asked, Verdict
from scaffold.skills.check.resolve.scope import Scope

_FUNCTION = lazy_re(r"^func\b", re.MULTILINE)


def resolve_go(name: str, block: Block | None, scope: Scope) -> Verdict | None:
    """Resolve `package.Name` by the one package of that name; None where there is no such one.

    Args:
        name: The dotted name.
        block: The code it is in, or None where a sentence names it.
        scope: The document in its repository.
    """
    package, _, rest = name.partition(".")
    last = rest.partition(".")[0]
    if not last[:1].isupper() or not package.islower():
        return None
    go = scope.repository.go
    packages = go.packages(package)
    if len(packages) != 1:
        return None
    home, paths = next(iter(packages.items()))
    word = re.compile(rf"(?<!\w){last}(?!\w)")
    written = re.compile(rf"(?<![\w.]){package}\.{last}(?!\w)")
    for path in paths:
        if word.search(scope.text(path) or ""):
            return Verdict.holds(f"{path} holds {last}", path)
    code = block.text if block is not None else ""
    given = [each for each in read_imports(code) if each.may_be(package)]
    if binds(code, package) or not all(each.is_of(home) for each in given):
        return Verdict.unknown(f"the example has another {package}", "another namespace")
    # What a whole function does not bind is a package.
    may_be_variable = not _FUNCTION.search(code) and go.binds(package)
    is_unsure = not given and (may_be_variable or go.imports_other(package, home))
    if is_unsure and any(written.search(text) for text in go.texts.values()):
        return Verdict.unknown(f"{package} is also a variable or another package")
    message = f"the package {package} has no {last!r}"
    evidence = f"no file of {home} holds the word {last!r}"
    asked = Asked(name=last, otherwise="open" if is_unsure else "never here", home=home)
    return Verdict("absent", evidence, "symbol-missing", message, asked=asked, place=home)
