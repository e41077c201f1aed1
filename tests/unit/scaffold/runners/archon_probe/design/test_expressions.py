"""Does the fit find the expression that gives every measurement, and say where none does?"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from archon_probe.design.expressions import (
    ABSENT,
    Case,
    Fields,
    evaluate,
    fit,
    fit_layers,
)

Json = dict[str, Any]


class Config(SimpleNamespace):
    """Is a configuration with the fields it is given."""

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


BASE: Json = {
    "hidden_size": 64,
    "heads": 4,
    "head_dim": None,
    "eps": 1e-6,
    "scalar": 24,
    "use_bias": False,
    "window": 5,
    "every": 2,
    "layer_types": ["full", "near", "full", "near"],
    "dense_layers": [],
    "act": "silu",
    "gating": True,
    "act_fn": {"name": "tanh"},
}


RANGE: Json = {"first": 1, "each": 1, "last": 3}


def cases(*flips: Json) -> list[Any]:
    """Returns the base and one case for each flip."""
    found = [Case("default", Config(**BASE), 4)]
    return found + [Case(str(f), Config(**{**BASE, **f}), 4) for f in flips]


@pytest.mark.parametrize(
    ("flips", "measured", "text"),
    [
        ([{"eps": 1e-5}], [1e-6, 1e-5], "hf_config.eps"),
        ([{"scalar": 16}], [24**-0.5, 0.25], "hf_config.scalar**-0.5"),
        (
            [{"scalar": 16}, {"hidden_size": 48}],
            [(64 / 24) ** 0.5, 2.0, 2**0.5],
            "(hf_config.hidden_size / hf_config.scalar)**0.5",
        ),
        ([{"use_bias": True}], [False, True], "hf_config.use_bias"),
        ([{"use_bias": True}], [True, False], "not hf_config.use_bias"),
        ([{"act": "gelu"}], ["silu", "gelu"], "hf_config.act"),
        ([{"act_fn": {"name": "relu"}}], ["tanh", "relu"], "hf_config.act_fn['name']"),
        (
            [{"gating": v} for v in (False, "whole", "each")],
            ["head", "dim", "head", "dim"],
            "'head' if hf_config.gating in (True, 'whole') else 'dim'",
        ),
        (
            [{"head_dim": 8}, {"hidden_size": 32}],
            [16, 8, 8],
            "hf_config.head_dim or hf_config.hidden_size // hf_config.heads",
        ),
    ],
)
def test_an_option_follows_from_the_simplest_expression(
    flips: list[Json], measured: list[Any], text: str
) -> None:
    every = cases(*flips)

    found = fit(measured, Fields(every))

    assert (found.text, found.missed) == (text, [])


def test_what_never_changes_is_a_constant() -> None:
    every = cases({"eps": 1e-5})

    found = fit([0.5, 0.5], Fields(every))

    assert (found.text, found.constant) == (None, 0.5)


def test_a_size_follows_from_a_field_although_it_never_changed() -> None:
    every = cases()

    assert fit([64], Fields(every), is_size=True).text == "hf_config.hidden_size"


def test_a_measurement_that_no_expression_gives_is_named() -> None:
    every = cases({"eps": 1e-5}, {"eps": 1e-5, "every": 2})

    found = fit([1e-6, 1e-5, 123.456], Fields(every))

    assert found.missed == ["{'eps': 1e-05, 'every': 2}"]


def test_of_fields_with_one_value_the_one_that_is_called_alike_wins() -> None:
    fields = Fields(cases({"window": 7, "every": 7}, {"window": 9, "every": 9}))
    fields.prefer("attention.window")

    assert fit([5, 7, 9], fields).text == "hf_config.window"


@pytest.mark.parametrize(
    ("flip", "rows", "text"),
    [
        (
            {"layer_types": ["near", "near", "full", "full"]},
            [[None, 5, None, 5], [5, 5, None, None]],
            "hf_config.window",
        ),
        (
            {"every": 3},
            [[False, True, False, True], [False, False, True, False]],
            "% hf_config.every",
        ),
        ({"dense_layers": [1]}, [[True] * 4, [True, False, True, True]], "hf_config.dense_layers"),
        ({"eps": 1e-5}, [[0.5, 0.25, 1 / 6, 0.125]] * 2, "1.0 / (2 * (i + 1))"),
    ],
)
def test_an_option_of_layers_follows_from_their_number(
    flip: Json, rows: list[list[Any]], text: str
) -> None:
    every = cases(flip)

    found = fit_layers(rows, Fields(every))

    assert found.missed == []
    assert text in found.text
    for case, row in zip(every, rows, strict=True):
        assert [evaluate(found.text, case, i) for i in range(4)] == row


def test_a_text_of_a_range_of_layers_follows_from_its_field() -> None:
    changes: list[tuple[Json, list[str | None]]] = [
        ({}, [None, "silu", "silu", "silu"]),
        ({"first": 2}, [None, None, "silu", "silu"]),
        ({"each": 2}, [None, "silu", None, "silu"]),
        ({"last": 1}, [None, "silu", None, None]),
        ({"act": "gelu"}, [None, "gelu", "gelu", "gelu"]),
    ]
    every = [Case(str(flip), Config(**{**BASE, **RANGE, **flip}), 4) for flip, _ in changes]

    found = fit_layers([row for _, row in changes], Fields(every))

    assert found.missed == []
    assert found.text is not None
    assert found.text.startswith("hf_config.act if ")


def test_what_an_instance_lacks_says_nothing() -> None:
    every = cases({"use_bias": True}, {"eps": 1e-5})

    found = fit([ABSENT, 1e-6, 1e-5], Fields(every))

    assert (found.text, found.missed) == ("hf_config.eps", [])


@pytest.mark.parametrize(
    ("last", "flips", "until"),
    [
        (3, [], "i <= hf_config.last"),
        (-1, [], "i <= hf_config.last % n_layers"),
        (None, [], "(hf_config.last is None or i <= hf_config.last)"),
        (
            -1,
            [({"last": None}, [False, True, True, True])],
            "(hf_config.last is None or i <= hf_config.last % n_layers)",
        ),
    ],
)
def test_layers_may_be_a_range_that_ends(
    last: int | None, flips: list[tuple[Json, list[bool]]], until: str
) -> None:
    changes = [
        ({}, [False, True, True, True]),
        ({"first": 2}, [False, False, True, True]),
        ({"each": 2}, [False, True, False, True]),
        ({"last": 1}, [False, True, False, False]),
        *flips,
    ]
    base = {**BASE, **RANGE, "last": last}
    every = [Case(str(flip), Config(**{**base, **flip}), 4) for flip, _ in changes]
    rows = [row for _, row in changes]

    inside = fit_layers(rows, Fields(every))
    outside = fit_layers([[not v for v in row] for row in rows], Fields(every))

    assert inside.missed == outside.missed == []
    assert until in inside.text
    for case, row in zip(every, rows, strict=True):
        assert [evaluate(inside.text, case, i) for i in range(4)] == row
        assert [not evaluate(outside.text, case, i) for i in range(4)] == row


def test_a_field_that_only_some_configurations_have_is_read_with_a_default() -> None:
    found = cases({"own_dim": 24}, {"hidden_size": 48}, {"own_dim": 8, "heads": 2})
    fitted = fit([16, 24, 12, 8], Fields(found), is_size=True)
    assert fitted.text == (
        "getattr(hf_config, 'own_dim', None) or hf_config.hidden_size // hf_config.heads"
    )
    assert fitted.missed == []


def test_a_switch_that_only_some_configurations_have_is_off_in_the_others() -> None:
    fitted = fit([False, True, False], Fields(cases({"own_bias": True}, {"heads": 2})))
    assert (fitted.text, fitted.missed) == ("getattr(hf_config, 'own_bias', False)", [])


@pytest.mark.parametrize("text", ["hf_config.window // 2 + 1", "hf_config.window + 1"])
def test_a_window_may_leave_out_the_token_itself(text: str) -> None:
    flips: list[Json] = [{"window": 9}, {"layer_types": ["near", "full", "near", "full"]}]
    found = cases(*flips)
    windows = [
        [evaluate(text, c) if kind == "near" else None for kind in c.config.layer_types]
        for c in found
    ]
    fitted = fit_layers(windows, Fields(found))
    assert not fitted.missed
    assert fitted.text is not None
    assert fitted.text.startswith(f"{text} if ")


def test_the_first_layer_is_not_counted_by_a_width() -> None:
    """A model has fewer layers than features, so that a width would do as a period too."""
    found = cases({"hidden_size": 48})
    fitted = fit_layers([[True, False, False, False]] * 2, Fields(found))
    assert (fitted.text, fitted.missed) == ("i == 0", [])
    period = cases({"every": 3})
    rows = [[i % c.config.every == 0 for i in range(4)] for c in period]
    assert fit_layers(rows, Fields(period)).text == "i % hf_config.every == 0"


def test_a_period_is_told_by_its_name_where_it_is_longer_than_the_model() -> None:
    base = {**BASE, "attn_layer_period": 8, "attn_layer_offset": 2}
    found = [Case("default", Config(**base), 4)]
    fitted = fit_layers([[False, False, True, False]], Fields(found))
    assert fitted.text == "i % hf_config.attn_layer_period == hf_config.attn_layer_offset"
