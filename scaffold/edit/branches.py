"""Registration by a branch: ``elif name == "key": ...`` or ``case "key": ...`` in a function.

The entry's table is the function, its key the condition or the pattern, its value the body. The
chain that is meant is the one that asks the same of the same subject: if with elif, separate ifs
one below the other, or match. A new branch goes behind the last comparable one, or to its sorted
place, never behind one that would take what it is for.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
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
from scaffold.edit.layout import Splice, begins_line, indent_at, line_start
from scaffold.edit.shapes import Edit
from scaffold.edit.statements import (
    Row,
    Script,
    bindings,
    common_gap,
    delete_row,
    indent_unit,
    insert_row,
    line_after,
    newline_at,
    parse_block,
    parse_expression,
    read_script,
    reindented,
    settled,
    sorted_index,
    there,
    with_inner_comments,
)
from scaffold.ledger import MadeEntry
from scaffold.spec import RegistryError, TemplateError

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class _Key:
    """Is the entry's key and body as syntax trees; ``test`` for ifs, ``pattern`` for match."""

    test: ast.expr | None
    pattern: ast.match_case | None
    body: list[ast.stmt]


@dataclass(frozen=True)
class _Branch:
    """Is one branch; ``word`` is the offset of its keyword."""

    test: ast.expr | None
    case: ast.match_case | None
    body: list[ast.stmt]
    word: int
    row: Row


@dataclass(frozen=True)
class _Chain:
    """Is a dispatch; ``kind`` is "elif", "if" for separate ifs, or "case"."""

    kind: str
    branches: tuple[_Branch, ...]


def read_entries(data: bytes, entry: MadeEntry) -> dict[str, str | None]:
    """Returns the conditions or patterns of the chain that the entry's key belongs to.

    All of the function's chains are read where none or several resemble the key. The value is the
    entry's own where the body is the same code, else None.

    Raises:
        RegistryError: The function is missing, or the file cannot be parsed.
        TemplateError: Key or value is no Python.
    """
    script = read_script(data, entry)
    chains, key = _chains(script), _read_key(entry)
    best = max((_resemblance(chain, key) for chain in chains), default=0)
    entries: dict[str, str | None] = {}
    for branch in _all_branches([each for each in chains if _resemblance(each, key) == best]):
        known_as = entry.key if _is_key(branch, key) else _segment(script, branch)
        entries[known_as] = entry.value if _has_body(branch, key) else None
    return entries


def has_entry(data: bytes, entry: MadeEntry) -> bool:
    """Tells whether a branch has this condition and this body, whatever their layout.

    Raises:
        RegistryError: The function is missing, or the file cannot be parsed.
        TemplateError: Key or value is no Python.
    """
    key = _read_key(entry)
    branches = _all_branches(_chains(read_script(data, entry)))
    return any(_is_key(branch, key) and _has_body(branch, key) for branch in branches)


def text_to_add(entry: MadeEntry) -> str:
    """Returns the branch that a person would add by hand."""
    word = "elif" if _read_key(entry).test else "case"
    body = "\n".join(f"    {row}" if row else "" for row in entry.value.strip("\n").split("\n"))
    return f"{word} {entry.key}:\n{body}"


def add_entry(data: bytes, entry: MadeEntry) -> Edit:
    """Adds a branch to the chain that dispatches on what the key asks about.

    Raises:
        RegistryError: The edit is not safe; the hint holds the text to add by hand.
        TemplateError: Key or value is no Python.
    """
    script = read_script(data, entry, text_to_add(entry))
    key = _read_key(entry)
    chains = _chains(script)
    for branch in _all_branches(chains):
        if _is_key(branch, key) and _has_body(branch, key):
            return there(script, data, branch.word)
    chain = _chosen(script, chains, key)
    for branch in chain.branches:
        if _is_key(branch, key):
            line = script.line(branch.word)
            raise script.refusal("registry_differs", line, "the condition has another body here")
    edited = script.with_splices(_insertion(script, chain, key))
    settled(script, data, edited, has_entry, remove_entry)
    after = read_script(edited, entry)
    found = next(each for each in _all_branches(_chains(after)) if _is_key(each, key))
    return Edit(edited, after.line(found.word))


def remove_entry(data: bytes, entry: MadeEntry) -> bytes:
    """Takes a branch back by its condition.

    Raises:
        RegistryError: The function is missing, or nothing would be left of the dispatch.
        TemplateError: Key or value is no Python.
    """
    script = read_script(data, entry)
    key = _read_key(entry)
    found = [
        (chain, n)
        for chain in _chains(script)
        for n, branch in enumerate(chain.branches)
        if _is_key(branch, key)
    ]
    if not found:
        return data
    own = [(chain, n) for chain, n in found if _has_body(chain.branches[n], key)]
    chain, index = (own or found)[0]
    return script.with_splices(_removal(script, chain, index))


