"""All uses of a package in a tree, and ``scaffold deps catalog``, which lists them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from scaffold.analysis.files.files import Files, list_files
from scaffold.deps.import_names import Names, names_of
from scaffold.deps.python_uses import uses_in
from scaffold.deps.source_code import Tree
from scaffold.deps.use import KINDS, Use
from scaffold.errors import TargetError
from scaffold.report import Report

# Steps of import from a source that names the package to one that uses classes derived from it.
_MOST_ROUNDS = 4
_ORDER = {kind: number for number, kind in enumerate(KINDS)}
# JSON is data as often as not, and what other tools write names everything.
_CONFIGURES = re.compile(r"(?<!lock)\.(toml|cfg|ini|ya?ml)$")
_FILES = frozenset({"py", "toml", "cfg", "txt", "json", "yaml", "yml", "md", "rst", "com", "org"})
_LONGEST_LINE = 2_000


@dataclass
class Collected:
    """Every use in a tree.

    Args:
        uses: The uses, sorted by file and line.
        attributes: The attributes of what is not known, in sources that take the package in; those
            that are asked for with a fallback have no node.
    """

    tree: Tree
    uses: list[Use] = field(default_factory=list[Use])
    attributes: list[Use] = field(default_factory=list[Use])
    unread: list[str] = field(default_factory=list[str])


def collect(files: Files, names: Names) -> Collected:
    """Collect the uses of a package.

    Sources that never name the package are read too where they import classes of the tree that
    derive from it.
    """
    tree = Tree(files, names.imports)
    found = Collected(tree)
    tops = "|".join(sorted({re.escape(each.partition(".")[0]) for each in names.imports}))
    pattern = re.compile(rf"\b(?:{tops})\b".encode())
    pending = {path for path in files.python if pattern.search(files.data(path) or b"")}
    read: set[str] = set()
    # Each round follows one more step of import from the sources that use the package.
    for _ in range(_MOST_ROUNDS):
        bearing = [path for path in sorted(pending) if _read(path, found)]
        read |= pending
        plain = (re.sub(r"(/__init__)?\.pyi?$", "", path) for path in bearing)
        stems = {path.rpartition("/")[2] for path in plain} - {""}
        if not stems:
            break
        words = "|".join(sorted(re.escape(each) for each in stems))
        importing = re.compile(rf"(?:import|from)\b[^\n]*\b(?:{words})\b".encode())
        pending = {path for path in files.python if importing.search(files.data(path) or b"")}
        pending -= read
    found.uses += _text_uses(files, names.imports)
    # One line can be found by several readers; the set has no order of its own.
    unique = sorted(
        set(found.uses), key=lambda it: (it.path, it.line, _ORDER[it.kind], it.name, it.detail)
    )
    found.uses = [each for each in unique if each.kind != "attribute"]
    found.attributes = [each for each in unique if each.kind == "attribute"]
    return found


def require_unpinned(files: Files, names: Names) -> None:
    """Raise where a tree pins a package of which no use was found: that is no all-clear."""
    from scaffold.deps.pins import find_pins  # a list of uses does without packaging

    pins = find_pins(files, names.distribution)
    if pins:
        imports = ", ".join(names.imports)
        raise TargetError(
            f"{pins[0].path}:{pins[0].line} pins {names.distribution}, and nothing imports "
            f"{imports} (names by {names.source})",
            code="uses_missing",
            hint="give its import names in [tool.scaffold.deps.imports] of pyproject.toml; what "
            "another package uses is audited in that one, and command lines are not",
        )


def _read(path: str, found: Collected) -> bool:
    """Add the uses of one source; return whether others may take the package from it."""
    code = found.tree.code(path)
    if code is None:
        found.unread.append(path)
        return False
    uses = uses_in(code, found.tree)
    found.uses += uses
    uses = [each for each in uses if each.kind != "attribute"]
    # A source that binds no name of its own has nothing that others could import.
    return bool(uses) and any(not name.startswith("__") for name in code.module.names)


def _text_uses(files: Files, imports: Iterable[str]) -> list[Use]:
    """Return the places where a configuration names something of the package."""
    names = "|".join(sorted(re.escape(each) for each in imports))
    pattern = re.compile(
        rf"(?:^|[\s\"'=:,\[(])((?:{names})(?:\.[A-Za-z_]\w*)+(?::[A-Za-z_][\w.]*)?"
        rf"|(?:{names}):[A-Za-z_][\w.]*)(?=$|[\s\"',\])#])"
    )
    found: list[Use] = []
    for path in sorted(files.paths):
        if _CONFIGURES.search(path):
            found += _in_file(path, files.text(path) or "", pattern)
    return found


def _in_file(path: str, text: str, pattern: re.Pattern[str]) -> Iterator[Use]:
    for number, row in enumerate(text.splitlines(), 1):
        # Headers of tables name tools, and very long lines are data.
        if len(row) > _LONGEST_LINE or row.lstrip().startswith(("#", "[")):
            continue
        for each in pattern.finditer(row):
            parts = tuple(each[1].replace(":", ".").split("."))
            # "package.py" or "package.com" is a file or a host, not a dotted name.
            if parts[-1] not in _FILES:
                yield Use("string", parts, path, number, row.strip()[:110])


def catalog(root: Path, package: str) -> Report:
    """List the uses of a package in a tree, from its text alone.

    Raises:
        ScaffoldError: The name is none of a distribution, or the configured names are wrong.
        TargetError: A manifest pins the package, and nothing in the tree is seen to use it.
    """
    files = list_files(root)
    names = names_of(files, package)
    found = collect(files, names)
    uses = found.uses
    if not uses:
        require_unpinned(files, names)
    report = Report("deps catalog")
    report.warnings = tuple(f"{path} does not parse and is left out" for path in found.unread)
    report.text = page(names, uses)
    counts = Counter(each.kind for each in uses)
    told = {
        "package": names.distribution,
        "imports": list(names.imports),
        "named_by": names.source,
        "uses": [each.to_json() for each in uses],
        "counts": {kind: counts[kind] for kind in KINDS if counts[kind]},
        "unread": found.unread,
    }
    report.extra = {"deps": told}
    return report


def page(names: Names, uses: list[Use]) -> str:
    files = len({each.path for each in uses})
    imports = ", ".join(f"`{each}`" for each in names.imports)
    one, many = ("use" if len(uses) == 1 else "uses"), ("file" if files == 1 else "files")
    counted = f"{len(uses)} {one} in {files} {many}"
    rows = [f"# Uses of {names.distribution}", ""]
    rows += [f"{counted}, imported as {imports} (by {names.source})."]
    for kind, heading in KINDS.items():
        chosen = [each for each in uses if each.kind == kind]
        rows += ["", f"## {heading}", ""] if chosen else []
        for use in chosen:
            through = f" through `{use.local}`" if use.local else ""
            detail = f": `{use.detail.replace('`', chr(39))}`" if use.detail else ""
            guard = f" ({use.guard.text})" if use.guard else ""
            rows.append(f"- [ ] {use.path}:{use.line} `{use.name}`{through}{detail}{guard}")
    return "\n".join(rows) + "\n"
