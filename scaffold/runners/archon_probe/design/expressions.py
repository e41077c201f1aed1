"""Find, for a measured option, the simplest expression over config fields that always gives it.

An option is measured under the tiny config and under variations of it. Candidates are tried from
the simplest on; the first that gives every measurement wins, else the one that gives most, and the
variations it misses are what the model will have to refuse.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

ABSENT = "<absent>"
"""The value of an option of a part that an instance does not have."""

TOLERANCE = 5e-5
"""Relative, between a measured number and what an expression gives: fp32 through a few steps."""


@dataclass(frozen=True)
class Case:
    """One configuration that was measured.

    Args:
        name: Of the variation.
        config: What expressions read as ``hf_config``.
        n_layers: Of the model.
    """

    name: str
    config: Any
    n_layers: int


@dataclass
class Fitted:
    """What an option follows from.

    Args:
        text: Python over ``hf_config``, ``i`` and ``n_layers``; None where it is a constant.
        constant: Its value where it is one.
        missed: Names of the cases whose measurement it does not give.
        per_layer: Whether it depends on the layer.
    """

    text: str | None
    constant: Any = None
    missed: list[str] = field(default_factory=list)
    per_layer: bool = False


def equal(found: Any, measured: Any) -> bool:
    """Compare what an expression gives with what was measured."""
    if isinstance(found, bool) or isinstance(measured, bool):
        # A configuration may state a switch as 0 or 1; a measured number is never a switch.
        is_switch = isinstance(found, (bool, int)) and isinstance(measured, bool)
        return is_switch and bool(found) == measured
    if isinstance(found, (int, float)) and isinstance(measured, (int, float)):
        return math.isclose(found, measured, rel_tol=TOLERANCE, abs_tol=1e-12)
    if found is None and measured is None:
        return True
    if isinstance(measured, list) and isinstance(found, (list, tuple)):
        return len(found) == len(measured) and all(map(equal, found, measured))
    return type(found) is type(measured) and found == measured


def _is_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values)


class Fields:
    """The fields that expressions may read.

    Args:
        cases: All configurations; a field counts if one of them has it.
        preferred: Names in the order of preference; others follow.
    """

    def __init__(self, cases: Sequence[Case], preferred: Sequence[str] = ()) -> None:
        self.cases = cases
        self.values: dict[str, list[Any]] = {}
        base = cases[0].config
        # What a class does not declare is only where a configuration states it.
        stated = dict.fromkeys(n for c in cases for n in c.config.to_dict())
        names = [n for n in stated if n not in _NOT_OPTIONS]
        # The sort is stable, so what is not preferred keeps its order behind the rest.
        names.sort(key=lambda n: preferred.index(n) if n in preferred else len(preferred))
        for name in names:
            values = [getattr(c.config, name, None) for c in cases]
            text = f"hf_config.{name}"
            if not all(hasattr(c.config, name) for c in cases):
                default = False if any(isinstance(v, bool) for v in values) else None
                values = [getattr(c.config, name, default) for c in cases]
                text = f"getattr(hf_config, {name!r}, {default})"
            self._add(text, values)
        for name in (n for n in names if hasattr(getattr(base, n, None), "to_dict")):
            parts = [getattr(c.config, name, None) for c in cases]
            for inner in getattr(base, name).to_dict():
                if inner not in _NOT_OPTIONS:
                    values = [getattr(part, inner, None) for part in parts]
                    self._add(f"hf_config.{name}.{inner}", values)
        # A number of a list is tried last.
        for text, values in list(self.values.items()):
            self._add_entries(text, values)
        self.order = list(self.values)

    def _add_entries(self, text: str, values: list[Any]) -> None:
        """Add each number of a list that is as long in every case, and not one for each layer."""
        rows = [v for v in values if isinstance(v, (list, tuple)) and _is_numbers(v)]
        counts = {len(row) for row in rows}
        is_one_size = len(rows) == len(values) and len(counts) == 1
        if "rope" in text or not is_one_size or counts == {self.cases[0].n_layers}:
            return
        for i in range(counts.pop()):
            self.values[f"{text}[{i}]"] = [row[i] for row in rows]

    def _add(self, text: str, values: list[Any]) -> None:
        # A field that never has a value decides nothing.
        if all(v is None for v in values):
            return
        self.values[text] = values
        if "rope" in text:
            return  # whole dictionaries of it are read as one option
        parts = [v if isinstance(v, dict) else {} for v in values]
        for key in dict.fromkeys(k for part in parts for k in part):
            self._add(f"{text}[{key!r}]", [part.get(key) for part in parts])

    def prefer(self, path: str) -> None:
        """Let fields whose names share a word with an option's come first.

        Several fields may have one value in a tiny configuration; the one that is called alike is
        tried before the rest.
        """
        words = {w for w in re.split(r"[\W_]+", path) if len(w) > 2} - _PARTS

        def distance(text: str) -> int:
            name = text.removeprefix("hf_config.")
            parts = [w for w in re.split(r"[\W_]+", name) if len(w) > 2]
            return -sum(any(p.startswith(w) or w.startswith(p) for w in words) for p in parts)

        order = sorted(self.order, key=distance)
        self.values = {t: self.values[t] for t in order}

    def of(self, *kinds: type) -> list[str]:
        """Return fields that have a value of one of the kinds in some case."""

        def counts(value: Any) -> bool:
            return isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))

        return [text for text, values in self.values.items() if any(map(counts, values))]


_PARTS = {"attention", "mlp", "moe", "norm", "head", "embedding", "modules", "block", "when"}
"""Words of paths that locate an option and do not name it."""

_NOT_OPTIONS = {
    *("transformers_version", "architectures", "dtype", "torch_dtype", "model_type"),
    *("_name_or_path", "use_cache", "id2label", "label2id", "return_dict", "problem_type"),
    *("output_hidden_states", "output_attentions", "chunk_size_feed_forward"),
    *("is_encoder_decoder", "initializer_range", "bos_token_id", "eos_token_id"),
    *("sep_token_id", "cls_token_id"),
}


def evaluate(text: str, case: Case, i: int = 0) -> Any:
    """Return an expression's value, or ABSENT where it has none."""
    # Candidates are made of the configuration's own field names and of constants.
    scope = {"hf_config": case.config, "n_layers": case.n_layers, "i": i, "math": math}
    try:
        return eval(_compiled(text), scope)
    except Exception:
        return ABSENT