# ---- reading -------------------------------------------------------------------------------------


def _read_key(entry: MadeEntry) -> _Key:
    body = parse_block(entry.value, "the body of a branch") if entry.value else []
    if not entry.key:
        return _Key(None, None, body)
    try:
        match = parse_block(f"match _:\n case {entry.key}:\n  pass", "a pattern")[0]
    except TemplateError:
        return _Key(parse_expression(entry.key, "the condition of a branch"), None, body)
    assert isinstance(match, ast.Match)
    return _Key(None, match.cases[0], body)


def _is_key(branch: _Branch, key: _Key) -> bool:
    if branch.case and key.pattern:
        guards = [each.guard and ast.dump(each.guard) for each in (branch.case, key.pattern)]
        same = ast.dump(branch.case.pattern) == ast.dump(key.pattern.pattern)
        return same and guards[0] == guards[1]
    return bool(branch.test and key.test) and _dump(branch.test) == _dump(key.test)


def _has_body(branch: _Branch, key: _Key) -> bool:
    return [ast.dump(each) for each in branch.body] == [ast.dump(each) for each in key.body]


def _dump(node: ast.expr | None) -> str:
    return ast.dump(node) if node else ""


def _segment(script: Script, branch: _Branch) -> str:
    if branch.test:
        return script.segment(branch.test)
    assert branch.case is not None
    last = branch.case.guard or branch.case.pattern
    text = script.raw[script.start(branch.case.pattern) : script.end(last)]
    return text.decode("utf-8")


def _all_branches(chains: Sequence[_Chain]) -> Iterator[_Branch]:
    for chain in chains:
        yield from chain.branches


def _function(script: Script) -> _Function:
    """Returns the function that the table names; dots lead through classes and functions."""
    table = script.entry.table
    bodies: list[list[ast.stmt]] = [script.tree.body]
    found: list[_Function | ast.ClassDef] = []
    for part in table.split("."):
        inner = [each for body in bodies for each in _definitions(body)]
        found = [each for each in inner if each.name == part]
        bodies = [each.body for each in found]
    functions = [each for each in found if isinstance(each, _Function)]
    functions = [each for each in functions if not _is_overload(each)]
    if not functions:
        raise script.refusal("registry_missing", 0, f"no function {table} was found")
    if len(functions) > 1:
        line = functions[1].lineno
        raise script.refusal("registry_computed", line, f"{table} is defined twice")
    return functions[0]


def _definitions(body: list[ast.stmt]) -> Iterator[_Function | ast.ClassDef]:
    for inner in _bodies(body):
        for node in inner:
            if isinstance(node, _Function | ast.ClassDef):
                yield node


def _is_overload(function: _Function) -> bool:
    marks = [ast.unparse(each) for each in function.decorator_list]
    return any(mark.split(".")[-1] == "overload" for mark in marks)


