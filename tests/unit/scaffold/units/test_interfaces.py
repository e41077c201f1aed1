"""What tests of any code are written from: signatures as callers see them, and safe calls."""

from __future__ import annotations

import ast

import pytest

from scaffold.units.interfaces import Interface, interfaces


def found(text: str, only: str = "") -> dict[str, Interface]:
    return {each.name: each for each in interfaces(ast.parse(text), only)}


@pytest.mark.parametrize(
    ("text", "name", "parameters"),
    [
        ("def f(a, /, b=1, *, c, **k): ...", "f", "a, b=, *, c, **k"),
        ("def f(*a, c=1): ...", "f", "*a, c="),
        ("class K:\n    def f(__self, __x, *__a): ...", "K.f", "_K__self, _K__x, *_K__a"),
        ("class K:\n    @classmethod\n    def f(cls, a): ...", "K.f", "a"),
        ("@overload\ndef f(a: int): ...\n@overload\ndef f(a: str): ...\ndef f(a): ...", "f", "a"),
        ("@torch.no_grad()\ndef f(a): ...", "f", "a"),
    ],
)  # fmt: skip
def test_parameters_are_those_that_python_has(text: str, name: str, parameters: str) -> None:
    assert found(text)[name].parameters == parameters


@pytest.mark.parametrize(
    "text",
    [
        "@click.command()\ndef f(): ...",
        "@pytest.fixture\ndef f(a: str): ...",
        "def f(name: str): return AutoModel.from_pretrained(name)",
        "from huggingface_hub import hf_hub_download as get\ndef f(name: str): return get(name)",
        "def g(a): open(a)\ndef f(a: str): g(a)",
        "def f(a): ...",
    ],
)
def test_what_is_behind_a_decorator_or_reaches_out_is_called_by_its_author(text: str) -> None:
    each = found(text)["f"]
    assert (each.rows, each.drawn, each.is_called) == ((), (), True)


@pytest.mark.parametrize(
    ("signature", "drawn"),
    [
        ("a: str, b: int = 1", ("str",)),
        ("a: list[int], b: dict[str, float | None]", ("list[int]", "dict[str, float | None]")),
        ("a: 'str | None'", ("str | None",)),
        ("a: list", ()),  # of what?
        ("a: str, b: Path", ()),
        ("a: torch.Tensor", ()),
        ("", ()),
    ],
)
def test_values_are_drawn_where_the_types_allow(signature: str, drawn: tuple[str, ...]) -> None:
    assert found(f"def f({signature}): ...")["f"].drawn == drawn


def test_nothing_is_drawn_for_what_gives_another_value_each_time() -> None:
    assert found("def f(a: int): return random.random()")["f"].drawn == ()
