"""Registration by a branch: ``elif name == "key": ...`` or ``case "key": ...`` in a function.

The entry's table is the function, its key the condition or the pattern, its value the body. The
chain that is meant is the one that asks the same of the same subject: if with elif, separate ifs
one below the other, or match. A new branch goes behind the last comparable one, or to its sorted
place, never behind one that would take what it is for.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from scaffold.edit.conditions import (
    constants,
    implies,
    is_catch_all,
    is_dispatch,
    is_open_pattern,
    pattern_values,
    skeleton,
    subjects,
)
from scaffold.edit.dispatch import Branch, Chain, find_chains, find_function, segment_of
from scaffold.edit.entry import Entry
from scaffold.edit.layout import Splice, begins_line, indent_at
from scaffold.edit.python_file import indent_unit, read_python
from scaffold.edit.rows import common_gap, delete_row, insert_row, line_after, newline_at
from scaffold.edit.statements import (
    Statements,
    bindings,
    parse_block,
    parse_expression,
    sorted_index,
)
from scaffold.errors import RegistryError, TemplateError


@dataclass(frozen=True)
class _Key:
    """The entry's key and body as syntax trees; ``test`` for ifs, ``case`` for match.

    A key such as ``Kind.RL`` is both, and the function shows which is meant.
    """

    test: ast.expr | None
    case: ast.match_case | None
    body: list[ast.stmt]


@dataclass(frozen=True)
class _Item:
    """A branch with its place in its chain; its value is None where the body is another one."""

    key: str
    value: str | None
    branch: Branch
    chain: Chain
    index: int


class Branches(Statements[_Item]):
    """The branches of a function's dispatches."""

    @staticmethod
    def text(entry: Entry) -> str:
        key = _read_key(entry)
        is_value = key.case is not None and pattern_values(key.case.pattern) is not None
        word = "elif" if key.test and not is_value else "case"
        rows = entry.value.strip("\n").split("\n")
        body = "\n".join(f"    {row}" if row else "" for row in rows)
        return f"{word} {entry.key}:\n{body}"

    def find(self) -> list[_Item]:
        self.asked = _read_key(self.entry)
        self.chains = find_chains(self)
        return [
            _Item(
                self.entry.key if _is_key(branch, self.asked) else segment_of(self, branch),
                self.entry.value if _has_body(branch, self.asked) else None,
                branch,
                chain,
                index,
            )
            for chain in self.chains
            for index, branch in enumerate(chain.branches)
        ]

    def entries(self) -> dict[str, str | None]:
        # An entry without a key scores 0 everywhere, so every chain is as good as the best one.
        scores = [_resemblance(chain, self.asked) for chain in self.chains]
        best = max(scores, default=0)
        chains = [c for c, score in zip(self.chains, scores, strict=True) if score == best]
        return {item.key: item.value for item in self.items if item.chain in chains}

    def hits(self) -> list[_Item]:
        return [item for item in self.items if _is_key(item.branch, self.asked)]

    def hit(self) -> _Item | None:
        # A branch of another chain with the condition is none of the registry's.
        return next((item for item in self.hits() if self.matches(item)), None)

    def line(self, item: _Item) -> int:
        return self.file.line(item.branch.word)

    def with_entry(self) -> bytes:
        chain = self._chosen()
        for item in self.hits():
            if item.chain is chain:
                reason = "the condition has another body here"
                raise self.refusal("registry_differs", self.line(item), reason)
        return self.with_splices(self._insertion(chain))

    def without(self, hits: list[_Item]) -> bytes:
        return self.with_splices(self._removal(hits[0].chain, hits[0].index))

    def _chosen(self) -> Chain:
        """Return the one chain that dispatches on what the key asks about."""
        scores = [_resemblance(chain, self.asked) for chain in self.chains]
        best = max(scores, default=0)
        table = self.entry.table
        if not best:
            what = "if" if self.asked.test else "match"
            line = find_function(self).lineno
            reason = f"{table} has no {what} that dispatches on the same as {self.entry.key}"
            raise self.refusal("registry_computed", line, reason)
        found = [chain for chain, score in zip(self.chains, scores, strict=True) if score == best]
        # A pattern has no names to be known: it binds them.
        if found[0].kind != "case":
            self._check_names(found[0])
        # Two equal chains may both be asked at run time, and nothing shows which of them registers.
        if len(found) > 1:
            lines = [self.file.line(chain.branches[0].word) for chain in found]
            told = ", ".join(map(str, lines))
            reason = f"{table} dispatches on it more than once, in lines {told}"
            raise self.refusal("registry_computed", lines[1], reason)
        return found[0]

    def _check_names(self, chain: Chain) -> None:
        """Refuse a condition on a name that neither function nor chain has, a builtin included."""
        function, outer = find_function(self), bindings(self.tree)
        # Arguments of lambdas and nested functions count too: too many known names only skip a
        # refusal.
        nodes = list(ast.walk(function))
        known = {each.arg for each in nodes if isinstance(each, ast.arg)} | outer.keys()
        known |= bindings(ast.Module(function.body, [])).keys()
        tests = [branch.test for branch in chain.branches if branch.test]
        # A builtin that the chain itself asks about, such as `type`, is as good as a local name.
        known |= {name.split(".")[0] for test in tests for name in subjects(test)}
        for name in sorted(subjects(self.asked.test) if self.asked.test else ()):
            root = name.split(".")[0]
            if root not in known and "*" not in known:
                reason = f"{self.entry.table} has no name {root}"
                raise self.refusal("registry_computed", function.lineno, reason)

    def _place(self, chain: Chain) -> int:
        """Return the index in the chain that the new branch gets."""
        branches = chain.branches
        # Nothing below a branch for all values is ever reached: the place is looked for above it.
        limit = next((n for n, each in enumerate(branches) if _takes_all(each)), len(branches))
        scores = [_score(branch, self.asked) for branch in branches[:limit]]
        best = max(scores, default=0)
        if not best:
            line = self.file.line(branches[limit].word)
            raise self.refusal("registry_shadowed", line, "this branch takes everything")
        alike = [n for n, score in enumerate(scores) if score == best]
        index = _sorted_place(branches, alike, self.asked)
        # The order of the keys gives way where the new branch would shadow one below it, as
        # `"g" in path` does `"gsm8k" in path`: it goes behind the last related branch.
        if any(_takes(self.asked, each) for each in branches[index:limit]):
            index = max(n for n, score in enumerate(scores) if score) + 1
        for branch in branches[:index]:
            if _takes(branch, self.asked):
                reason = f"this branch takes what {self.entry.key} is for"
                raise self.refusal("registry_shadowed", self.file.line(branch.word), reason)
        return index

    def _insertion(self, chain: Chain) -> Splice:
        raw, branches = self.raw, chain.branches
        index = self._place(chain)
        outer = indent_at(raw, branches[0].word)
        # The sibling whose layout the new branch copies.
        near = branches[index - 1 if index else 0]
        body = self._body(near, outer)
        head = f"{chain.kind} {self.entry.key}:".encode()
        if chain.kind == "elif" and index == 0:  # the first if becomes the elif behind the new one
            text = head.removeprefix(b"el") + body + outer + b"el"
            newline = newline_at(raw, line_after(raw, near.word))
            return Splice(near.word, near.word, text.replace(b"\n", newline))
        rows = [branch.row for branch in branches]
        return insert_row(raw, rows, index, outer + head + body, common_gap(raw, rows))

    def _body(self, near: Branch, outer: bytes) -> bytes:
        """Return the body behind the colon, on the same line where the sibling has it there."""
        text = self.entry.value.strip("\n")
        # A compound statement cannot share the line of a colon: `if a: for x in y: ...` is no
        # Python.
        first, *others = self.asked.body
        is_simple = not (hasattr(first, "body") or others or "\n" in text)
        if is_simple and not begins_line(self.raw, self.file.start(near.body[0])):
            return f" {text}\n".encode()
        unit = indent_unit(self.file)
        if begins_line(self.raw, self.file.start(near.body[0])):
            unit = indent_at(self.raw, self.file.start(near.body[0]))[len(outer) :]
        return b"\n" + self.reindented(text, outer + unit, unit)

    def _removal(self, chain: Chain, index: int) -> Splice:
        raw, branches = self.raw, chain.branches
        if chain.kind == "elif" and index == 0 and len(branches) > 1:
            # The elif below loses its `el` and heads the chain; the comments between go as well.
            splice = Splice(branches[0].word, branches[1].word + len("el"))
        else:
            splice = delete_row(raw, [branch.row for branch in branches], index)
        try:
            # The last branch of a chain with an else, or of a function, leaves no valid Python.
            read_python(self.with_splices(splice), self.context)
        except RegistryError as error:
            line = self.file.line(branches[index].word)
            reason = f"{self.entry.table} would be left without a branch"
            raise self.refusal("registry_computed", line, reason) from error
        return splice


