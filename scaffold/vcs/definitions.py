"""The definitions of a source file, what happened to them, and whether calls of them still fit."""

from __future__ import annotations

import ast
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from scaffold.analysis.python.annotations import spelled
from scaffold.analysis.python.decorators import KEEPING, PROPERTIES, has_decorator, last_part
from scaffold.analysis.python.signatures import Signature, read_signature
from scaffold.analysis.python.statements import statements
from scaffold.syntax import parse

Kind = Literal["class", "constant", "function", "method", "property"]


_PROPERTY_MARKS = PROPERTIES | {"setter", "deleter"}

How = Literal["added", "removed", "head", "body", "moved"]


class Symbol(NamedTuple):
    """One definition of a file.

    Lines are counted from 1; decorators count as part of their definition.
    """

    name: str
    """Dotted from the file's top: "Engine.generate"."""
    kind: Kind
    head: str
    """What callers see, in one line: the parameters and what is returned, or the bases."""
    start: int
    end: int
    is_public: bool
    digest: str
    """Of its whole text without layout and comments, so that a moved symbol is known again."""
    decorators: tuple[str, ...] = ()
    """As written."""

    @property
    def is_called_as_written(self) -> bool:
        """Whether calls are those of its head: any decorator may put another thing in its place."""
        return all(has_decorator((each,), *KEEPING) for each in self.decorators)


def read_symbols(path: str, text: str) -> tuple[Symbol, ...] | None:
    """Return what a file defines, in its order; None where its language is not read.

    A file that cannot be parsed defines nothing that is known, which is None as well.
    """
    if not _is_python(path):
        return None
    try:
        tree = parse(text)
    except SyntaxError:
        return None
    return tuple(_python_symbols(tree.body, "", is_public=True, listed=_listed(tree)))


def symbol_at(symbols: tuple[Symbol, ...], line: int) -> Symbol | None:
    """Return the innermost definition that a line belongs to."""
    around = [each for each in symbols if each.start <= line <= each.end]
    return min(around, key=lambda each: each.end - each.start, default=None)


def _listed(tree: ast.Module) -> frozenset[str] | None:
    """Return what ``__all__`` names where it is a literal; else None."""
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if any(isinstance(each, ast.Name) and each.id == "__all__" for each in targets):
            try:
                return frozenset(ast.literal_eval(node.value))
            except (ValueError, TypeError):
                return None
    return None


def _python_symbols(
    body: list[ast.stmt], prefix: str, *, is_public: bool, listed: frozenset[str] | None
) -> Iterator[Symbol]:
    # A definition under a condition is the module's all the same, but for what runs as a program.
    own = [
        each
        for each in body
        if not (isinstance(each, ast.If) and ast.unparse(each.test) == "__name__ == '__main__'")
    ]
    for node, _ in statements(own):
        found = _python_name(node, in_class=bool(prefix))
        if found is None:
            continue
        name, kind, head = found
        is_special = name.startswith("__") and name.endswith("__")
        is_shown = is_special or not name.startswith("_") if listed is None else name in listed
        is_seen = is_public and is_shown
        marks: list[ast.expr] = getattr(node, "decorator_list", [])
        # Every definition begins with its decorators.
        lines = [node.lineno, *(each.lineno for each in marks)]
        digest = hashlib.sha256(ast.dump(node).encode()).hexdigest()
        end = node.end_lineno or node.lineno
        written = tuple(ast.unparse(getattr(each, "func", each)) for each in marks)
        yield Symbol(f"{prefix}{name}", kind, head, min(lines), end, is_seen, digest, written)
        if isinstance(node, ast.ClassDef):
            inner = f"{prefix}{name}."
            yield from _python_symbols(node.body, inner, is_public=is_seen, listed=None)


