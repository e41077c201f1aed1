"""Layouts: what they are recognised by, which form of a registry is meant, what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scaffold.edit import shapes
from scaffold.edit.entry import Entry
from scaffold.errors import TemplateError
from scaffold.target.layouts import load_layouts
from scaffold.target.target import find_target
from scaffold.templating.manifests import templates_folder
from scaffold.templating.spec import fill

LAYOUTS = Path(__file__).parents[3] / "fixtures" / "layouts"
KINDS = ["archon-model", "dataset", "reward", "workflow"]

LAYOUT = """
schema = 1
name = "lib"
title = "a library"
package = "lib"
tests = "tests"
[[detect]]
files = ["lib/__init__.py"]
[[places]]
kind = "loss"
registry = "lib/losses/__init__.py:LOSSES"
"""


@pytest.mark.parametrize("form", ["older", "today"])
def test_a_checkout_is_recognised_in_both_forms(form: str) -> None:
    target = find_target(LAYOUTS / form, exact=True)
    assert (target.layout, target.package, target.tests) == ("areal-checkout", "areal", "tests")
    assert sorted(target.kinds) == KINDS


@pytest.mark.parametrize(
    ("form", "shapes_of"),
    [
        (
            "today",
            {
                "archon-model": ["import"],
                "dataset": ["list", "branch"],
                "reward": ["dict", "list"],
                "workflow": ["dict", "list"],
            },
        ),
        (
            "older",
            {
                "archon-model": ["import"],
                "dataset": ["list", "branch"],
                "reward": ["list", "branch"],
                "workflow": ["import", "list"],
            },
        ),
    ],
)
def test_each_kind_is_registered_in_the_form_of_its_file(
    form: str, shapes_of: dict[str, list[str]]
) -> None:
    kinds = find_target(LAYOUTS / form, exact=True).kinds
    assert {k: [rule.shape for rule in kinds[k].rules] for k in kinds} == shapes_of


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ("today", "from areal.experimental.models.archon.llama import spec as llama_spec"),
        ("older", "import areal.experimental.models.archon.llama.spec"),
    ],
)
def test_a_model_is_registered_by_an_import(form: str, line: str) -> None:
    place = find_target(LAYOUTS / form, exact=True).kinds["archon-model"]
    (rule,) = place.rules
    key, value = (fill(text, {"key": "llama"}) for text in (rule.key, rule.value))
    entry = Entry(place.registry.file, rule.table, rule.shape, key, value)
    before = (LAYOUTS / form / entry.file).read_bytes()
    edit = shapes.add_entry(before, entry)
    rows = edit.data.decode().splitlines()
    assert rows[edit.line - 1].startswith(line)
    assert len(rows) == len(before.splitlines()) + 1
    assert shapes.remove_entry(edit.data, entry) == before


def test_every_layout_that_ships_can_be_read() -> None:
    layouts = load_layouts(templates_folder() / "layouts")
    names = ["areal-checkout", "areal", "trinity-checkout", "trinity-plugins"]
    assert [layout.name for layout in layouts] == names
    for layout in layouts:
        for condition in (*layout.detect, *(each for row in layout.places for each in row.when)):
            assert re.compile(condition.matches)
            assert re.compile(condition.absent)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("schema = 1", "schema = 2"), "reads up to 1"),
        (('files = ["lib/__init__.py"]', 'file = "x"'), "file"),
        (("[[detect]]\nfiles", "[[other]]\nfiles"), "other"),
        (("LOSSES", "LOSSES[0]"), "must read"),
        (('name = "lib"\n', ""), "'name' is missing"),
        (("[[places]]", '[[places]]\nmatches = "("'), "matches"),
    ],
)
def test_a_wrong_layout_is_refused(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    (tmp_path / "lib.toml").write_text(LAYOUT.replace(*change))
    with pytest.raises(TemplateError, match=message) as refusal:
        load_layouts(tmp_path)
    assert "lib.toml" in refusal.value.message
