"""All uses of a package in a tree: in its Python, and by name in its configuration."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from scaffold.analysis.files.files import Files
from scaffold.deps.import_names import Names
from scaffold.deps.python_uses import uses_in
from scaffold.deps.source_code import Tree
from scaffold.deps.use import KINDS, Use
from scaffold.errors import TargetError

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
        unread: The Python sources that do not parse.
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
        stems = {_stem(path) for path in bearing} - {""}
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


def _stem(path: str) -> str:
    stem = path.removesuffix(".py").removesuffix(".pyi").removesuffix("/__init__")
    return stem.rpartition("/")[2]


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