@functools.cache  # every candidate is tried on every case and layer
def _compiled(text: str) -> Any:
    return compile(text, "<candidate>", "eval")


def fit(measured: Sequence[Any], fields: Fields, is_size: bool = False) -> Fitted:
    """Fit an option of the model as a whole.

    Args:
        measured: Its value in each case, ABSENT where it has none.
        fields: Of the cases.
        is_size: It is a size that a tiny config shrinks, so it must follow from a field.
    """
    present = [i for i, v in enumerate(measured) if v != ABSENT]
    values = [measured[i] for i in present]
    if not values:
        return Fitted(None, None)
    if not is_size and all(equal(v, values[0]) for v in values):
        return Fitted(None, values[0])
    best = Fitted(None, values[0])
    best.missed = [fields.cases[i].name for i in present if not equal(measured[i], values[0])]
    rows = [(fields.cases[i], [measured[i]]) for i in present]
    return _best(_candidates(values, fields), rows, best, fields.cases[present[0]], is_size)


def _best(
    candidates: Iterable[str],
    rows: Sequence[tuple[Case, Sequence[Any]]],
    best: Fitted,
    base: Case,
    is_size: bool = False,
) -> Fitted:
    """Return the first candidate that gives every measurement, or else what gives most.

    Args:
        candidates: Expressions, the simplest first.
        rows: By case, what was measured in each layer.
        best: What is taken where no candidate gives more.
        base: The case that has to be right: what misses the default is wrong, whatever it gives.
        is_size: A candidate is better than a constant that misses as few.
    """
    for text in candidates:
        missed: list[str] = []
        for case, row in rows:
            if all(v == ABSENT or equal(evaluate(text, case, i), v) for i, v in enumerate(row)):
                continue
            missed.append(case.name)
            if case is base or len(missed) >= len(best.missed) + is_size:
                break
        else:
            if len(missed) < len(best.missed) or (is_size and best.text is None):
                best = Fitted(text, missed=missed, per_layer=best.per_layer)
                if not missed:
                    return best
    return best


def _distinct(values: Iterable[Any]) -> list[Any]:
    """Return values of which no two are equal as measurements."""
    found: list[Any] = []
    for value in values:
        if not any(equal(value, other) for other in found):
            found.append(value)
    return found