def _python_name(node: ast.stmt, *, in_class: bool) -> tuple[str, Kind, str] | None:
    """Return name, kind and head of a statement that defines something."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        returns = f" -> {spelled(node.returns)}" if node.returns else ""
        word = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
        head = f"{word}({_taken(node.args)}){returns}"
        marks = {last_part(ast.unparse(each)) for each in node.decorator_list}
        inside = "property" if marks & _PROPERTY_MARKS else "method"
        return node.name, inside if in_class else "function", head
    if isinstance(node, ast.ClassDef):
        given = [*node.bases, *node.keywords]
        return node.name, "class", f"({', '.join(map(ast.unparse, given))})"
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target, head = node.targets[0], ""
    elif isinstance(node, ast.AnnAssign):
        target, head = node.target, f": {spelled(node.annotation)}"
    else:
        return None
    return (target.id, "constant", head) if isinstance(target, ast.Name) else None


def _taken(arguments: ast.arguments) -> str:
    text = ast.unparse(arguments)
    if ":" not in text:
        return text
    copied = ast.parse(f"def f({text}): ...").body[0]
    assert isinstance(copied, ast.FunctionDef)
    for each in ast.walk(copied.args):
        if isinstance(each, ast.arg) and each.annotation is not None:
            each.annotation = ast.parse(spelled(each.annotation), mode="eval").body
    return ast.unparse(copied.args)


def _is_python(path: str) -> bool:
    return path.lower().endswith((".py", ".pyi"))


def why_unread(path: str) -> str:
    """Return why `read_symbols` gives None for a file."""
    return "it cannot be parsed" if _is_python(path) else "its language is not read"


@dataclass(frozen=True)
class SymbolChange:
    """The change of one definition.

    Args:
        how: ``head`` where what callers see changed, ``body`` where only the rest did.
        old_path: The file that it stood in; None for a new one.
    """

    how: How
    path: str
    old_path: str | None
    old: Symbol | None
    new: Symbol | None
    role: str = ""

    @property
    def symbol(self) -> Symbol:
        """The definition as it is, or as it was where it is gone."""
        symbol = self.new or self.old
        assert symbol is not None, "one side has it"
        return symbol

    @property
    def name(self) -> str:
        return self.symbol.name

    @property
    def last_name(self) -> str:
        """The last part of its name, which is what other code writes."""
        return self.name.rpartition(".")[2]

    @property
    def breaks(self) -> str | None:
        """Why callers of what is public break, where that is certain; None elsewhere."""
        if self.old is None or not self.old.is_public:
            return None
        if self.new is None:
            return f"{self.name} is gone"
        return why_calls_break(self.old, self.new) if self.how == "head" else None

    @property
    def place(self) -> str:
        """Its file and line, as ``path:line``."""
        return f"{self.path}:{self.symbol.start}"


def compare_symbols(
    path: str, old_path: str, before: Iterable[Symbol], after: Iterable[Symbol], role: str = ""
) -> Iterator[SymbolChange]:
    """Yield what became of each definition of a file; of a parent and its members the parent.

    Args:
        before: What it defined; of several of one name the last counts.
    """
    had, has = ({each.name: each for each in symbols} for symbols in (before, after))
    for name, symbol in has.items():
        old = had.get(name)
        if old is None:
            if not _comes_with_parent(name, has, had):
                yield SymbolChange("added", path, None, None, symbol, role)
        # A head that differs breaks callers whatever became of the body, so it is reported alone.
        elif (old.head, old.kind) != (symbol.head, symbol.kind):
            yield SymbolChange("head", path, old_path, old, symbol, role)
        elif old.digest != symbol.digest:
            yield SymbolChange("body", path, old_path, old, symbol, role)
    for name, symbol in had.items():
        if name not in has and not _comes_with_parent(name, had, has):
            yield SymbolChange("removed", path, old_path, symbol, None, role)


def _comes_with_parent(name: str, here: dict[str, Symbol], there: dict[str, Symbol]) -> bool:
    parent = name.rpartition(".")[0]
    return parent in here and parent not in there


def with_moves(found: list[SymbolChange]) -> tuple[SymbolChange, ...]:
    """Return the changes; what went from one file and came to another unchanged moved."""
    gone: dict[tuple[str, str], list[SymbolChange]] = defaultdict(list)
    for each in found:
        if each.how == "removed":
            # Name and text together: short bodies are often equal by chance.
            gone[each.last_name, each.symbol.digest].append(each)
    moved: set[int] = set()
    result: list[SymbolChange] = []
    for each in found:
        origins = gone.get((each.last_name, each.symbol.digest), [])
        if each.how == "added" and origins:
            # Each removal explains one addition; further copies are new.
            origin = origins.pop(0)
            moved.add(id(origin))
            each = SymbolChange("moved", each.path, origin.path, origin.old, each.new, each.role)
        result.append(each)
    # A removal that an addition explains is part of that move.
    return tuple(each for each in result if id(each) not in moved)


def why_calls_break(old: Symbol, new: Symbol) -> str | None:
    """Return why callers break, where that is certain; None elsewhere."""
    # What a class takes is the head of its constructor, which is compared by itself.
    # A property is not called.
    if old.kind == "constant" or (old.kind == new.kind and old.kind in ("class", "property")):
        return None
    if old.kind != new.kind:
        return f"{new.name} is a {new.kind} and no {old.kind}"
    if not (old.is_called_as_written and new.is_called_as_written):
        return None
    if old.head.startswith("async ") != new.head.startswith("async "):
        word = "a coroutine" if new.head.startswith("async ") else "no coroutine"
        return f"{new.name} is {word} now"
    before, after = _signature(old), _signature(new)
    return None if before is None or after is None else _why(new.name, before, after)


def _why(name: str, old: Signature, new: Signature) -> str | None:
    places, known = old.slots, {*old.slots, *old.names}
    added = sorted(_required(new) - known)
    if added:
        return f"{name} requires {_quoted(added)}"
    required = sorted((_required(new) - _required(old)) & known)
    if required:
        return f"{name} has no default for {_quoted(required)} any more"
    lost = sorted({*old.names} - {*new.names})
    if lost and not new.takes_any_keyword:
        return f"{name} takes no {_quoted(lost)} any more"
    # Fewer places, or no `*args` any more.
    here = new.slots
    if not new.takes_any_place and (len(places) > len(here) or old.takes_any_place):
        return f"{name} takes fewer arguments by their place"
    # A new parameter in front of an old one moves the old one's place, be it optional.
    if here[: len(places)] != places:
        order = [each for each in here if each in places]
        if order == places or set(order) == set(places):
            return f"{name} takes its arguments in another order"
    return None


def _required(signature: Signature) -> set[str]:
    rows = (each for each in signature.parameters if not each.kind.startswith("var_"))
    return {each.name for each in rows if not each.has_default}


def _signature(symbol: Symbol) -> Signature | None:
    try:
        # A head is kept as text; put behind a name it parses again.
        node = ast.parse(f"def f{symbol.head.removeprefix('async ')}: ...").body[0]
    except SyntaxError:
        return None
    assert isinstance(node, ast.FunctionDef)
    signature = read_signature(node)
    # The receiver by its usual names: a static method has none.
    has_receiver = {each.name for each in signature.parameters[:1]} & {"self", "cls"}
    return signature.bound() if symbol.kind == "method" and has_receiver else signature


def _quoted(names: list[str]) -> str:
    return " and ".join(f"{each!r}" for each in names)
