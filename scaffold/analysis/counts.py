"""How many there are: entries of a literal collection, members of an enum, files of a folder.

Only what is there literally is counted; a collection that anything may add to has no number.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from scaffold.analysis.files.files import Files
from scaffold.analysis.python.families import enum_values
from scaffold.analysis.python.statements import all_nodes
from scaffold.analysis.repository import Repository
from scaffold.syntax import parse

_BUILDERS = frozenset(
    {"frozenset", "set", "tuple", "list", "dict", "MappingProxyType", "OrderedDict", "sorted"}
)
# What lies in a folder and is seldom meant by "its files".
ASIDE = frozenset(
    {"__init__.py", "README.md", "readme.md", "index.md", "index.ts", "index.js", "AGENTS.md"}
    | {"CLAUDE.md", "conftest.py", "py.typed", "mod.rs"}
)


class Counted(NamedTuple):
    """The numbers that each way of counting gives, and what was counted.

    Args:
        numbers: All of them, the plainest first.
        place: What was counted.
    """

    numbers: tuple[int, ...]
    place: str


def count_collection(name: str, file: str | None, repository: Repository) -> Counted | None:
    """Count a literal collection or an enum of Python.

    Args:
        name: The variable or class.
        file: Its source, relative to the root; None where the text names none.
        repository: The repository.

    Returns:
        The number; None where there is no such name, several, or one that is not literal.
    """
    paths = [file] if file else sorted({path for path, _ in repository.python.defined(name)})
    found: list[tuple[int, str, int]] = []
    for path in paths:
        tree = _tree(repository.files.text(path) or "")
        nodes = list(_bindings(tree, name)) if tree else []
        # Two bindings of a name, such as the branches of a condition, have no one number.
        if len(nodes) != 1:
            return None
        number = _size(nodes[0])
        if number is None:
            return None
        found.append((number, path, nodes[0].lineno))
    if not found or len({number for number, _, _ in found}) > 1 or _grows(name, repository.files):
        return None
    number, path, line = found[0]
    return Counted((number,), f"{path}:{line}")


def _tree(text: str) -> ast.Module | None:
    try:
        return parse(text)
    except SyntaxError:
        return None


def _bindings(tree: ast.Module, name: str) -> Iterator[ast.stmt]:
    for node in all_nodes(tree):
        if isinstance(node, ast.ClassDef) and node.name == name:
            yield node
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign | ast.AugAssign):
            targets = [node.target]
        if any(isinstance(each, ast.Name) and each.id == name for each in targets):
            assert isinstance(node, ast.stmt), "assignments are statements"
            yield node


def _size(node: ast.stmt) -> int | None:
    if isinstance(node, ast.ClassDef):
        return _members(node)
    if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        return _length(node.value)
    return None


def _members(node: ast.ClassDef) -> int | None:
    """Return how many members an enum has; None for another class."""
    values = enum_values(node)
    if not values:
        return None
    # `B = 1` after `A = 1`, or `B = A`, is another name of one member; auto() gives each its own.
    texts = {
        f"{name} = auto()" if isinstance(value, ast.Call) else ast.unparse(value)
        for name, value in values.items()
    }
    return len(texts - values.keys())


def _length(value: ast.expr) -> int | None:
    if isinstance(value, ast.List | ast.Tuple | ast.Set):
        if any(isinstance(each, ast.Starred) for each in value.elts):
            return None
        # Equal elements count once, as they do at run time.
        if isinstance(value, ast.Set):
            return len({ast.dump(each) for each in value.elts})
        return len(value.elts)
    if isinstance(value, ast.Dict):
        if any(key is None for key in value.keys):
            return None
        return len({ast.dump(key) for key in value.keys if key})
    if isinstance(value, ast.Call):
        function = value.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name in _BUILDERS and len(value.args) == 1 and not value.keywords:
            return _length(value.args[0])
        if name == "dict" and not value.args and all(each.arg for each in value.keywords):
            return len(value.keywords)
    return None


def _grows(name: str, files: Files) -> bool:
    """Return whether any source adds to a collection, or takes from it."""
    word = re.escape(name).encode()
    # `X["a"] = 1`, `X += [...]`, `X.append(`, `del X`, `register_all(X`: bytes are searched, since
    # all sources of the repository would have to be parsed otherwise.
    change = re.compile(
        rb"\b" + word + rb"(?:\s*\[[^\]\n]*\]\s*=[^=]|\s*(?:\+=|\|=|-=)"
        rb"|\.(?:append|extend|update|add|insert|setdefault|register|pop|remove|clear|discard)\b)"
        rb"|\bdel\s+" + word + rb"\b|register\w*\(\s*" + word + rb"\b"
    )
    return any(change.search(files.data(path) or b"") for path in files.python)


def count_folder(folder: str, files: Files) -> Counted:
    """Count what a folder holds, in every way that people mean by a number of files in it."""
    lead = f"{folder}/" if folder else ""
    inside = [path[len(lead) :] for path in files.paths if path.startswith(lead)]
    numbers: list[int] = []
    # Directly in the folder first, then at any depth: "12 tests" may mean either.
    for rows in ([path for path in inside if "/" not in path], inside):
        shown = [path for path in rows if not path.rpartition("/")[2].startswith(".")]
        plain = [path for path in shown if path.rpartition("/")[2] not in ASIDE]
        numbers += [len(rows), len(shown), len(plain)]
        for group in (shown, plain):
            numbers += Counter(path.rpartition(".")[2] for path in group).values()
        numbers += Counter(_prefix(path) for path in plain).values()
    folders = {part for path in inside for part in _parents(path)}
    top = {part for part in folders if "/" not in part}
    direct = {path for path in inside if "/" not in path and not path.startswith(".")}
    # Folders may be meant as well: one per skill, or all entries as a file manager lists them.
    numbers += [len(top), len(folders), len(top) + len(direct), len(top) + len(direct - ASIDE)]
    numbers += [len({part for part in top if not part.startswith(("_", "."))})]
    # Files that mark what is counted: a folder with a SKILL.md is a skill.
    for name in ("SKILL.md", "__init__.py", "package.json", "pyproject.toml", "README.md"):
        numbers += [sum(path.endswith(f"/{name}") for path in inside)]
    return Counted(tuple(dict.fromkeys(numbers)), folder or "the root")


def _prefix(path: str) -> str:
    """Return the first word of a file's name, by which tests and numbered pages are grouped."""
    return re.split(r"[_\-.\d]", path.rpartition("/")[2], maxsplit=1)[0]


def _parents(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
