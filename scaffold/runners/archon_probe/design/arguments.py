"""Turn measured options into values of a design: literals, arguments and expressions."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from archon_probe.design.expressions import (
    ABSENT,
    Case,
    Fields,
    Fitted,
    equal,
    evaluate,
    fit,
    fit_layers,
    uniform_values,
)
from archon_probe.measure.observation import Observation
from archon_probe.measure.tiny import layer_lists

STANDARD = {
    "dim": "int",
    "n_layers": "int",
    "n_heads": "int",
    "n_kv_heads": "int",
    "head_dim": "int",
    "hidden_dim": "int",
    "vocab_size": "int",
    "norm_eps": "float",
    "max_seq_len": "int",
    "enable_weight_tying": "bool",
    "eos_id": "int | list[int] | None",
}
"""Arguments every model has, in their order, with their types."""

# Of fields that have one value in a tiny configuration these are tried first.
PREFERRED = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "intermediate_size",
    "vocab_size",
)

# Options that follow from a field even where no variation has changed them.
SIZES = {
    "dim",
    "n_layers",
    "n_heads",
    "n_kv_heads",
    "head_dim",
    "v_head_dim",
    "hidden_dim",
    "vocab_size",
    "num_experts",
    "top_k",
}


def read(value: Any, *keys: Any) -> Any:
    """Return an entry of a feature, ABSENT where the feature has none.

    Args:
        value: A feature, or ABSENT.
        keys: From the outermost; the last may be a function of what the others lead to.
    """
    if isinstance(value, str) and value == ABSENT:
        return ABSENT
    try:
        for key in keys:
            value = key(value) if callable(key) else value[key]
    except (KeyError, TypeError, IndexError):
        return ABSENT
    return value


def each(rows: list[list[Any]], *keys: Any) -> list[list[Any]]:
    """Return `read` of each feature, by case and layer."""
    return [[read(value, *keys) for value in row] for row in rows]


class Arguments:
    """The arguments of a model, collected while its options are fitted.

    Args:
        real: The configuration that gives defaults.
        measured: Observations by case.
    """

    def __init__(self, real: Case, measured: Sequence[tuple[Case, Observation]]) -> None:
        self.real, self.measured = real, measured
        self.cases = [case for case, _ in measured]
        self.fields = Fields(self.cases, PREFERRED)
        self.args: dict[str, dict[str, Any]] = {}
        self.by_text: dict[tuple[str, bool], str] = {}
        self.known: dict[str, list[Any]] = {}
        self.missed: dict[str, set[str]] = {}
        self.evidence: list[dict[str, Any]] = []

    def whole(self, get: Callable[[Observation], Any]) -> list[Any]:
        """Return an option of the model in each case."""
        return [read(observation, get) for _, observation in self.measured]

    def rows(self, get: Callable[[dict[str, Any]], Any]) -> list[list[Any]]:
        """Return an option of layers in each case."""
        return each([observation.layers for _, observation in self.measured], get)

    def modules(self, name: str) -> list[list[Any]]:
        """Return the features of one module of each layer in each case."""
        return self.rows(lambda layer: layer["modules"][name])

    def standard(
        self, name: str, measured: Sequence[Any], path: str, is_of_some: bool = False
    ) -> Any:
        """Fit one of the arguments that every model has.

        Args:
            name: Of the argument.
            measured: In each case.
            path: For the evidence.
            is_of_some: Layers differ in it, so what it misses is left to the option of each layer.
        """
        self.fields.prefer("")
        fitted = fit(measured, self.fields, is_size=name in SIZES)
        if name == "n_layers":
            fitted = self._counted(fitted)
        if is_of_some and fitted.text is not None:
            measured = [evaluate(fitted.text, case) for case in self.cases]
            fitted = replace(fitted, missed=[])
        self._note(path, fitted)
        if fitted.text is None and name in SIZES:
            raise ValueError(f"{path}: no config field gives the sizes {measured}")
        # Later arguments have a default for each layer of the real configuration.
        if name == "n_layers" and fitted.text is not None:
            self.real = replace(self.real, n_layers=evaluate(fitted.text, self.real))
        self.known[name] = list(measured)
        return self.add(name, STANDARD[name], fitted)

    def _counted(self, fitted: Fitted) -> Fitted:
        """Return a number of layers that is whole, also where no variation has another one."""
        if fitted.text is None or isinstance(evaluate(fitted.text, self.real), int):
            return fitted
        lists = map(layer_lists, (case.config for case in (self.real, *self.cases)))
        shared = set.intersection(*map(set, lists))
        return replace(fitted, text=f"len(hf_config.{min(shared)})") if shared else fitted

    def add(self, name: str, kind: str, fitted: Fitted, doc: str = "") -> dict[str, Any]:
        """Add an argument, and return the value that reads it."""
        text = fitted.text if fitted.text is not None else repr(fitted.constant)
        key = (text, fitted.per_layer)
        # One expression is one argument, whatever options read it.
        if key in self.by_text and name not in STANDARD:
            name = self.by_text[key]
        else:
            names = itertools.chain([name], (f"{name}_{n}" for n in itertools.count(2)))
            name = next(free for free in names if free not in self.args)
            self.by_text.setdefault(key, name)
            layers = range(self.real.n_layers)
            self.args[name] = {
                "name": name,
                "type": kind,
                "default": [_plain(evaluate(text, self.real, i)) for i in layers]
                if fitted.per_layer
                else _plain(evaluate(text, self.real)),
                "expr": f"tuple({text} for i in range(n_layers))" if fitted.per_layer else text,
                "doc": doc,
            }
        return {"layer_arg" if fitted.per_layer else "arg": name}

    def value(
        self,
        path: str,
        measured: Sequence[Any],
        relations: Sequence[str] = (),
        name: str | None = None,
        is_size: bool = False,
    ) -> Any:
        """Fit an option that is the same in all layers.

        Args:
            path: Of the option in the design, for the evidence.
            measured: In each case, ABSENT where it has none.
            relations: Expressions over standard arguments that are tried first.
            name: Of the argument where no single field gives one.
            is_size: See ``fit``.
        """
        self.fields.prefer(path)
        relation = self._relation(measured, relations)
        if relation is not None:
            self._evidence(path, relation, "in every instance that was measured")
            if re.fullmatch(r"args\.\w+", relation):
                return {"arg": relation.removeprefix("args.")}
            return {"expr": relation}
        fitted = fit(measured, self.fields, is_size)
        if fitted.missed:
            chosen = self._chosen(path, measured, relations)
            chosen = chosen or self._stated(path, measured, relations)
            chosen = chosen or self._multiplied(path, measured, relations)
            if chosen is not None:
                return chosen
        return self._given(path, fitted, name, measured)

    def _chosen(
        self, path: str, measured: Sequence[Any], relations: Sequence[str]
    ) -> dict[str, str] | None:
        """Return one of two relations under a condition on the configuration, if that fits."""
        # ABSENT where both relations or none hold: such a case does not decide the condition.
        fits = [
            [r for r in relations if value != ABSENT and self._holds(r, i, value)]
            for i, value in enumerate(measured)
        ]
        used = [f for f, value in zip(fits, measured, strict=True) if value != ABSENT]
        # Each case fits one of the two, by a condition on the configuration.
        for first, second in itertools.permutations(relations, 2):
            if not all(first in f or second in f for f in used):
                continue
            answers = [
                ABSENT if not f or (first in f and second in f) else first in f for f in fits
            ]
            # The condition is an option of its own: true, false, or absent where both relations
            # fit.
            fitted = fit(answers, self.fields)
            # The order of the relations decides between a flag and its opposite.
            if fitted.text is None or fitted.missed or fitted.text.startswith("not "):
                continue
            flag = self._given(f"{path}.is_scaled", fitted, None, answers)
            return {"expr": f"({first} if args.{flag['arg']} else {second})"}
        return None

    def _stated(
        self, path: str, measured: Sequence[Any], relations: Sequence[str]
    ) -> dict[str, str] | None:
        """Return a field with the relation that holds where the field is None, if that fits."""
        for text in self.fields.of(int, float):
            stated = self.fields.values[text]
            if all(v is not None for v in stated):
                continue
            for relation in relations:
                if all(
                    m == ABSENT or (self._holds(relation, i, m) if v is None else equal(v, m))
                    for i, (v, m) in enumerate(zip(stated, measured, strict=True))
                ):
                    arg = self._given(path, Fitted(text), None, [*stated, None])["arg"]
                    return {"expr": f"({relation} if args.{arg} is None else args.{arg})"}
        return None

    def _multiplied(
        self, path: str, measured: Sequence[Any], relations: Sequence[str]
    ) -> dict[str, str] | None:
        """Return a relation that a field multiplies in every case, if there is one."""
        for text in self.fields.of(float):
            factors = self.fields.values[text]
            for relation in relations:
                if all(
                    m == ABSENT or (f and self._holds(relation, i, m / f))
                    for i, (f, m) in enumerate(zip(factors, measured, strict=True))
                ):
                    arg = self._given(f"{path}.multiplier", Fitted(text), None, factors)["arg"]
                    return {"expr": f"{relation} * args.{arg}"}
        return None

    def _divided_by_layer(
        self, path: str, measured: Sequence[Sequence[Any]], relations: Sequence[str]
    ) -> dict[str, str] | None:
        """Return a relation that a condition divides by the layer's number, from 1 on."""
        # A case whose layers differ is taken to be divided; multiplied back, all layers have to
        # agree.
        divided = [any(v != ABSENT and not equal(v, row[0]) for v in row) for row in measured]
        undone = [
            [v * (i + 1) if is_divided and v != ABSENT else v for i, v in enumerate(row)]
            for row, is_divided in zip(measured, divided, strict=True)
        ]
        if any(not equal(v, row[0]) for row in undone for v in row):
            return None
        fitted = fit(divided, self.fields)
        if fitted.text is None or fitted.missed:
            return None
        inner = self.value(path, [row[0] for row in undone], relations)
        if not isinstance(inner, dict) or "expr" not in inner:
            return None
        flag = self._given(f"{path}.is_divided", fitted, None, divided)
        return {"expr": f"{inner['expr']} / (layer_id + 1 if args.{flag['arg']} else 1)"}

    def layer_value(
        self,
        path: str,
        measured: Sequence[Sequence[Any]],
        relations: Sequence[str] = (),
        name: str | None = None,
        is_size: bool = False,
    ) -> Any:
        """Fit an option that may differ between layers."""
        uniform = uniform_values(measured)
        if uniform is not None:
            return self.value(path, uniform, relations, name, is_size)
        self.fields.prefer(path)
        if relations:
            divided = self._divided_by_layer(path, measured, relations)
            if divided is not None:
                return divided
        fitted = fit_layers(measured, self.fields)
        flat = [v for row in measured for v in row]
        return self._given(path, fitted, name, flat)

    def layout_value(self, path: str, measured: Sequence[Sequence[Any]]) -> Any:
        """Fit an option that decides what is written, which is what it is in the first case.

        Cases in which it is something else count as missed, so that the model refuses them.
        """
        present = [[v for v in row if v != ABSENT] for row in measured]
        first = next((row for row in present if row), [])
        if not first or any(not equal(v, first[0]) for v in first):
            return self.layer_value(path, measured)
        fitted = Fitted(None, first[0])
        for case, row in zip(self.cases, present, strict=True):
            if any(not equal(v, first[0]) for v in row):
                fitted.missed.append(case.name)
        return self._given(path, fitted, None, first)

    def _given(self, path: str, fitted: Fitted, name: str | None, values: Sequence[Any]) -> Any:
        self._note(path, fitted)
        if fitted.text is None:
            return fitted.constant
        kind = _type_of(values)
        if fitted.per_layer:
            kind = f"tuple[{kind}, ...]"
        single = re.fullmatch(r"(?:hf_config\.|getattr\(hf_config, ')(\w+)(', \w+\))?", fitted.text)
        parts = [p for p in path.split(".") if p not in {"modules", "when", "args"}][-2:]
        option = "_".join(["has", *parts] if path.endswith("when") else parts)
        # A field that is read as it is gives the argument its name.
        chosen = name or (single.group(1) if single else re.sub(r"\W+", "_", option))
        doc = path.replace("modules.", "").replace(".", " ").replace("_", " ").strip()
        return self.add(chosen, kind, fitted, f"{doc[:1].upper()}{doc[1:]}.")

    def gives(self, value: Any, measured: Sequence[Sequence[Any]]) -> bool:
        """Return whether a value that was fitted before gives other measurements, too."""
        return all(
            m == ABSENT or self._is(value, number, layer, m)
            for number, row in enumerate(measured)
            for layer, m in enumerate(row)
        )

    def _is(self, value: Any, number: int, layer: int, measured: Any) -> bool:
        """Return whether a fitted value gives the measurement of a layer of one case."""
        if not isinstance(value, dict):
            return equal(value, measured)
        if "expr" in value:
            return self._holds(value["expr"], number, measured)
        name = value.get("arg", value.get("layer_arg"))
        text = next(text for (text, _), known in self.by_text.items() if known == name)
        return equal(evaluate(text, self.cases[number], layer), measured)

    def add_layer_types(self) -> dict[str, Any]:
        """Add the layers' types as the configuration names them."""
        fitted = Fitted("hf_config.layer_types[i]", per_layer=True)
        return self.add(
            "layer_types", "tuple[str, ...]", fitted, "Kind of attention of each layer."
        )

    def _relation(self, measured: Sequence[Any], relations: Sequence[str]) -> str | None:
        present = [(i, value) for i, value in enumerate(measured) if value != ABSENT]
        for text in relations:
            if present and all(self._holds(text, i, value) for i, value in present):
                return text
        return None

    def _holds(self, relation: str, number: int, value: Any) -> bool:
        """Return whether an expression over standard arguments gives a case's measurement."""
        scope = {n: v[number] for n, v in self.known.items()}
        try:
            # The relations are written in this package, and no part of them comes from a
            # configuration.
            return equal(eval(relation, {"args": SimpleNamespace(**scope)}), value)
        except (AttributeError, TypeError, ZeroDivisionError):
            return False

    def _note(self, path: str, fitted: Fitted) -> None:
        for case in fitted.missed:
            self.missed.setdefault(case, set()).add(path)
        given = len(self.cases) - len(fitted.missed)
        how = f"gives what {given} of {len(self.cases)} instances show"
        if fitted.text is None:
            self._evidence(path, repr(fitted.constant), "the same in every instance")
        else:
            self._evidence(path, fitted.text, how)

    def _evidence(self, path: str, value: str, how: str) -> None:
        self.evidence.append({"decision": path, "value": value, "kind": "probe", "how": how})

    def at(self, case: Case) -> dict[str, Any]:
        """Return the values of all arguments under a configuration."""
        return {
            name: [evaluate(text, case, i) for i in range(case.n_layers)]
            if per_layer
            else evaluate(text, case)
            for (text, per_layer), name in self.by_text.items()
        }

    def as_json(self) -> list[dict[str, Any]]:
        """Return the arguments, the standard ones first."""
        first = [self.args[n] for n in STANDARD if n in self.args]
        return first + [a for n, a in self.args.items() if n not in STANDARD]


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return None if value == ABSENT else value


def _type_of(values: Sequence[Any]) -> str:
    present = [v for v in values if v != ABSENT]
    real = [v for v in present if v is not None]
    if not real:
        return "object"
    fits = (name for name, types in _TYPES.items() if all(isinstance(v, types) for v in real))
    kind = next(fits, "object")
    return f"{kind} | None" if len(real) < len(present) else kind


_TYPES: dict[str, Any] = {
    "bool": bool,
    "int": int,
    "float": (int, float),
    "str": str,
    "tuple[float, ...]": (list, tuple),
}
"""Types of arguments, and what their values are instances of; the first that fits counts."""