def _candidates(values: Sequence[Any], fields: Fields) -> Iterator[str]:
    if all(isinstance(v, bool) for v in values):
        yield from _conditions(fields)
    elif all(isinstance(v, str) or v is None for v in values):
        names = fields.of(str)
        constants = [repr(v) for v in dict.fromkeys(v for v in values if v)]
        yield from names
        yield from (f"{a} or {b}" for a in names for b in (*names, *constants))
        yield from _choices(values, fields)
    elif all(isinstance(v, (int, float)) or v is None for v in values):
        if None in values:
            numbers = fields.of(int, float)
            yield from numbers
            yield from (f"{n} if {c} else None" for c in _conditions(fields) for n in numbers)
        yield from _numbers(fields)
        yield from _choices(values, fields)
        yield from _rounded_widths(fields)
    else:
        yield from fields.of(list, tuple)


# Of one field, and of two: where their order does not matter, and where it does.
_OF_ONE = ("{a}**-0.5", "1.0 / {a}", "{a}**0.5", "-{a}", *(f"{n} * {{a}}" for n in (2, 3, 4, 8)))
_CHOSEN = ("{a} // {b}", "{a} or {b}")
_UNORDERED = ("{a} * {b}", "{a} + {b}")
_ORDERED = (
    "{a} / {b}",
    "{a} / {b}**0.5",
    "({a} * {b})**-0.5",
    "({a} // {b})**-0.5",
    "({a} / {b})**0.5",
    "int({a} * {b})",
    "{a} or 4 * {b}",
)


def _numbers(fields: Fields) -> Iterator[str]:
    names = fields.of(int, float)
    yield from names
    yield from (form.format(a=a) for a in names for form in _OF_ONE)
    for pairs, forms in (
        (itertools.permutations, _CHOSEN),
        (itertools.combinations, _UNORDERED),
        (itertools.permutations, _ORDERED),
    ):
        yield from (form.format(a=a, b=b) for a, b in pairs(names, 2) for form in forms)
    whole = fields.of(int)
    yield from (f"{a} or {b} // {c}" for a, b, c in itertools.permutations(whole, 3))
    yield from (f"({b} // {c})**0.5" for b, c in itertools.permutations(whole, 2))


def _rounded_widths(fields: Fields) -> Iterator[str]:
    """Yield two thirds of a width, scaled and rounded up to a multiple.

    Source: the feed-forward of the first LLaMA, whose gate costs a third of the width.
    """
    for a, b in itertools.permutations(fields.of(int), 2):
        for factor in fields.of(float):
            text = f"-(-int({factor} * int(2 * {a} / 3)) // {b}) * {b}"
            yield text
            for condition in fields.of(bool):
                yield f"{text} if {condition} else {a}"


def _choices(values: Sequence[Any], fields: Fields) -> Iterator[str]:
    """Yield one of two constants or fields under a condition."""
    constants = [repr(value) for value in _distinct(values)]
    conditions = list(_conditions(fields, deep=False))
    if len(constants) == 2:
        yield from _either(conditions, [tuple(constants)])
    numbers = fields.of(int, float) if not isinstance(values[0], str) else fields.of(str)
    yield from _either(conditions, itertools.product(numbers, constants[:3]))
    yield from (
        f"{a} if {c} else {b}" for c in conditions for a, b in itertools.permutations(numbers, 2)
    )


