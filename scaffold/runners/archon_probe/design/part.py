"""Parts of a design, whose options are fitted one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from archon_probe.design.arguments import Arguments, each
from archon_probe.design.expressions import ABSENT

# What the width of a norm may follow from; tried in this order.
WIDTHS = (
    "args.dim",
    "args.head_dim",
    "args.n_heads * args.head_dim",
    "args.n_kv_heads * args.head_dim",
    "args.hidden_dim",
)
HEAD_WIDTHS = {
    "attention.q_norm": ("args.head_dim", "args.n_heads * args.head_dim"),
    "attention.k_norm": ("args.head_dim", "args.n_kv_heads * args.head_dim"),
}


class Part:
    """A part of a design whose options are fitted one after the other.

    Args:
        arguments: Collects what is fitted.
        path: Of the part in the design.
        rows: Its features by case and layer; of the model as a whole, one in a row.
    """

    def __init__(self, arguments: Arguments, path: str, rows: list[list[Any]]) -> None:
        self.arguments, self.path, self.rows = arguments, path, rows

    def each(self, *keys: Any) -> list[list[Any]]:
        """Return an option by case and layer, see ``read``."""
        return each(self.rows, *keys)

    def of(self, key: str) -> Part:
        """Return a part of this part."""
        return Part(self.arguments, f"{self.path}.{key}", self.each(key))

    def has(self, key: str, value: Any = ABSENT) -> bool:
        """Return whether some layer has an option, or has another value of it than one."""
        return any(v not in (ABSENT, value) for row in self.each(key) for v in row)

    def fit(
        self, key: str, relations: Sequence[str] = (), *, feature: Any = None, **options: Any
    ) -> Any:
        """Fit an option; see ``Arguments.value``.

        Args:
            feature: What it is called among the features, if that is another name.
        """
        measured = self.each(feature or key)
        return self.arguments.layer_value(f"{self.path}.{key}", measured, relations, **options)

    def layout(self, key: str, *, feature: Any = None) -> Any:
        """Fit an option that decides what is written."""
        return self.arguments.layout_value(f"{self.path}.{key}", self.each(feature or key))

    def factor(self, key: str, name: str | None = None) -> dict[str, Any]:
        """Fit a number that something is multiplied by; it is left out where it is always 1."""
        value = literal_one(self.fit(key, ("1.0",), name=name))
        return {} if value == 1.0 else {key: value}

    def optional(
        self,
        key: str,
        options: Iterable[str],
        layouts: Sequence[str] = (),
        relations: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Fit a part that some configurations may have, and those of its options that it has."""
        part = self.of(key)
        when = part.fit("when")
        if when is False:
            return {}
        found = {"when": when}
        for option in filter(part.has, options):
            is_layout = option in layouts
            found[option] = part.layout(option) if is_layout else part.fit(option, relations)
        return {key: found}

    def norm(self, extra: Sequence[str] = ()) -> dict[str, Any]:
        """Fit the options of a norm, and ``extra`` ones that decide what is written."""
        a, path = self.arguments, self.path
        when = a.layer_value(f"{path}.when", self.each(lambda n: bool(n.get("when"))))
        if when is False:
            return {"when": False}
        used = Part(a, path, self.each(lambda n: n if n.get("when") else ABSENT))
        found: dict[str, Any] = {"when": when}
        # The plan of tensor parallelism fixes how the norm of what is split is computed.
        is_split = path.partition(".")[0] in {"attention", "mlp"}
        found["kind"] = used.layout("kind") if is_split else used.fit("kind", name="norm_kind")
        found["offset"], found["weight"] = used.layout("offset"), used.fit("weight")
        found |= {key: used.layout(key) for key in extra}
        # Of rounding: what a variation cannot change, and no other option follows from.
        first = next(n for row in used.rows for n in row if n != ABSENT)
        found["weight_in_fp32"] = bool(first.get("weight_in_fp32"))
        found["dim"] = used.fit("dim", HEAD_WIDTHS.get(path, WIDTHS))
        found["eps"], found["bias"] = used.fit("eps", ("args.norm_eps",)), used.fit("bias")
        # A weight for each head, as against one that all heads share.
        found["per_head"] = used.layout("per_head", feature=lambda n: n.get("heads", 0) > 0)
        return found


def literal_one(weight: Any) -> Any:
    """Return a factor as a number where it is 1."""
    return 1.0 if weight == {"expr": "1.0"} else weight
