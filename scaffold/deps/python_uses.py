"""The uses of a package in one Python source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from scaffold.analysis.python.annotations import quoted
from scaffold.analysis.python.follower import CALLED, Chain
from scaffold.analysis.python.guards import (
    NO_GUARD,
    Guard,
    guard_of_handler,
    guard_of_test,
    guard_of_try,
    guard_of_with,
    hides_absence,
)
from scaffold.analysis.python.scopes import Scope
from scaffold.analysis.python.statements import dotted_name
from scaffold.deps.source_code import Code, Tree
from scaffold.deps.use import Kind, Use

_LONGEST = 110
# `pkg.module.name` and `pkg.module:name`, by which strings name what is imported later.
_STRING = re.compile(r"[A-Za-z_]\w*(?:\.\w+)+(?::[A-Za-z_][\w.]*)?|[A-Za-z_]\w*:[A-Za-z_][\w.]*")
# `mock.patch.object(...)`, `monkeypatch.setattr(...)`.
_PATCHES = re.compile(r"(^|\.)(patch|patch\.object|patch\.dict|setattr|delattr|patch\.multiple)$")
# What takes a value without a look at it; a call takes its arguments so.
_HANDS_ON = (
    ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.Return, ast.Yield, ast.Lambda, ast.IfExp,
    ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Starred, ast.ListComp, ast.SetComp,
    ast.GeneratorExp,
)  # fmt: skip


def uses_in(code: Code, tree: Tree) -> list[Use]:
    """Return the uses in a source, in the order of its text."""
    walk = _Walk(code, tree)
    walk.body(code.source.tree, code.module, NO_GUARD)
    return sorted(_inherit_guards(walk.found), key=lambda each: each.line)


def _inherit_guards(uses: list[Use]) -> Iterator[Use]:
    """Give each use the import that its source has it from, with the guard of that import."""
    guards: dict[tuple[str, ...], list[Guard]] = {}
    for use in uses:
        if use.kind == "import":
            guards.setdefault(use.parts, []).append(use.guard)
    # One unguarded import makes the name available everywhere in the source.
    guarded = {parts: found[0] if all(found) else NO_GUARD for parts, found in guards.items()}
    for use in uses:
        # The longest imported prefix is the nearest; a bare package name guards nothing.
        heads = (use.parts[:count] for count in range(len(use.parts), 1, -1))
        head = next((each for each in heads if each in guarded), ())
        guard = use.guard or guarded.get(head, NO_GUARD)
        yield replace(use, guard=guard, imported=len(head))


@dataclass
class _Walk:
    """A walk over every node, with the scope and the guards around it."""

    code: Code
    tree: Tree
    found: list[Use] = field(default_factory=list[Use])
    awaited: set[int] = field(default_factory=set[int])
    handed_on: set[int] = field(default_factory=set[int])

    def __post_init__(self) -> None:
        self.rows = re.split(r"\r\n|\r|\n", self.code.source.text)  # as Python counts lines
        imports = self.code.source.imports.values()
        self.takes_package = any(self.tree.may_belong(each) for each in imports)

    def body(self, node: ast.AST, scope: Scope, guard: Guard) -> None:
        """Visit the nodes below a node."""
        for each in ast.iter_child_nodes(node):
            self.visit(each, scope, guard)

    def visit(self, node: ast.AST, scope: Scope, guard: Guard) -> None:
        if isinstance(node, _HANDS_ON):
            self.handed_on |= {id(each) for each in ast.iter_child_nodes(node)}
        match node:
            case ast.Import() | ast.ImportFrom():
                self._import(node, guard)
            case ast.ClassDef():
                self._class(node, scope, guard)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._function(node, scope, guard)
            case (
                ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp()
            ):
                self.body(node, self.code.scope(node, scope), guard)
            case ast.Try() | ast.TryStar():
                self._try(node, scope, guard)
            case ast.If() | ast.IfExp():
                # Both branches count: one is for the old release and one for the new.
                holds, lacks = self._asked(node.test, scope)
                self.visit(node.test, scope, guard | holds)
                for branch, own in ((node.body, holds), (node.orelse, lacks)):
                    for each in branch if isinstance(branch, list) else [branch]:
                        self.visit(each, scope, guard | own)
            case ast.With() | ast.AsyncWith():
                self.body(node, scope, guard | guard_of_with(node))
            case ast.Await(value=ast.Call()):
                self.awaited.add(id(node.value))
                self.body(node, scope, guard)
            case ast.Call():
                self._call(node, scope, guard)
            case ast.Attribute() | ast.Name():
                self._named(node, scope, guard)
            case ast.AnnAssign():
                self._annotation(node.annotation, scope, guard)
                for each in filter(None, (node.target, node.value)):
                    self.visit(each, scope, guard)
            case ast.arg(annotation=ast.expr() as annotation):
                self._annotation(annotation, scope, guard)
            case ast.Constant():
                self._string(node, "string", guard)
            case _:
                self.body(node, scope, guard)

    def _add(
        self,
        kind: Kind,
        chain: Chain | None,
        node: ast.expr | ast.stmt | ast.arg,
        guard: Guard,
        call: ast.Call | None = None,
        about: ast.AST | None = None,
    ) -> None:
        if chain is None or not self.tree.belongs(_plain(chain.parts)):
            return
        # The result of a call has no name; the call itself was added as a use.
        if chain.parts[-1] == CALLED:
            return
        is_made = kind == "call" and "__init__" not in chain.own
        if chain.is_local and kind != "subclass" and not is_made:
            return  # a class of the tree is meant itself here
        place, awaited = (self.code.source.path, node.lineno), id(call) in self.awaited
        use = Use(kind, chain.parts, *place, self._row(node), guard, call, about, chain.local)
        at = _place_of(about if isinstance(about, ast.alias) else node, chain.parts[-1])
        at = at if isinstance(about, ast.alias) or self._is_own(node) else None
        handed_on = id(call) in self.handed_on
        self.found.append(replace(use, is_awaited=awaited, is_handed_on=handed_on, at=at))

    def _row(self, node: ast.expr | ast.stmt | ast.arg) -> str:
        return self.rows[node.lineno - 1].strip()[:_LONGEST]

    def _is_own(self, node: ast.AST) -> bool:
        """Return whether a name is the package's here, and not one that the tree has given it."""
        node = node.func if isinstance(node, ast.Call) else node
        if not isinstance(node, (ast.Name, ast.Attribute)):
            return False
        head = (dotted_name(node) or "").partition(".")[0]
        dotted = self.code.source.imports.get(head)
        return isinstance(node, ast.Attribute) if dotted is None else self.tree.may_belong(dotted)

    def _add_unknown(self, node: ast.expr, guard: Guard) -> None:
        """Add an attribute of what does not show, where the source takes the package in."""
        if isinstance(node, ast.Attribute) and self.takes_package:
            name, path = (node.attr,), self.code.source.path
            self.found.append(Use("attribute", name, path, node.lineno, guard=guard, node=node))

    def _import(self, node: ast.Import | ast.ImportFrom, guard: Guard) -> None:
        if isinstance(node, ast.ImportFrom) and node.level:
            return
        for each in node.names:
            if isinstance(node, ast.Import):
                names = each.name
            else:
                star = each.name == "*"
                names = node.module or "" if star else f"{node.module}.{each.name}"
            self._add("import", Chain(tuple(names.split("."))), node, guard, about=each)

    def _class(self, node: ast.ClassDef, scope: Scope, guard: Guard) -> None:
        for each in node.decorator_list:
            self.visit(each, scope, guard)
        is_derived = False
        for base in node.bases:
            chain = self.code.value(base, scope)
            # Only the first base of the package is compared: members are looked up there first.
            if chain is not None and not is_derived:
                is_derived = True
                self._add("subclass", chain, base, guard, about=node)
                if self.tree.belongs(_plain(chain.parts)):
                    self._overrides(node, chain, guard)
            if chain is None or isinstance(base, (ast.Call, ast.Subscript)):
                self.body(base, scope, guard)
        # Decorators and bases are evaluated in the scope around the class.
        inner = self.code.scope(node, scope)
        for each in [*node.keywords, *node.body]:
            self.visit(each, inner, guard)

    def _overrides(self, node: ast.ClassDef, chain: Chain, guard: Guard) -> None:
        """Add the members of the package's class that a class of the tree may replace."""

        def add(each: ast.stmt, *names: str) -> None:
            member = Chain((*chain.parts, *names), local=chain.local)
            self._add("override", member, each, guard, about=each)

        for each in node.body:
            if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                add(each, each.name)
            for row in each.body if isinstance(each, ast.ClassDef) else ():
                for target in row.targets if isinstance(row, ast.Assign) else ():
                    if isinstance(target, ast.Name) and isinstance(each, ast.ClassDef):
                        add(row, each.name, target.id)

    def _function(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope, guard: Guard
    ) -> None:
        for each in node.decorator_list:
            self.visit(each, scope, guard)
        inner = self.code.scope(node, scope)
        # Defaults are evaluated where the function is defined, not in its scope.
        self.body(node.args, scope, guard)
        if node.returns is not None:
            self._annotation(node.returns, scope, guard)
        for each in node.body:
            self.visit(each, inner, guard)
            # What follows `if IS_OLD: return` is its other branch.
            if isinstance(each, ast.If) and isinstance(each.body[-1], ast.Return):
                guard |= self._asked(each.test, inner)[1]

    def _asked(
        self, test: ast.expr, scope: Scope, *, may_follow: bool = True
    ) -> tuple[Guard, Guard]:
        """Return what guards the two branches of a condition, asked there or under a name."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            lacks, holds = self._asked(test.operand, scope, may_follow=may_follow)
            return holds, lacks
        holds = guard_of_test(test)
        found = scope.find(test.id) if isinstance(test, ast.Name) and may_follow else None
        if found is not None and len(found[0]) == 1 and found[0][0].value is not None:
            kept = self._asked(found[0][0].value, found[1], may_follow=False)
            return holds | kept[0], holds | kept[1]
        asked = test.args if isinstance(test, ast.Call) and holds.names else ()
        chain = self.code.value(asked[0], scope) if asked else None
        parts = () if chain is None else chain.parts
        absent = frozenset((*parts, each) for each in holds.names if parts)
        return holds, replace(holds, absent=absent)

    def _try(self, node: ast.Try | ast.TryStar, scope: Scope, guard: Guard) -> None:
        forgiven, before = guard_of_try(node), len(self.found)
        for each in node.body:
            self.visit(each, scope, guard | forgiven)
        is_asked = any(each.kind != "attribute" for each in self.found[before:])
        for handler in node.handlers:
            if handler.type is not None:
                self.visit(handler.type, scope, guard)
            # What is done without another package is no way of another release of this one.
            fallback = guard_of_handler(handler) if is_asked else NO_GUARD
            for each in handler.body:
                self.visit(each, scope, guard | fallback)
        # An error in `else` or `finally` is not caught by the handlers above.
        for each in [*node.orelse, *node.finalbody]:
            self.visit(each, scope, guard)

    def _annotation(self, node: ast.expr, scope: Scope, guard: Guard) -> None:
        """Visit an annotation, with what is in quotes in it."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            inner = quoted(node.value)
            for each in ast.walk(inner) if inner is not None else ():
                # A parsed annotation counts its lines from its own text.
                if isinstance(each, ast.expr):
                    ast.copy_location(each, node)
                    each.end_col_offset = 0  # it has no place of its own
            if inner is not None:
                self._annotation(inner, scope, guard)
        elif isinstance(node, (ast.Subscript, ast.Tuple, ast.List, ast.BinOp)):
            for each in ast.iter_child_nodes(node):
                if isinstance(each, ast.expr):
                    self._annotation(each, scope, guard)
        else:
            self.visit(node, scope, guard)

    def _call(self, node: ast.Call, scope: Scope, guard: Guard) -> None:
        chain = self.code.value(node.func, scope)
        self._add("call", chain, node, guard, call=node)
        if chain is None:
            self._add_unknown(node.func, guard)
        self._below(node.func, scope, guard)
        rest = [*node.args, *(word.value for word in node.keywords)]
        self.handed_on |= {id(each) for each in rest}
        name = dotted_name(node.func) or ""
        if name in ("getattr", "hasattr"):
            self._by_name(node, scope, guard, "reference")
        elif _PATCHES.search(name):
            asks = any(word.arg in ("raising", "create") for word in node.keywords)
            lenient = Guard("raising=False", is_either=True) if asks else NO_GUARD
            self._by_name(node, scope, guard | lenient, "patch")
            # patch("module.name") takes the whole target as one string.
            if rest and isinstance(rest[0], ast.Constant):
                self._string(rest.pop(0), "patch", guard)
        for each in rest:
            self.visit(each, scope, guard)

    def _by_name(self, node: ast.Call, scope: Scope, guard: Guard, kind: Kind) -> None:
        """Add the member that a literal names: ``getattr(module, "name")``."""
        if len(node.args) < 2:
            return
        owner, name = node.args[:2]
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            chain = self.code.value(owner, scope)
            member = None if chain is None else chain.member(name.value)
            is_own = isinstance(owner, ast.Name) and owner.id in ("self", "cls")
            if chain is None and kind == "reference" and hides_absence(node) and not is_own:
                path, row = self.code.source.path, self._row(node)
                self.found.append(Use("attribute", (name.value,), path, node.lineno, row, guard))
            # The call is kept, as with a default it takes a name that is gone without a word.
            self._add(kind, member, node, guard, about=node)

    def _named(self, node: ast.Attribute | ast.Name, scope: Scope, guard: Guard) -> None:
        is_name = isinstance(node, ast.Name)
        chain = self.code.value(node, scope)
        if not isinstance(node.ctx, ast.Load):
            if not is_name:
                self._add("patch", chain, node, guard)
        # The bare name of the package is no use: the import of it is listed already.
        elif chain is not None and not (is_name and len(chain.parts) < 2):
            self._add("reference", chain, node, guard)
        elif chain is None:
            self._add_unknown(node, guard)
        self._below(node, scope, guard)

    def _below(self, node: ast.expr, scope: Scope, guard: Guard) -> None:
        """Visit what an attribute is taken of, once the names in front are used up."""
        while isinstance(node, ast.Attribute):
            node = node.value
        if not isinstance(node, ast.Name):
            self.visit(node, scope, guard)

    def _string(self, node: ast.expr, kind: Kind, guard: Guard) -> None:
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, str) and len(value) < 200 and _STRING.fullmatch(value):
            parts = tuple(value.replace(":", ".").split("."))
            self._add(kind, Chain(parts), node, guard)


def _place_of(node: ast.AST, name: str) -> tuple[int, int] | None:
    """Return the line and the column of a name at which an expression or import ends."""
    node, width = node.func if isinstance(node, ast.Call) else node, len(name.encode())
    if isinstance(node, ast.alias) and node.name.endswith(name):
        return node.lineno, node.col_offset + len(node.name.encode()) - width
    is_it = getattr(node, "attr", "") == name or getattr(node, "id", "") == name
    if not is_it or not isinstance(node, ast.expr) or not node.end_col_offset:
        return None
    return node.end_lineno or 0, node.end_col_offset - width


def _plain(parts: tuple[str, ...]) -> str:
    """Return the dotted name that a chain begins with, up to its first call."""
    return ".".join(parts[: parts.index(CALLED)] if CALLED in parts else parts)