# ---- reading -------------------------------------------------------------------------------------


def _read_key(entry: Entry) -> _Key:
    body = parse_block(entry.value, "the body of a branch") if entry.value else []
    if not entry.key:
        return _Key(None, None, body)
    pattern = _read_pattern(entry.key)
    try:
        test = parse_expression(entry.key, "the condition of a branch")
    except TemplateError:
        if pattern is None:
            raise
        return _Key(None, pattern, body)
    asks = pattern is None or subjects(test)  # `path.startswith("k")` is a class pattern too
    return _Key(test if asks else None, pattern, body)


def _read_pattern(text: str) -> ast.match_case | None:
    try:
        # A pattern parses only inside a match statement.
        match = parse_block(f"match _:\n case {text}:\n  pass", "a pattern")[0]
    except TemplateError:
        return None
    return match.cases[0] if isinstance(match, ast.Match) else None


def _is_key(branch: Branch, key: _Key) -> bool:
    # A key that is both condition and pattern counts as what the branch itself is.
    if branch.case and key.case:
        guards = [each.guard and ast.dump(each.guard) for each in (branch.case, key.case)]
        same = ast.dump(branch.case.pattern) == ast.dump(key.case.pattern)
        return same and guards[0] == guards[1]
    return bool(branch.test and key.test) and _dump(branch.test) == _dump(key.test)