def _bodies(body: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
    """Returns the statement lists of a scope, those of nested functions and classes left out."""
    yield body
    for node in body:
        if not isinstance(node, _Function | ast.ClassDef):
            for inner in _inner_bodies(node):
                yield from _bodies(inner)


def _inner_bodies(node: ast.stmt | ast.ExceptHandler | ast.match_case) -> list[list[ast.stmt]]:
    """Returns the statement lists directly in a statement; an elif lies in its if."""
    found: list[list[ast.stmt]] = []
    for name in ("body", "orelse", "finalbody"):
        inner: list[ast.stmt] = getattr(node, name, [])
        arm = _elif(node) if name == "orelse" and isinstance(node, ast.If) else None
        found += _inner_bodies(arm) if arm else [inner]
    for name in ("handlers", "cases"):
        parts: list[ast.ExceptHandler | ast.match_case] = getattr(node, name, [])
        for part in parts:
            found += _inner_bodies(part)
    return [inner for inner in found if inner]


def _elif(node: ast.If) -> ast.If | None:
    """Returns the elif of an if; an if that is alone in an else is indented deeper."""
    inner = node.orelse[0] if len(node.orelse) == 1 else None
    if isinstance(inner, ast.If) and inner.col_offset == node.col_offset:
        return inner
    return None


def _chains(script: Script) -> list[_Chain]:
    return [chain for body in _bodies(_function(script).body) for chain in _chains_of(script, body)]


def _chains_of(script: Script, body: list[ast.stmt]) -> Iterator[_Chain]:
    """Returns the dispatches among the statements of one list, in the order of the text."""
    lone: list[ast.If] = []
    for node in [*body, ast.Pass()]:
        if isinstance(node, ast.If) and not node.orelse:
            lone.append(node)
            continue
        if lone:
            is_chain = len(lone) == 1 and not _ends_here(lone[0].body)
            branches = tuple(_if_branch(script, each) for each in lone)
            yield _Chain("elif" if is_chain else "if", branches)
            lone = []
        if isinstance(node, ast.If):
            yield _Chain("elif", tuple(_if_branch(script, each) for each in _arms(node)))
        elif isinstance(node, ast.Match):
            yield _Chain("case", tuple(_case_branch(script, each) for each in node.cases))


def _arms(node: ast.If) -> Iterator[ast.If]:
    arm: ast.If | None = node
    while arm:
        yield arm
        arm = _elif(arm)


def _ends_here(body: list[ast.stmt]) -> bool:
    return isinstance(body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)


def _if_branch(script: Script, node: ast.If) -> _Branch:
    word = script.start(node)
    return _Branch(node.test, None, node.body, word, _row(script, word, node.body))


def _case_branch(script: Script, case: ast.match_case) -> _Branch:
    word = script.raw.rindex(b"case", 0, script.start(case.pattern))
    return _Branch(None, case, case.body, word, _row(script, word, case.body))


def _row(script: Script, word: int, body: list[ast.stmt]) -> Row:
    raw = script.raw
    end = line_after(raw, script.end(body[-1]))
    return Row(line_start(raw, word), with_inner_comments(raw, end, indent_at(raw, word)))


# ---- choosing ------------------------------------------------------------------------------------


def _chosen(script: Script, chains: Sequence[_Chain], key: _Key) -> _Chain:
    """Returns the one chain that dispatches on what the key asks about."""
    scores = [_resemblance(chain, key) for chain in chains]
    best = max(scores, default=0)
    table = script.entry.table
    if not best:
        what = "match" if key.pattern else "if"
        line = _function(script).lineno
        reason = f"{table} has no {what} that dispatches on the same as {script.entry.key}"
        raise script.refusal("registry_computed", line, reason)
    found = [chain for chain, score in zip(chains, scores, strict=True) if score == best]
    _check_names(script, key)
    if len(found) > 1:
        lines = [script.line(chain.branches[0].word) for chain in found]
        reason = f"{table} dispatches on it more than once, in lines {', '.join(map(str, lines))}"
        raise script.refusal("registry_computed", lines[1], reason)
    return found[0]


def _check_names(script: Script, key: _Key) -> None:
    """Refuses a condition on a name that the function does not have, a builtin included."""
    function, outer = _function(script), bindings(script.tree)
    nodes = list(ast.walk(function))
    known = {each.arg for each in nodes if isinstance(each, ast.arg)} | outer.keys()
    known |= bindings(ast.Module(function.body, [])).keys()
    for name in sorted(subjects(key.test) if key.test else ()):
        root = name.split(".")[0]
        if root not in known and "*" not in known:
            reason = f"{script.entry.table} has no name {root}"
            raise script.refusal("registry_computed", function.lineno, reason)


def _resemblance(chain: _Chain, key: _Key) -> int:
    return max(_score(branch, key) for branch in chain.branches)


def _score(branch: _Branch, key: _Key) -> int:
    """Returns how much a branch resembles the new one: 3 in form, 2 in subject, 1 in part, or 0."""
    if len(branch.body) == 1 and isinstance(branch.body[0], ast.Raise):
        return 0  # a guard registers nothing
    if branch.case and key.pattern:
        return _pattern_score(branch.case.pattern, key.pattern.pattern)
    if branch.test is None or key.test is None:
        return 0
    if skeleton(branch.test) == skeleton(key.test):
        return 3
    if is_catch_all(branch.test) or not is_dispatch(branch.test):
        return 0
    its, own = subjects(branch.test), subjects(key.test)
    return 2 if its == own else 1 if its & own else 0


def _pattern_score(its: ast.pattern, own: ast.pattern) -> int:
    if is_open_pattern(its):
        return 0
    if pattern_values(its) is not None and pattern_values(own) is not None:
        return 3
    if skeleton(its) == skeleton(own):
        return 3
    return 1 if type(its) is type(own) else 0


def _takes_all(branch: _Branch) -> bool:
    if branch.case:
        return branch.case.guard is None and is_open_pattern(branch.case.pattern)
    return branch.test is not None and is_catch_all(branch.test)


def _takes(branch: _Branch, key: _Key) -> bool:
    """Tells whether an earlier branch would take what the key is for."""
    if branch.test and key.test:
        return implies(key.test, branch.test)
    if branch.case and key.pattern and branch.case.guard is None:
        its, own = (pattern_values(each.pattern) for each in (branch.case, key.pattern))
        return its is not None and own is not None and own <= its
    return False


def _is_taken(branch: _Branch, key: _Key) -> bool:
    """Tells whether the new branch would take what a later one is for."""
    if branch.test and key.test:
        return implies(branch.test, key.test)
    if branch.case and key.pattern and key.pattern.guard is None:
        its, own = (pattern_values(each.pattern) for each in (branch.case, key.pattern))
        return its is not None and own is not None and its <= own
    return False


def _place(script: Script, chain: _Chain, key: _Key) -> int:
    """Returns the index in the chain that the new branch gets."""
    branches = chain.branches
    limit = next((n for n, each in enumerate(branches) if _takes_all(each)), len(branches))
    scores = [_score(branch, key) for branch in branches[:limit]]
    best = max(scores, default=0)
    if not best:
        line = script.line(branches[limit].word)
        raise script.refusal("registry_shadowed", line, "this branch takes everything")
    alike = [n for n, score in enumerate(scores) if score == best]
    index = _sorted_place(branches, alike, key)
    if any(_is_taken(each, key) for each in branches[index:limit]):
        index = max(n for n, score in enumerate(scores) if score) + 1
    for branch in branches[:index]:
        if _takes(branch, key):
            reason = f"this branch takes what {script.entry.key} is for"
            raise script.refusal("registry_shadowed", script.line(branch.word), reason)
    return index


def _sorted_place(branches: Sequence[_Branch], alike: list[int], key: _Key) -> int:
    own = _order_key(key.test, key.pattern)
    keys = [_order_key(branches[n].test, branches[n].case) for n in alike]
    if len(alike) < 2 or None in keys or own is None:  # one branch shows no order
        return alike[-1] + 1
    place = sorted_index([str(each) for each in keys], own)
    return alike[place - 1] + 1 if place else alike[0]


def _order_key(test: ast.expr | None, case: ast.match_case | None) -> str | None:
    node = test or (case.pattern if case else None)
    found = constants(node) if node else None
    return "\0".join(found) if found else None


# ---- writing -------------------------------------------------------------------------------------


def _insertion(script: Script, chain: _Chain, key: _Key) -> Splice:
    raw, branches = script.raw, chain.branches
    index = _place(script, chain, key)
    outer = indent_at(raw, branches[0].word)
    near = branches[index - 1 if index else 0]
    body = _body(script, near, key, outer)
    head = f"{chain.kind} {script.entry.key}:".encode()
    if chain.kind == "elif" and index == 0:  # the first if becomes the elif behind the new one
        text = head.removeprefix(b"el") + body + outer + b"el"
        newline = newline_at(raw, line_after(raw, near.word))
        return Splice(near.word, near.word, text.replace(b"\n", newline))
    rows = [branch.row for branch in branches]
    return insert_row(raw, rows, index, outer + head + body, common_gap(raw, rows))


def _body(script: Script, near: _Branch, key: _Key, outer: bytes) -> bytes:
    """Returns the body behind the colon, on the same line where the sibling has it there."""
    text = script.entry.value.strip("\n")
    is_simple = not hasattr(key.body[0], "body") and len(key.body) == 1 and "\n" not in text
    if is_simple and not begins_line(script.raw, script.start(near.body[0])):
        return f" {text}\n".encode()
    unit = indent_unit(script)
    if begins_line(script.raw, script.start(near.body[0])):
        unit = indent_at(script.raw, script.start(near.body[0]))[len(outer) :]
    return b"\n" + reindented(script, text, outer + unit, unit)


def _removal(script: Script, chain: _Chain, index: int) -> Splice:
    raw, branches = script.raw, chain.branches
    if chain.kind == "elif" and index == 0 and len(branches) > 1:
        splice = Splice(branches[0].word, branches[1].word + len("el"))
    else:
        rows = [branch.row for branch in branches]
        gap = common_gap(raw, rows[:index] + rows[index + 1 :])
        splice = delete_row(raw, rows, index, gap)
    try:
        read_script(script.with_splices(splice), script.entry)
    except RegistryError as error:
        line = script.line(branches[index].word)
        reason = f"{script.entry.table} would be left without a branch"
        raise script.refusal("registry_computed", line, reason) from error
    return splice
