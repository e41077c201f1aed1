"""What a Python file has in common with its counterparts in other units, statement by statement.

Imports, classes, functions, fields and statements that most units have stay; what is only one
unit's goes. Where the units differ, a comment and NotImplementedError mark the author's part.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from scaffold.syntax import parse
from scaffold.units.init.python_names import (
    Definition,
    Function,
    bound,
    copy_of,
    identity,
    is_docstring,
    is_enclosed,
    is_import_block,
    loaded,
    named_class,
    named_first,
    needed,
    parts,
    prune,
    sort_of,
    stored,
    without_headings,
)
from scaffold.units.init.python_source import Consensus, Cut, Source, apart
from scaffold.units.init.spellings import (
    Evidence,
    Piece,
    canon,
    compare,
    count_same,
    is_most,
    pieces_between,
    without_years,
)

_BLANK = re.compile(r"(?:[ \t]*\r?\n)+")


class Pair(NamedTuple):
    """A counterpart in another unit; of the same sort as the statement that it is held against."""

    source: Source
    node: Any


def find_consensus(own: Source, others: Sequence[Source], why: str) -> Consensus:
    """Find out what of a file is the kind's.

    Args:
        own: The unit's file.
        others: Its counterparts.
        why: The text of the comment at an author's place.
    """
    if not others:
        return Consensus()
    return _Merge(own, others, why).result()


class _Merge:
    def __init__(self, own: Source, others: Sequence[Source], why: str) -> None:
        self.own = own
        self.others = others
        self.mark = f"# YOURS: {why}"
        self.cuts: list[Cut] = []
        self.evidence: Evidence = {}
        self.left_out: list[ast.stmt] = []
        # A comment above a statement that defines nothing, or is under a condition, marks nothing.
        self.can_mark = True
        self._gone: frozenset[str] = frozenset()

    def result(self) -> Consensus:
        pairs = [Pair(each, each.tree) for each in self.others]
        self._gone = self._names_gone(pairs)
        self.body(self.own.tree.body, pairs)
        self._restore()
        self._comments()
        self._imports()
        return Consensus(self._closed(apart(self.cuts)), self.evidence)

    def _closed(self, cuts: Sequence[Cut]) -> list[Cut]:
        """Return the cuts, and where blank lines would follow others those lines too."""
        text = self.own.text
        found: list[Cut] = []
        is_top = True
        for place, cut in enumerate(cuts):
            last = found[-1] if found else Cut(0, 0)
            is_top &= not text[last.end : cut.start].strip() and not last.instead.strip()
            if cut.instead or text[cut.end - 1 : cut.end] != "\n":
                found.append(cut)
                continue
            limit = cuts[place + 1].start if place + 1 < len(cuts) else len(text)
            below = _BLANK.match(text, cut.end, limit)
            rows = below[0].splitlines(keepends=True) if below else []
            above = len(text[last.end : cut.start].splitlines())
            above -= len(text[last.end : cut.start].rstrip().splitlines())
            gone = len(rows) if is_top else min(len(rows), above)
            found.append(cut._replace(end=cut.end + sum(map(len, rows[:gone]))))
        return found

    # ---- what is compared ------------------------------------------------------------------------

    def votes(self, node: ast.AST, pairs: Iterable[Pair]) -> int:
        """Count the counterparts that are the same, and keep what they have for the name."""
        own = self.own.pieces_of(node)
        return self._count(own, ((p.source, p.source.pieces_of(p.node)) for p in pairs))

    def _count(self, own: Sequence[Piece], others: Iterable[tuple[Source, Sequence[Piece]]]) -> int:
        return count_same(own, ((s.name.key, pieces) for s, pieces in others), self.evidence)

    def counterparts(self, node: ast.stmt, bodies: Iterable[Pair]) -> list[Pair]:
        """Return the statement of each body that is known by the same name.

        Of several, as overloads and setters are, it is the one that is the same, or has the same
        decorators, or is the first. Of a class that alone bears the unit's name it is the class
        that alone bears theirs: ``OneOAuth`` has ``TwoOAuth2`` as its counterpart.
        """
        wanted = identity(self.own, node)
        is_main = isinstance(node, ast.ClassDef) and node is named_class(
            self.own, self.own.tree.body
        )
        found: list[Pair] = []
        for source, owner in bodies:
            rows = getattr(owner, "body", [])
            known = [n for n in rows if identity(source, n) == wanted]
            row = self._nearest(node, source, known) if known else None
            if row is None and is_main:
                row = named_class(source, rows)
            if row is not None:
                found.append(Pair(source, row))
        return found

    def _nearest(self, node: ast.stmt, source: Source, rows: Sequence[ast.stmt]) -> ast.stmt:
        def form(its: Source, each: ast.stmt) -> tuple[list[str], str]:
            return [its.canon(mark) for mark in getattr(each, "decorator_list", [])], its.canon(
                each
            )

        if len(rows) == 1:
            return rows[0]
        marks, text = form(self.own, node)
        found = [form(source, each) for each in rows]
        return min(zip(found, rows, strict=True),
                   key=lambda each: (each[0][1] != text, each[0][0] != marks))[1]  # fmt: skip

    def _names_gone(self, pairs: Sequence[Pair]) -> frozenset[str]:
        """Return the names of the module that only this unit binds."""
        gone: set[str] = set()
        kept: set[str] = set()
        for node in self.own.tree.body:
            count = len(self.counterparts(node, pairs))
            is_import = isinstance(node, ast.Import | ast.ImportFrom) or is_import_block(node)
            is_kept = is_import or is_most(count, len(self.others))
            (kept if is_kept else gone).update(bound(node))
        return frozenset(gone - kept)

    # ---- statements ------------------------------------------------------------------------------

    def body(self, nodes: Sequence[ast.stmt], bodies: Sequence[Pair]) -> bool:
        """Look through the statements of a module or a class; return whether any stays."""
        is_left, stays = False, True
        for node in nodes:
            # A text below a field explains that field.
            stays = (stays or not _is_text(node)) and self.statement(node, bodies)
            is_left |= stays and not is_docstring(node, nodes)
            if not stays:
                self.left_out.append(node)
                self.cuts.append(Cut(*self.own.whole(node)))
        return is_left

    def statement(self, node: ast.stmt, bodies: Sequence[Pair]) -> bool:
        count = len(bodies)
        if isinstance(node, ast.Import | ast.ImportFrom):
            rows = [n for p in bodies for n in self._all(p, type(node))]
            self.votes(node, rows)
            return True  # what of it is used is found out last
        pairs = self.counterparts(node, bodies)
        if _is_text(node):
            self._docstring(node, pairs, count)
            return True
        if is_import_block(node):
            self.votes(node, pairs)
            return True
        if not is_most(len(pairs), count):
            return False
        if isinstance(node, ast.If):
            was, self.can_mark = self.can_mark, False
            stays = self.body(node.body, pairs)
            self.can_mark = was
            return stays
        if isinstance(node, ast.ClassDef):
            self._class(node, pairs)
        elif isinstance(node, Function):
            self._function(node, pairs)
        elif not is_most(self.votes(node, pairs), len(pairs)):
            return self._value(node, pairs)
        return True

    def _all(self, pair: Pair, kind: type[ast.stmt]) -> Iterator[Pair]:
        rows = getattr(pair.node, "body", [])
        return (Pair(pair.source, node) for node in rows if isinstance(node, kind))

    def _class(self, node: ast.ClassDef, pairs: Sequence[Pair]) -> None:
        self._decorators(node, pairs)
        self._header_name(node, pairs)
        rows: list[tuple[ast.AST, list[Pair]]] = []
        for base in [*node.bases, *(word.value for word in node.keywords)]:
            given = [
                Pair(p.source, each)
                for p in pairs
                for each in [*p.node.bases, *(w.value for w in p.node.keywords)]
            ]
            rows.append((base, given))
        self._elements(rows, len(pairs), least=1)
        if not self.body(node.body, pairs):
            start = self.own.span(node)[0]
            indent = self.own.indent(node)
            self.cuts.append(Cut(start, start, f"{self.mark}\n{indent}"))
            last = self.own.line_end(self.own.span(node)[1])
            if not is_docstring(node.body[0], node.body):
                self.cuts.append(Cut(last, last, f"{self.own.indent(node.body[0])}pass\n"))

    def _function(self, node: Function, pairs: Sequence[Pair]) -> None:
        self._header(node, pairs, self._decorators(node, pairs))
        rows = node.body
        if is_docstring(rows[0], rows):
            inner = [Pair(p.source, p.node.body[0]) for p in pairs]
            same = [p for p in inner if isinstance(p.node, ast.Expr)]
            self._docstring(rows[0], same, len(pairs))
            rows = rows[1:]
        self._statements(node, rows, pairs)

    def _statements(self, node: Function, rows: Sequence[ast.stmt], pairs: Sequence[Pair]) -> None:
        """Keep the statements that most have, as far as what they need is there as well."""
        local = stored(node)
        known = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
        known -= self._pruned(node)
        gap: ast.stmt | None = None
        for row in rows:
            counterparts = [
                Pair(p.source, n) for p in pairs for n in p.node.body if type(n) is type(row)
            ]
            units = {id(p.source) for p in self._same(row, counterparts)}
            needs = needed([row])
            missing = ((needs & local) - known) | (needs & self._gone)
            if is_most(len(units), len(pairs)) and not missing:
                self.votes(row, self._same(row, counterparts))
                known |= bound(row)
                continue
            start, end = self.own.whole(row)
            start = max(start, self._inside(node))
            if gap is None:
                gap = row
                indent = self.own.indent(row)
                text = f"{indent}{self.mark}\n{indent}raise NotImplementedError\n"
                self.cuts.append(Cut(start, end, text))
            else:
                self.cuts.append(Cut(start, end))

    def _inside(self, node: Function) -> int:
        """Return where the body of a function begins, behind its docstring."""
        first = node.body[0]
        if is_docstring(first, node.body):
            return self.own.line_end(self.own.span(first)[1])
        return self.own.line_start(self.own.span(first)[0])

    def _same(self, node: ast.AST, pairs: Iterable[Pair]) -> list[Pair]:
        own = self.own.pieces_of(node)
        rows = ((p, p.source.pieces_of(p.node)) for p in pairs)
        return [p for p, pieces in rows if compare(own, pieces, "") is not None]

    # ---- the parts of statements -----------------------------------------------------------------

    def _decorators(self, node: Definition, pairs: Sequence[Pair]) -> set[str]:
        """Leave out the decorators that not most have; return the parameters that those named."""
        gone: set[str] = set()
        for mark in node.decorator_list:
            theirs = [Pair(p.source, n) for p in pairs for n in p.node.decorator_list]
            if is_most(self.votes(mark, theirs), len(pairs)) or self._call_stays(mark, theirs):
                continue
            start, end = self.own.span(mark)
            self.cuts.append(Cut(self.own.line_start(start), self.own.line_end(end)))
            gone |= named_first(mark)
        return gone

    def _call_stays(self, mark: ast.expr, theirs: Sequence[Pair]) -> bool:
        """Keep of a decorator that most call the arguments that name the unit, or that most have.

        Without any it would be another decorator: it goes.
        """
        if not isinstance(mark, ast.Call):
            return False
        calls = [p for p in theirs if isinstance(p.node, ast.Call)]
        same = self._same(mark.func, [Pair(p.source, p.node.func) for p in calls])
        sources = {id(p.source) for p in same}
        if not is_most(len(sources), len(self.others)):
            return False
        given = [Pair(p.source, n) for p in calls for n in [*p.node.args, *p.node.keywords]]
        rows = [*mark.args, *mark.keywords]
        stays = [
            any(piece.is_name for piece in self.own.pieces_of(row))
            or is_most(self.votes(row, given), len(self.others))
            for row in rows
        ]
        if not any(stays):
            return False
        for place, row in enumerate(mark.args):
            # What most say in this place, each in its own way, the call cannot be without.
            there = [Pair(p.source, n) for p in calls for n in p.node.args[place:][:1]]
            alike = [p for p in there if sort_of(p.node) == sort_of(row)]
            if not stays[place] and is_most(len(alike), len(self.others)):
                self._reduce(row, alike)
                stays[place] = True
        self._leave([self.own.span(row) for row in rows], stays)
        return True

    def _header_name(self, node: Definition, pairs: Sequence[Pair]) -> None:
        own = self._head(self.own, node)
        self._count(own[:], ((p.source, self._head(p.source, p.node)) for p in pairs))

    def _head(self, source: Source, node: Any) -> Sequence[Piece]:
        """Return the pieces of a definition up to its name."""
        start = source.offset(node.lineno, node.col_offset)
        at = source.text.find(node.name, start + 4)
        return pieces_between(source.pieces, start, at + len(node.name))

    def _header(self, node: Function, pairs: Sequence[Pair], gone: set[str]) -> None:
        start = self.own.offset(node.lineno, node.col_offset)
        own = pieces_between(self.own.pieces, start, self._colon(self.own, node))
        theirs = (
            (
                p.source,
                pieces_between(
                    p.source.pieces,
                    p.source.offset(p.node.lineno, p.node.col_offset),
                    self._colon(p.source, p.node),
                ),
            )
            for p in pairs
        )
        if is_most(self._count(own, theirs), len(pairs)) and not gone:
            return
        self._header_name(node, pairs)
        args = copy_of(node.args)
        known = [_parameters(p.source, p.node.args) for p in pairs]
        own_names = _parameters(self.own, node.args)
        # What a caller has to give in one place is one parameter, whatever units call it.
        required, places = _required(node.args), [_required(p.node.args) for p in pairs]

        def is_shared(arg: ast.arg | None) -> bool:
            if arg is None or arg.arg in gone:
                return False
            place = required.index(arg.arg) if arg.arg in required else None
            at = slice(0) if place is None else slice(place, place + 1)
            hits = [
                own_names[arg.arg] in names.values() or {*rows[at]} - {*own_names}
                for names, rows in zip(known, places, strict=True)
            ]
            return is_most(sum(map(bool, hits)), len(pairs))

        prune(args, is_shared)
        returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
        text = f"{word} {node.name}({ast.unparse(args)}){returns}:"
        if ast.unparse(args) != ast.unparse(node.args):
            self.cuts.append(Cut(start, self._colon(self.own, node), text, is_own=True))

    def _pruned(self, node: Function) -> set[str]:
        start = self.own.offset(node.lineno, node.col_offset)
        text = next((c.instead for c in self.cuts if c.start == start and c.is_own), "")
        if not text:
            return set()
        args = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
        return {each for each in args if not re.search(rf"\b{each}\b", text)}

    def _colon(self, source: Source, node: Function) -> int:
        """Return the offset behind the colon of a function's header."""
        last = source.offset(node.body[0].lineno, node.body[0].col_offset)
        marks = getattr(node.body[0], "decorator_list", [])
        last = min([last, *(source.offset(m.lineno, m.col_offset) - 1 for m in marks)])
        pieces = pieces_between(source.pieces, source.span(node)[0], last)
        return next(piece.end for piece in reversed(pieces) if piece.text == ":")

    def _value(self, node: ast.stmt, pairs: Sequence[Pair]) -> bool:
        """Look into an assignment or a call that the units write differently."""
        value = getattr(node, "value", None)
        if value is None:
            return isinstance(node, ast.AnnAssign)
        theirs = [Pair(p.source, getattr(p.node, "value", None) or p.node) for p in pairs]
        self._target(node, pairs)
        is_open = self._reduce(value, theirs)
        if is_open and self.can_mark and not isinstance(node, ast.Expr):
            at = self.own.span(node)[0]
            self.cuts.append(Cut(at, at, f"{self.mark}\n{self.own.indent(node)}"))
        return True

    def _target(self, node: ast.stmt, pairs: Sequence[Pair]) -> None:
        """Keep what the others have for the name in the target of an assignment."""
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if target is None:
            return
        theirs = [
            Pair(p.source, p.node.targets[0] if isinstance(p.node, ast.Assign) else p.node.target)
            for p in pairs
        ]
        self.votes(target, theirs)

    def _reduce(self, value: ast.AST, theirs: Sequence[Pair]) -> bool:
        """Leave out what only this unit has of a value; return whether its author has to look.

        Items and arguments that most have stay, texts become empty, other values stay as they are.
        """
        if is_most(self.votes(value, theirs), len(theirs)):
            return False
        same = [p for p in theirs if type(p.node) is type(value)]
        match value:
            case ast.Constant(value=str()) | ast.JoinedStr():
                self.cuts.append(Cut(*self.own.span(value), '""'))
            case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items) if items:
                given = [Pair(p.source, n) for p in same for n in parts(p.node, "elts")]
                rows = [(item, given) for item in items]
                if not is_enclosed(self.own, value):
                    return True
                return not self._elements(rows, len(same), is_tuple=isinstance(value, ast.Tuple))
            case ast.Dict(keys=keys, values=values):
                self._items(keys, values, same)
            case ast.Call(func=func, args=args, keywords=keywords):
                self.votes(func, [Pair(p.source, parts(p.node, "func")) for p in same])
                for place, each in enumerate(args):
                    given = [
                        Pair(p.source, n) for p in same for n in parts(p.node, "args")[place:][:1]
                    ]
                    # A word may be one that the call knows; a sentence is about the unit.
                    if not isinstance(each, ast.Constant) or " " in str(each.value).strip():
                        self._reduce(each, given)
                    else:
                        self.votes(each, given)
                rows = list[tuple[ast.AST, list[Pair]]]()
                for word in keywords:
                    given = [
                        Pair(p.source, n)
                        for p in same
                        for n in parts(p.node, "keywords")
                        if n.arg == word.arg
                    ]
                    rows.append((word, given))
                    if is_most(len(given), len(same)):
                        self._reduce(word.value, [Pair(p.source, p.node.value) for p in given])
                before = args[-1] if args else None
                self._elements(rows, len(same), by_presence=True, before=before)
            case _:
                pass
        return True

    def _items(
        self, keys: Sequence[ast.expr | None], values: Sequence[ast.expr], pairs: Sequence[Pair]
    ) -> None:
        """Leave out the items of a dictionary whose keys not most have; reduce the other values."""
        spans: list[tuple[int, int]] = []
        stays: list[bool] = []
        for key, value in zip(keys, values, strict=True):
            wanted = None if key is None else self.own.canon(key)
            given = [
                Pair(p.source, inner)
                for p in pairs
                for known, inner in zip(parts(p.node, "keys"), parts(p.node, "values"), strict=True)
                if wanted == (None if known is None else p.source.canon(known))
            ]
            start, end = self.own.span(value)
            start = self.own.text.rfind("**", 0, start) if key is None else self.own.span(key)[0]
            spans.append((start, end))
            # Another dictionary that is taken in has no key to be known by.
            count = self.votes(value, given) if key is None else len(given)
            stays.append(is_most(count, len(pairs)))
            if key is not None and stays[-1]:
                self._reduce(value, given)
        self._leave(spans, stays)

    def _elements(
        self,
        rows: Sequence[tuple[ast.AST, list[Pair]]],
        count: int,
        *,
        least: int = 0,
        by_presence: bool = False,
        before: ast.AST | None = None,
        is_tuple: bool = False,
    ) -> bool:
        """Leave out what is between commas and is not most units'; return whether any stays."""
        stays = [
            is_most(len(given) if by_presence else self.votes(node, given), count)
            for node, given in rows
        ]
        if sum(stays) < least:
            return True
        spans = [self.own.span(node) for node, _ in rows]
        self._leave(spans, stays, before=before, is_tuple=is_tuple and sum(stays) == 1)
        return any(stays)

    def _leave(
        self,
        spans: Sequence[tuple[int, int]],
        stays: Sequence[bool],
        *,
        before: ast.AST | None = None,
        is_tuple: bool = False,
    ) -> None:
        """Cut what is between commas; ``before`` is what comes before all of them."""
        last = max((n for n, is_kept in enumerate(stays) if is_kept), default=-1)
        for place in (n for n, is_kept in enumerate(stays) if not is_kept and n < last):
            self.cuts.append(Cut(spans[place][0], spans[place + 1][0]))
        if last == len(stays) - 1:
            return
        # The last ones go with the comma in front of them.
        start = spans[last][1] if last >= 0 else spans[0][0]
        start = self.own.span(before)[1] if last < 0 and before is not None else start
        end = spans[-1][1]
        if last < 0 and before is None:
            after = pieces_between(self.own.pieces, end, len(self.own.text))
            # Behind all of them is the closing bracket: a comma and comments in front of it go too.
            end = after[0].start if after and after[0].text in (")", "]", "}") else end
        self.cuts.append(Cut(start, end, "," if is_tuple else ""))

    def _docstring(self, node: ast.stmt, pairs: Sequence[Pair], count: int) -> None:
        """Keep the lines of a docstring that most have; without the first none."""
        if not count:
            return
        start, end = self.own.span(node)
        body = self.own.text[start:end]
        quote = re.match(r"(?i)[rbuf]*(\"\"\"|'''|\"|')", body)
        if quote is None:
            return
        known = [
            {
                p.source.canon(row): p.source.name.pieces(row)
                for row in p.source.text[slice(*p.source.span(p.node))].splitlines()
            }
            for p in pairs
        ]
        rows = body.splitlines(keepends=True)
        stays: list[bool] = []
        at = start
        for row in rows:
            pieces = [
                p._replace(start=p.start + at, end=p.end + at) for p in self.own.name.pieces(row)
            ]
            hits = [
                (p.source, theirs[canon(pieces)])
                for p, theirs in zip(pairs, known, strict=True)
                if canon(pieces) in theirs
            ]
            is_kept = not pieces or is_most(len({id(s) for s, _ in hits}), count)
            if is_kept and pieces:
                self._count(pieces, hits)
            stays.append(is_kept)
            at += len(row)
        if all(stays):
            return
        # The letter in front of a quote is no word.
        words = [rows[0].removeprefix(quote[0]), *rows[1:]]
        first = next((n for n, row in enumerate(words) if re.search(r"\w", row)), 0)
        raw = quote[1] * (3 // len(quote[1])) if len(quote[1]) == 1 else quote[1]
        if not stays[first]:
            self.cuts.append(Cut(start, end, f"{raw}YOURS: say what this is.{raw}"))
            return
        text = "".join(without_headings(rows, stays)).rstrip()
        indent = self.own.text[self.own.line_start(start) : start]
        text = text.removesuffix(quote[1]).rstrip()
        # What is left of several lines may be the first one alone.
        text += quote[1] if "\n" not in text else f"\n{indent}{quote[1]}"
        self.cuts.append(Cut(start, end, text, is_own=True))

    # ---- what follows from it --------------------------------------------------------------------

    def _restore(self) -> None:
        """Bring back what was left out, and what the rest cannot be without."""
        while True:
            text = Consensus(apart(self.cuts)).apply(self.own.text)
            try:
                needed = loaded(parse(text))
            except (SyntaxError, ValueError):
                self.cuts.clear()
                return
            back = [
                node
                for node in self.left_out
                if bound(node) & needed & self._gone and node in self.own.tree.body
            ]
            if not back:
                return
            for node in back:
                self.left_out.remove(node)
                span = self.own.whole(node)
                self.cuts = [cut for cut in self.cuts if (cut.start, cut.end) != span]
                at = self.own.span(node)[0]
                if isinstance(node, Definition | ast.Assign | ast.AnnAssign):
                    self.cuts.append(Cut(at, at, f"{self.mark}\n"))

    def _comments(self) -> None:
        """Leave out the comments that are not most units'; a year may be another one."""
        known = [
            {without_years(each.canon(each.text[a:b])) for a, b in each.comments}
            for each in self.others
        ]
        is_done = self._header_comment(known)
        for start, end in self.own.comments:
            if start < is_done:
                continue
            text = without_years(self.own.canon(self.own.text[start:end]))
            if is_most(sum(text in each for each in known), len(self.others)):
                continue
            line = self.own.line_start(start)
            if self.own.text[line:start].strip():
                # Behind code: it goes where no other unit has the like.
                if not any(text in each for each in known):
                    begin = len(self.own.text[:start].rstrip())
                    self.cuts.append(Cut(begin, end))
            else:
                self.cuts.append(Cut(line, self.own.line_end(end)))

    def _header_comment(self, known: Sequence[set[str]]) -> int:
        """Keep the comment on top, or take that of most units; return where it ends.

        Args:
            known: The comments of the other units.
        """
        start, end = self.own.header
        own = self.own.text[start:end]
        theirs = [each.text[slice(*each.header)] for each in self.others]
        counts = Counter(without_years(text) for text in theirs)
        if is_most(counts[without_years(own)], len(theirs)):
            return end
        text, count = counts.most_common(1)[0]
        if text and 2 * count > len(theirs) + 1:
            found = next(each for each in theirs if without_years(each) == text)
            self.cuts.append(Cut(start, end, found))
            return end
        rows = own.splitlines(keepends=True)
        stays = [
            is_most(
                sum(without_years(self.own.canon(row.rstrip())) in each for each in known),
                len(self.others),
            )
            for row in rows
        ]
        # An empty line of the comment stays between two others.
        said = [n for n, row in enumerate(rows) if stays[n] and row.strip("# \t\r\n")]
        inside = range(said[0], said[-1] + 1) if said else range(0)
        at = start
        for number, row in enumerate(rows):
            if not stays[number] or number not in inside:
                self.cuts.append(Cut(at, at + len(row)))
            at += len(row)
        return end

    def _imports(self) -> None:
        """Leave out the imports that nothing uses any more, and names that are bound no more."""
        # A block that only itself reads, as in what it raises, is one that nothing uses.
        unused = [node for node in self.own.tree.body if is_import_block(node)]
        while True:
            now = self._still_loaded(Cut(*self.own.whole(node)) for node in unused)
            if not any(bound(node) & now for node in unused):
                break
            unused = [node for node in unused if not bound(node) & now]
        self.cuts += [Cut(*self.own.whole(node)) for node in unused]
        was = loaded(self.own.tree)
        # What is imported under a condition stays or goes with it.
        blocks = [node for node in self.own.tree.body if is_import_block(node)]
        guarded = {id(each) for block in blocks for each in ast.walk(block)}
        for node in ast.walk(self.own.tree):
            if not isinstance(node, ast.Import | ast.ImportFrom) or id(node) in guarded:
                continue
            if getattr(node, "module", "") == "__future__":
                continue
            gone: list[ast.alias] = []
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                if name in now or (name not in was and self._has_import(node, alias)):
                    continue
                gone.append(alias)
            if len(gone) == len(node.names):
                self.cuts.append(Cut(*self._import_lines(node)))
            elif gone:
                spans = [self.own.span(alias) for alias in node.names]
                self._leave(spans, [alias not in gone for alias in node.names])

    def _still_loaded(self, more: Iterable[Cut]) -> set[str]:
        """Return the names that are read in what is left without some more."""
        try:
            return loaded(parse(Consensus(apart([*self.cuts, *more])).apply(self.own.text)))
        except (SyntaxError, ValueError):
            return loaded(self.own.tree)

    def _import_lines(self, node: ast.stmt) -> tuple[int, int]:
        start, end = self.own.span(node)
        return self.own.line_start(start), self.own.line_end(end)

    def _has_import(self, node: ast.Import | ast.ImportFrom, alias: ast.alias) -> bool:
        wanted = _import_form(self.own, node, alias)
        found = sum(wanted in _imports_of(other) for other in self.others)
        return is_most(found, len(self.others))


def _required(args: ast.arguments) -> list[str]:
    """Return the parameters of a function that are given by their place and have no default."""
    plain = [each.arg for each in (*args.posonlyargs, *args.args)]
    return plain[: len(plain) - len(args.defaults)]


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _parameters(source: Source, args: ast.arguments) -> dict[str, str]:
    """Return what each parameter is known by in other units: its name, or its stars."""
    found = {
        each.arg: source.canon(each.arg) for each in ast.walk(args) if isinstance(each, ast.arg)
    }
    stars = {"*": args.vararg, "**": args.kwarg}
    return found | {each.arg: star for star, each in stars.items() if each is not None}


def _imports_of(source: Source) -> set[str]:
    """Return every import of a source, name by name."""
    rows = (n for n in ast.walk(source.tree) if isinstance(n, ast.Import | ast.ImportFrom))
    return {_import_form(source, node, alias) for node in rows for alias in node.names}


def _import_form(source: Source, node: ast.Import | ast.ImportFrom, alias: ast.alias) -> str:
    dots, module = "." * getattr(node, "level", 0), getattr(node, "module", "") or ""
    return f"{source.canon(dots + module)} {source.canon(alias)}"
