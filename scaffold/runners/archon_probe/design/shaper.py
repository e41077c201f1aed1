"""Read options off observations, case by case, and fit those that several parts share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from archon_probe.design.arguments import Arguments
from archon_probe.design.expressions import ABSENT, Case
from archon_probe.measure.observation import Observation

Measured = Sequence[tuple[Case, Observation]]

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


class Shaper:
    """The observations of a model, and the arguments that their options are fitted to.

    Args:
        arguments: Collects what is fitted.
        measured: Observations by case.
    """

    def __init__(self, arguments: Arguments, measured: Measured) -> None:
        self.arguments = arguments
        self.measured = measured

    def whole(self, get: Callable[[Observation], Any]) -> list[Any]:
        """Return an option of the model in each case."""
        return [read(observation, get) for _, observation in self.measured]

    def rows(self, get: Callable[[dict[str, Any]], Any]) -> list[list[Any]]:
        """Return an option of layers in each case."""
        return each([observation.layers for _, observation in self.measured], get)

    def modules(self, name: str) -> list[list[Any]]:
        """Return the features of one module of each layer in each case."""
        return self.rows(lambda layer: layer["modules"][name])

    def norm(self, path: str, rows: list[list[Any]], extra: Sequence[str] = ()) -> dict[str, Any]:
        """Fit a norm; ``rows`` are its features in each layer, or one in a row for the model."""
        a = self.arguments
        when = a.layer_value(f"{path}.when", each(rows, lambda n: bool(n.get("when"))))
        if when is False:
            return {"when": False}
        used = each(rows, lambda n: n if n.get("when") else ABSENT)
        found: dict[str, Any] = {"when": when}
        kinds = each(used, "kind")
        # The plan of tensor parallelism fixes how the norm of what is split is computed.
        if path.partition(".")[0] in {"attention", "mlp"}:
            found["kind"] = a.layout_value(f"{path}.kind", kinds)
        else:
            found["kind"] = a.layer_value(f"{path}.kind", kinds, name="norm_kind")
        for key in ("offset", "weight", *extra):
            fit_value = a.layer_value if key == "weight" else a.layout_value
            found[key] = fit_value(f"{path}.{key}", each(used, key))
        # Of rounding: what a variation cannot change, and no other option follows from.
        first = next(n for row in used for n in row if n != ABSENT)
        found["weight_in_fp32"] = bool(first.get("weight_in_fp32"))
        widths = HEAD_WIDTHS.get(path, WIDTHS)
        found["dim"] = a.layer_value(f"{path}.dim", each(used, "dim"), widths)
        found["eps"] = a.layer_value(f"{path}.eps", each(used, "eps"), ("args.norm_eps",))
        found["bias"] = a.layer_value(f"{path}.bias", each(used, "bias"))
        # A weight for each head, as against one that all heads share.
        per_head = each(used, lambda n: n.get("heads", 0) > 0)
        found["per_head"] = a.layout_value(f"{path}.per_head", per_head)
        return found
