"""Do measured options become arguments, and what decides the text of a model a constant?"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from archon_probe.design.arguments import Arguments
from archon_probe.design.expressions import ABSENT, Case


class Config(SimpleNamespace):
    """Is a configuration with the fields it is given."""

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def arguments() -> Arguments:
    """Returns the arguments of two layers, with a norm of one kind and of another."""
    cases = [Case(kind, Config(norm=kind), 2) for kind in ("rms", "layer")]
    return Arguments(cases[0], [(case, None) for case in cases])


def test_an_option_that_follows_a_field_becomes_an_argument() -> None:
    made = arguments()

    assert made.layer_value("norm.kind", [["rms"] * 2, ["layer"] * 2]) == {"arg": "norm"}
    assert made.missed == {}


def test_what_decides_the_text_stays_as_it_is_and_other_cases_are_missed() -> None:
    made = arguments()

    assert made.layout_value("norm.kind", [["rms", ABSENT], ["rms", "layer"]]) == "rms"
    assert made.missed == {"layer": {"norm.kind"}}
    assert made.args == {}


def test_a_part_that_only_other_cases_have_is_what_it_is_there() -> None:
    made = arguments()

    assert made.layout_value("norm.kind", [[ABSENT] * 2, ["layer"] * 2]) == "layer"
    assert made.layout_value("norm.over", [[ABSENT] * 2] * 2) is None
    assert made.missed == {}


def test_what_differs_between_the_layers_of_one_model_has_no_one_text() -> None:
    made = arguments()

    found = made.layout_value("norm.kind", [["rms", "layer"], ["rms", "layer"]])

    assert "layer_arg" in found


def test_a_field_may_state_what_follows_from_others_where_it_is_none() -> None:
    scales = (None, 0.7, None)
    cases = [Case(str(n), Config(size=64 + n, scale=v), 2) for n, v in enumerate(scales)]
    made = Arguments(cases[0], [(case, None) for case in cases])
    made.standard("dim", [64, 65, 66], "dim")

    found = made.value("attention.scale", [0.125, 0.7, 66**-0.5], ("args.dim**-0.5",))

    assert found == {"expr": "(args.dim**-0.5 if args.scale is None else args.scale)"}
    assert made.args["scale"]["type"] == "float | None"
    assert made.missed == {}


def test_a_field_may_multiply_what_follows_from_others() -> None:
    """Falcon-H1 multiplies keys, and with them the scale of its scores."""
    configs = [Config(heads=6, factors=[factor, 2.0]) for factor in (1.0, 1.5)]
    cases = [Case(str(config.factors), config, 3) for config in configs]
    made = Arguments(cases[0], [(case, None) for case in cases])
    made.known["head_dim"] = [16, 16]

    found = made.value("scale", [0.25, 0.375], ("args.head_dim**-0.5",))

    assert found == {"expr": "args.head_dim**-0.5 * args.scale_multiplier"}
    assert made.args["scale_multiplier"]["expr"] == "hf_config.factors[0]"


def test_a_number_that_only_some_layers_have_is_left_to_each_layer() -> None:
    flips = [{}, {"heads": 2}, {"width": 32}]
    cases = [Case(str(f), Config(**{"heads": 4, "width": 64, **f}), 2) for f in flips]
    of_all, of_some = (Arguments(cases[0], [(c, None) for c in cases]) for _ in range(2))

    of_all.standard("n_heads", [4, 2, 8], "n_heads")
    of_some.standard("n_heads", [4, 2, 8], "n_heads", is_of_some=True)

    assert of_all.missed == {"{'width': 32}": {"n_heads"}}
    assert of_some.missed == {}
    assert of_some.known["n_heads"] == [4, 2, 4]