def _either(conditions: Iterable[str], pairs: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yield one of two under each condition, and the other one."""
    pairs = list(pairs)
    for condition in conditions:
        for a, b in pairs:
            yield f"{a} if {condition} else {b}"
            yield f"{b} if {condition} else {a}"


def _conditions(fields: Fields, deep: bool = True) -> Iterator[str]:
    """Yield conditions on the configuration, the simplest first."""
    simple: list[str] = []
    for text in fields.of(bool):
        simple += [text, f"not {text}"]
    for text, values in fields.values.items():
        if None in values:
            simple += [f"{text} is not None", f"{text} is None"]
    for text in fields.of(str):
        for value in dict.fromkeys(v for v in fields.values[text] if isinstance(v, str)):
            simple += [f"{text} == {value!r}", f"{text} != {value!r}"]
    for text in [t for t in fields.of(str) if t in fields.of(bool)]:
        # A switch whose states also have names, such as True and "per-head".
        known = dict.fromkeys(v for v in fields.values[text] if isinstance(v, (bool, str)))
        simple += [f"{text} in {pair!r}" for pair in itertools.combinations(known, 2)]
    for text in fields.of(int, float):
        numbers = [v for v in fields.values[text] if v is not None and not isinstance(v, bool)]
        if 0 in numbers:
            simple += [f"bool({text})", f"not {text}"]
        whole = [v for v in numbers if isinstance(v, int)]
        # Where a count begins to matter: above none, or above one.
        if any(v > 0 for v in whole) and any(v <= 0 for v in whole):
            simple += [f"{text} > 0", f"{text} <= 0"]
        elif 1 in whole:
            simple += [f"{text} > 1", f"{text} <= 1"]
    for text in fields.of(list, tuple):
        simple += [f"bool({text})", f"not {text}"]
    if not deep:
        yield from simple
        return
    for a, b in itertools.permutations(fields.of(int), 2):
        simple += [f"{a} != {b}", f"{a} > {b}"]
    yield from simple
    yield from _joined([s for s in simple if _varies(s, fields)])


def _joined(conditions: Sequence[str]) -> Iterator[str]:
    """Yield two of the conditions at a time: both, or one of them."""
    for a, b in itertools.combinations(conditions, 2):
        yield f"{a} and {b}"
        yield f"{a} or {b}"


def _varies(text: str, fields: Fields) -> bool:
    found = {str(evaluate(text, c)) for c in fields.cases}
    return len(found - {ABSENT}) > 1


# --- options that depend on the layer


def fit_layers(measured: Sequence[Sequence[Any]], fields: Fields) -> Fitted:
    """Fit an option of layers.

    Args:
        measured: For each case its value in each layer.
        fields: Of the cases.
    """
    uniform = uniform_values(measured)
    if uniform is not None:
        return fit(uniform, fields)
    # Different by layer: an expression has to have the measured value in each layer of each case.
    present = {str(v): v for row in measured for v in row if v != ABSENT}
    best = Fitted(None, missed=[c.name for c in fields.cases], per_layer=True)
    candidates = _layer_candidates(list(present.values()), fields, measured)
    rows = list(zip(fields.cases, measured, strict=True))
    return _best(candidates, rows, best, fields.cases[0])


def uniform_values(measured: Sequence[Sequence[Any]]) -> list[Any] | None:
    """Return the value that all layers of a case have, for each case; None where some differ."""
    rows = [[v for v in row if v != ABSENT] for row in measured]
    if any(not equal(v, row[0]) for row in rows for v in row):
        return None
    return [row[0] if row else ABSENT for row in rows]


def _tells_apart(condition: str, fields: Fields, measured: Sequence[Sequence[Any]]) -> bool:
    """Return whether in each case a condition gives all layers of one value one answer."""
    for case, row in zip(fields.cases, measured, strict=True):
        answers: dict[bool, Any] = {}
        for i, value in enumerate(row):
            if value == ABSENT:
                continue
            found = evaluate(condition, case, i)
            if found == ABSENT or not equal(answers.setdefault(bool(found), value), value):
                return False
    return True


def _layer_candidates(
    values: list[Any], fields: Fields, measured: Sequence[Sequence[Any]]
) -> Iterator[str]:
    if all(isinstance(v, bool) for v in values):
        yield from layer_conditions(fields)
        return
    for text in fields.of(list, tuple):
        yield f"{text}[i]"
    yield "i"
    is_text = isinstance(next((v for v in values if v is not None), None), str)
    known = fields.of(str) if is_text else fields.of(int, float)
    if all(isinstance(v, float) for v in values):
        yield from _layer_numbers(fields)
    # Conditions that part layers of one value are dropped before they are combined with numbers.
    simple = layer_conditions(fields, deep=False)
    conditions = [c for c in simple if _tells_apart(c, fields, measured)]
    for condition in conditions:
        for a, b in itertools.permutations(["None", *known], 2):
            yield f"{a} if {condition} else {b}"
    # Only then constants: a field follows the configuration, and a constant does not.
    constants = [repr(d) for d in _distinct(values)[:4]]
    for condition in conditions:
        pairs = ((number, constant) for constant in constants for number in ["None", *known])
        yield from _either([condition], pairs)
        for a, b in itertools.permutations(constants, 2):
            yield f"{a} if {condition} else {b}"
    if all(isinstance(v, int) for v in values):
        multiples = [(number, f"{n} * {number}") for number in known for n in (2, 3, 4)]
        yield from _either(conditions, multiples)
    # The deeper conditions are many, so they go with None alone.
    for condition in layer_conditions(fields):
        if _tells_apart(condition, fields, measured):
            yield from (f"{number} if {condition} else None" for number in known)
    # A field may count the keys on one side of a token or on both, and the token is one of neither.
    for condition, number in itertools.product(conditions, known) if not is_text else ():
        yield f"{number} + 1 if {condition} else None"
        yield f"{number} // 2 + 1 if {condition} else None"


def _layer_numbers(fields: Fields) -> Iterator[str]:
    """Yield numbers that follow from the layer's number."""
    shifts = ("i + 1", "2 * i + 1", "2 * (i + 1)", "2 * i + 3")
    for s in shifts:
        yield from (f"1.0 / ({s})", f"({s})**-0.5", f"(({s} - 1) / ({s}))**0.5")
    for s, number in itertools.product(shifts, fields.of(int, float)):
        yield from (f"{number} / ({s})", f"{number}**-0.5 / ({s})")


def _by_count(text: str) -> list[str]:
    """Return the conditions that a field counts layers in the model, or in each period of it."""
    periods = [f"{i} % {text} {sign} 0" for i in ("(i + 1)", "i") for sign in ("==", "!=")]
    return [f"i >= {text}", f"i < {text}", *periods]


_BY_PLACE = (
    *("i == n_layers - 1", "i != n_layers - 1", "i == 0", "i != 0"),
    *("i % 2 == 0", "i % 2 == 1"),
)


def layer_conditions(fields: Fields, deep: bool = True) -> Iterator[str]:
    """Yield conditions on a layer's number ``i``, the simplest first."""
    simple: list[str] = []
    for text in fields.of(list, tuple):
        rows = [v for v in fields.values[text] if isinstance(v, (list, tuple))]
        for value in dict.fromkeys(v for row in rows for v in row if isinstance(v, str)):
            simple += [f"{text}[i] == {value!r}", f"{text}[i] != {value!r}"]
        if any(isinstance(v, (bool, int)) for row in rows for v in row) or any(not r for r in rows):
            simple += [f"bool({text}[i])", f"not {text}[i]", f"i in {text}", f"i not in {text}"]
    whole_numbers = fields.of(int)
    # In a tiny model a period may be longer than all layers, so that only its name shows it.
    for period in (text for text in whole_numbers if text.endswith("_period")):
        offset = f"{period.removesuffix('_period')}_offset"
        if offset in fields.values:
            simple += [f"i % {period} == {offset}", f"i % {period} != {offset}"]
    # Where a width would do, or the number of all layers, the first layer is what is meant.
    totals = [c.n_layers for c in fields.cases]
    counts = [
        text
        for text in whole_numbers
        if (fields.values[text][0] or 0) <= totals[0] and fields.values[text] != totals
    ]
    simple += itertools.chain.from_iterable(map(_by_count, counts))
    simple += _BY_PLACE
    widths = (text for text in whole_numbers if text not in counts)
    simple += itertools.chain.from_iterable(map(_by_count, widths))
    yield from simple
    ends = list(_ends(fields))
    yield from itertools.chain.from_iterable(ends)
    whole = [c for c in _conditions(fields, deep=False) if _varies(c, fields)]
    for a, b in itertools.product(simple, whole):
        yield f"{a} and {b}"
        yield f"{a} or {b}"
    if not deep:
        return
    useful = [s for s in simple if _splits(s, fields)]
    yield from _joined(useful)
    for a, b in itertools.combinations(useful, 2):
        yield from (f"{a} and {b} and {c}" for c in whole)
    yield from map(" and ".join, itertools.combinations(useful, 3))
    # A range: layers from one on, each of so many, up to another, and those outside of it.
    for until, after in ends:
        for some in (*((a,) for a in useful), *itertools.combinations(useful, 2)):
            yield " and ".join((*some, until))
            yield " or ".join((*some, after))


def _ends(fields: Fields) -> Iterator[tuple[str, str]]:
    """Yield conditions that a layer comes no later than the one a field names, with opposites.

    A field that is None ends nothing; one below zero counts from the last layer, as lists do.
    """
    for text in fields.of(int):
        values = [v for v in fields.values[text] if v is None or isinstance(v, int)]
        last = f"{text} % n_layers" if any(v is not None and v < 0 for v in values) else text
        until, after = f"i <= {last}", f"i > {last}"
        if None in values:
            until, after = f"({text} is None or {until})", f"({text} is not None and {after})"
        if _splits(until, fields):
            yield until, after


def _splits(text: str, fields: Fields) -> bool:
    """Return whether a condition differs between layers in some case."""
    return any(
        len({str(evaluate(text, c, i)) for i in range(c.n_layers)} - {ABSENT}) > 1
        for c in fields.cases
    )
