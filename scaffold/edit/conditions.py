"""What the conditions of a dispatch ask about, and which of them another one includes.

Only what can be told from the text counts: equality, membership, prefixes, suffixes, truth and
their combinations with ``and`` and ``or``. Any other condition is taken for an unrelated one.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class _Fact:
    """A condition that the subject is one of, contains, starts or ends with one of the values."""

    kind: str
    subject: str
    values: frozenset[object]


# (kind known, kind asked) -> whether the known text settles the question: a subject that starts
# with "gsm8k" also contains "gsm". Pairs that are missing settle nothing.
_IMPLIED: dict[tuple[str, str], Callable[[str, str], bool]] = {
    ("is", "has"): lambda known, asked: asked in known,
    ("has", "has"): lambda known, asked: asked in known,
    ("starts", "has"): lambda known, asked: asked in known,
    ("ends", "has"): lambda known, asked: asked in known,
    ("is", "starts"): lambda known, asked: known.startswith(asked),
    ("starts", "starts"): lambda known, asked: known.startswith(asked),
    ("is", "ends"): lambda known, asked: known.endswith(asked),
    ("ends", "ends"): lambda known, asked: known.endswith(asked),
}


def subjects(test: ast.expr) -> frozenset[str]:
    """Return the names and dotted names that a condition asks about, not what it calls."""
    if isinstance(test, ast.Name | ast.Attribute):
        dotted = _dotted(test)
        if dotted:
            return frozenset({dotted})
    if isinstance(test, ast.Call):
        # The second argument of isinstance names a class, which nobody dispatches on.
        is_check = isinstance(test.func, ast.Name) and test.func.id in ("isinstance", "issubclass")
        inner = test.args[:1] if is_check else test.args
        # The callee itself is left out: two conditions that both call `len` need have nothing in
        # common.
        inner = [*inner, *(each.value for each in test.keywords)]
        # `path.startswith("a")` asks about `path`.
        if isinstance(test.func, ast.Attribute):
            inner.append(test.func.value)
    else:
        inner = [each for each in ast.iter_child_nodes(test) if isinstance(each, ast.expr)]
    return frozenset[str]().union(*(subjects(each) for each in inner))


def skeleton(node: ast.AST) -> str:
    """Return a condition's form: equal for two that differ in their constants only."""
    # The tree belongs to the caller, and blanking its constants would change what is written.
    blank = copy.deepcopy(node)
    for each in ast.walk(blank):
        if isinstance(each, ast.Constant):
            # The type stays: `kind == 1` and `kind == "a"` are not of one form.
            each.value = type(each.value).__name__
    return ast.dump(blank)


def constants(node: ast.AST) -> tuple[str, ...] | None:
    """Return the strings of a condition in the order of the text; None where others are in it."""
    found = [each for each in ast.walk(node) if isinstance(each, ast.Constant)]
    # ast.walk goes level by level, which is not the order of the text.
    found.sort(key=lambda each: (each.lineno, each.col_offset))
    if not found or not all(isinstance(each.value, str) for each in found):
        return None
    return tuple(str(each.value) for each in found)


def is_dispatch(test: ast.expr) -> bool:
    """Return whether a condition compares a subject with fixed values."""
    if isinstance(test, ast.BoolOp):
        return any(is_dispatch(each) for each in test.values)
    fact = _fact(test)
    return fact is not None and fact.kind != "some"


def is_catch_all(test: ast.expr) -> bool:
    """Return whether a condition holds for every usual value of its subject."""
    if isinstance(test, ast.BoolOp):
        # `name or x` holds as soon as one part does, `name and x` only where both do.
        combine = any if isinstance(test.op, ast.Or) else all
        return combine(is_catch_all(each) for each in test.values)
    fact = _fact(test)
    is_true = isinstance(test, ast.Constant) and bool(test.value)
    return is_true or (fact is not None and fact.kind == "some")


def implies(known: ast.expr, asked: ast.expr) -> bool:
    """Return whether ``asked`` holds wherever ``known`` does, as far as the text shows."""
    # What must hold as a whole is taken apart before what may hold in part: in the other order
    # `a or b` would not imply itself.
    if isinstance(asked, ast.BoolOp) and isinstance(asked.op, ast.And):
        return all(implies(known, each) for each in asked.values)
    if isinstance(known, ast.BoolOp) and isinstance(known.op, ast.Or):
        return all(implies(each, asked) for each in known.values)
    if isinstance(known, ast.BoolOp):
        return any(implies(each, asked) for each in known.values)
    if isinstance(asked, ast.BoolOp):
        return any(implies(known, each) for each in asked.values)
    if ast.dump(known) == ast.dump(asked):
        return True
    if isinstance(asked, ast.Constant):
        return bool(asked.value)
    return _fact_implies(_fact(known), _fact(asked))