def _has_body(branch: Branch, key: _Key) -> bool:
    return [ast.dump(each) for each in branch.body] == [ast.dump(each) for each in key.body]


def _dump(node: ast.expr | None) -> str:
    return ast.dump(node) if node else ""


# ---- choosing ------------------------------------------------------------------------------------


def _resemblance(chain: Chain, key: _Key) -> int:
    return max(_score(branch, key) for branch in chain.branches)


def _score(branch: Branch, key: _Key) -> int:
    """Return how much a branch resembles the new one: 3 in form, 2 in subject, 1 in part, or 0."""
    if len(branch.body) == 1 and isinstance(branch.body[0], ast.Raise):
        return 0  # a guard registers nothing
    if branch.case and key.case:
        return _pattern_score(branch.case.pattern, key.case.pattern)
    if branch.test is None or key.test is None:
        return 0
    # Equal but for its constants, as `name == "a"` and `name == "b"` are.
    if skeleton(branch.test) == skeleton(key.test):
        return 3
    if is_catch_all(branch.test) or not is_dispatch(branch.test):
        return 0
    # `name == "a"` and `name in ("b", "c")` differ in form and ask about the same.
    its, own = subjects(branch.test), subjects(key.test)
    return 2 if its == own else 1 if its & own else 0


def _pattern_score(its: ast.pattern, own: ast.pattern) -> int:
    if is_open_pattern(its):
        return 0
    # A match has one subject, so any two patterns of values (`"a"`, `"b" | "c"`) are siblings.
    if pattern_values(its) is not None and pattern_values(own) is not None:
        return 3
    if skeleton(its) == skeleton(own):
        return 3
    return 1 if type(its) is type(own) and not isinstance(its, ast.MatchClass) else 0


def _takes_all(branch: Branch) -> bool:
    if branch.case:
        return branch.case.guard is None and is_open_pattern(branch.case.pattern)
    return branch.test is not None and is_catch_all(branch.test)


def _takes(wide: Branch | _Key, narrow: Branch | _Key) -> bool:
    """Return whether a branch would take what another one is for."""
    if wide.test and narrow.test:
        return implies(narrow.test, wide.test)
    if wide.case and narrow.case and wide.case.guard is None:
        most, some = (pattern_values(each.pattern) for each in (wide.case, narrow.case))
        return most is not None and some is not None and some <= most
    return False


def _sorted_place(branches: Sequence[Branch], alike: list[int], key: _Key) -> int:
    own = _order_key(key.test, key.case)
    keys = [_order_key(branches[n].test, branches[n].case) for n in alike]
    if len(alike) < 2 or None in keys or own is None:  # one branch shows no order
        return alike[-1] + 1
    place = sorted_index([str(each) for each in keys], own)
    # `place` counts among the similar branches, and other ones may lie between them in the chain.
    return alike[place - 1] + 1 if place else alike[0]


def _order_key(test: ast.expr | None, case: ast.match_case | None) -> str | None:
    node = test or (case.pattern if case else None)
    found = constants(node) if node else None
    # NUL sorts below every other character, so ("a", "b") comes before ("ab",).
    return "\0".join(found) if found else None