def pattern_values(pattern: ast.pattern) -> frozenset[object] | None:
    """Return the values that a pattern matches, None where it is no list of values."""
    if isinstance(pattern, ast.MatchOr):
        parts = [pattern_values(each) for each in pattern.patterns]
        if any(part is None for part in parts):
            return None
        return frozenset[object]().union(*(part for part in parts if part is not None))
    if isinstance(pattern, ast.MatchValue):
        value = pattern.value
        return frozenset({value.value if isinstance(value, ast.Constant) else ast.dump(value)})
    return None


def is_open_pattern(pattern: ast.pattern) -> bool:
    """Return whether a pattern takes every value, or every string."""
    if isinstance(pattern, ast.MatchOr):
        return any(is_open_pattern(each) for each in pattern.patterns)
    if isinstance(pattern, ast.MatchAs):
        return pattern.pattern is None or is_open_pattern(pattern.pattern)
    if isinstance(pattern, ast.MatchClass):
        return _dotted(pattern.cls) == "str" and not (pattern.patterns or pattern.kwd_patterns)
    return False


def _fact_implies(known: _Fact | None, asked: _Fact | None) -> bool:
    if known is None or asked is None or known.subject != asked.subject:
        return False
    # An empty value is equal to the subject and false all the same.
    if asked.kind == "some":
        return all(known.values) and bool(known.values)
    # Equality holds for values of any type; the rules below read strings.
    if known.kind == asked.kind == "is":
        return known.values <= asked.values
    rule = _IMPLIED.get((known.kind, asked.kind))
    if rule is None or not all(isinstance(each, str) for each in known.values | asked.values):
        return False
    return all(any(rule(str(k), str(a)) for a in asked.values) for k in known.values)


def _fact(test: ast.expr) -> _Fact | None:
    if isinstance(test, ast.Name | ast.Attribute):
        return _Fact("some", ast.dump(test), frozenset())
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return _comparison(test.left, test.ops[0], test.comparators[0])
    if isinstance(test, ast.Call):
        return _call(test)
    return None


def _comparison(left: ast.expr, operator: ast.cmpop, right: ast.expr) -> _Fact | None:
    left_values, right_values = _values(left), _values(right)
    # `"x" == name` is as good as `name == "x"`; two constants or two names give none.
    if isinstance(operator, ast.Eq) and (left_values is None) != (right_values is None):
        subject = right if right_values is None else left
        value = left_values if right_values is None else right_values
        if isinstance(subject, ast.Constant) or not value:
            return None
        return _Fact("is", ast.dump(subject), value)
    if isinstance(operator, ast.In) and right_values is not None and left_values is None:
        # In `name in "abc"` the right side is a text to search and no list of values.
        if not isinstance(right, ast.Tuple | ast.List | ast.Set):
            return None
        return _Fact("is", ast.dump(left), right_values)
    if isinstance(operator, ast.In) and isinstance(left, ast.Constant) and right_values is None:
        return _Fact("has", ast.dump(right), frozenset({left.value}))
    if isinstance(operator, ast.IsNot) and isinstance(right, ast.Constant) and right.value is None:
        return _Fact("some", ast.dump(left), frozenset())
    return None


def _call(test: ast.Call) -> _Fact | None:
    if isinstance(test.func, ast.Attribute) and test.func.attr in ("startswith", "endswith"):
        values = _values(test.args[0]) if len(test.args) == 1 else None
        if values:
            kind = test.func.attr.removesuffix("with")
            return _Fact(kind, ast.dump(test.func.value), values)
    is_check = isinstance(test.func, ast.Name) and test.func.id == "isinstance"
    if is_check and len(test.args) == 2 and _dotted(test.args[1]) == "str":
        return _Fact("some", ast.dump(test.args[0]), frozenset())
    return None


def _values(node: ast.expr) -> frozenset[object] | None:
    """Return the constants that an expression lists; enumeration members count as constants."""
    if isinstance(node, ast.Constant):
        return frozenset({node.value})
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        parts = [_values(each) for each in node.elts]
        if any(part is None for part in parts):
            return None
        return frozenset[object]().union(*(part for part in parts if part is not None))
    # Two spellings of one member differ here, which only makes the rules more careful.
    if isinstance(node, ast.Attribute) and node.attr.isupper():
        return frozenset({ast.dump(node)})
    return None


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        outer = _dotted(node.value)
        return f"{outer}.{node.attr}" if outer else ""
    return ""
